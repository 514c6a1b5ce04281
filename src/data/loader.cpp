// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>

#include "core/check.h"
#include "core/clock.h"
#include "core/cpu_info.h"
#include "data/memory_dataset.h"
#include "data/split_pipeline.h"
#include "data/stream_cursor.h"
#include "data/transfer_station.h"

namespace tr::data {
namespace {

constexpr int kMaxWorkers = 256;
constexpr int kMaxSlots = 64;

/// One worker's failure in one slot; read by the consumer once the batch is ready.
struct Failure {
  std::exception_ptr error;
  std::int64_t row = 0;
};

struct alignas(64) WorkerCounters {
  std::atomic<std::int64_t> read_ns{0}, transform_ns{0}, samples{0};
};

struct Totals {
  std::int64_t read_ns = 0, transform_ns = 0, samples = 0;
};

int chosen_workers(int asked) {
  TR_CHECK(asked >= 0 && asked <= kMaxWorkers,
           "loader: num_workers is {}, must be in 0..{} (0: chosen)", asked, kMaxWorkers);
  return asked > 0 ? asked : std::clamp(default_num_threads() - 1, 1, kMaxWorkers);
}

}  // namespace

struct Loader::Impl {
  Impl(LoaderConfig loader_config, PhaseFunction phase_function, std::int64_t start_phase,
       std::int64_t start_step)
      : config(prepared(std::move(loader_config))),
        phases(std::move(phase_function)),
        num_workers(chosen_workers(config.num_workers)),
        train(make_pipeline("training", config.train, Split::TRAIN)),
        val(make_pipeline("validation", config.val, Split::VAL)),
        consumer(phases, samplers(), start_phase, start_step),
        station(config.num_slots, slot_bytes(), num_workers),
        failures(std::size_t(config.num_slots * num_workers)),
        counters(std::size_t(num_workers)) {
    for (int s = 0; s < config.num_slots; ++s) {
      for (const Split split : {Split::TRAIN, Split::VAL}) {
        Batch& batch = batches[int(split)].emplace_back();
        batch.slot = s;
        if (pipeline(split)) batch.fields = pipeline(split)->field_pointers(station.slot_bytes(s));
      }
    }
    scratch.resize(std::size_t(num_workers));
    for (WorkerScratch& s : scratch) {
      if (train) train->reserve(s);
      if (val) val->reserve(s);
    }
    try {
      for (int w = 0; w < num_workers; ++w) {
        threads.emplace_back([this, w, cursor = consumer]() mutable {
          try {
            work(w, cursor);
          } catch (...) {  // only the walk along the phases throws: the consumer's cursor does so
                           // too, in next()
          }
        });
      }
    } catch (const std::system_error& error) {
      stop();
      throw_as<OutOfMemory>("loader: worker {} of {} cannot be started ({})", threads.size() + 1,
                            num_workers, error.what());
    }
  }

  ~Impl() { stop(); }

  void stop() {
    station.stop();
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  static LoaderConfig prepared(LoaderConfig config) {
    TR_CHECK(config.num_slots >= 2 && config.num_slots <= kMaxSlots,
             "loader: num_slots is {}, must be in 2..{}", config.num_slots, kMaxSlots);
    TR_CHECK(config.train.dataset || config.val.dataset,
             "loader: there is neither a training nor a validation set");
    if (!config.full_memory) return config;
    for (SplitConfig* split : {&config.train, &config.val}) {
      if (split->dataset) split->dataset = load_into_memory(std::move(split->dataset));
    }
    return config;
  }

  std::unique_ptr<SplitPipeline> make_pipeline(const char* who, const SplitConfig& split_config,
                                               Split split) {
    if (!split_config.dataset) return nullptr;
    return std::make_unique<SplitPipeline>(who, split_config, config, split);
  }

  SplitPipeline* pipeline(Split split) const {
    return split == Split::TRAIN ? train.get() : val.get();
  }
  SplitSamplers samplers() const {
    return {train ? &train->sampler() : nullptr, val ? &val->sampler() : nullptr};
  }
  std::size_t slot_bytes() const {
    return std::max(train ? train->slot_bytes() : 0, val ? val->slot_bytes() : 0);
  }
  Failure& failure(std::int64_t batch, int worker) {
    return failures[std::size_t(station.slot_of(batch) * num_workers + worker)];
  }

  /// Life of one worker: its static part of every batch of the stream.
  void work(int worker, StreamCursor& cursor) {
    for (std::int64_t batch = 0; !cursor.at_end(); ++batch, cursor.advance()) {
      if (!station.wait_writable(batch)) return;
      WorkProgress progress;
      Failure& mine = failure(batch, worker);
      mine.error = nullptr;
      try {
        fill_part(worker, batch, cursor, progress);
      } catch (...) {  // the worker's end of this batch: next() throws it to the consumer
        mine = {std::current_exception(), progress.row};
      }
      station.finish(batch);
    }
  }

  void fill_part(int worker, std::int64_t batch, const StreamCursor& cursor,
                 WorkProgress& progress) {
    const Share share = cursor.share();
    const std::int64_t first = share.size * worker / num_workers;
    const std::int64_t count = share.size * (worker + 1) / num_workers - first;
    const std::int64_t step_start = cursor.step() * cursor.sampler().config().global_batch;
    const WorkItem item{.order = &cursor.order(),
                        .epoch = cursor.phase().epoch,
                        .first_position = step_start + share.offset + first,
                        .first_row = first,
                        .count = count,
                        .slot = station.slot_bytes(batch)};
    pipeline(cursor.phase().split)->fill(item, scratch[std::size_t(worker)], progress);
    WorkerCounters& mine = counters[std::size_t(worker)];
    mine.read_ns.fetch_add(progress.read_ns, std::memory_order_relaxed);
    mine.transform_ns.fetch_add(progress.transform_ns, std::memory_order_relaxed);
    mine.samples.fetch_add(count, std::memory_order_relaxed);
  }

  /// Throws the failure of the earliest row, whichever worker met it.
  void check_failures(std::int64_t batch) {
    const Failure* first = nullptr;
    for (int w = 0; w < num_workers; ++w) {
      const Failure& f = failure(batch, w);
      if (f.error && (first == nullptr || f.row < first->row)) first = &f;
    }
    if (first != nullptr) std::rethrow_exception(first->error);
  }

  Batch* describe(std::int64_t batch) {
    Batch& b = batches[int(consumer.phase().split)][std::size_t(station.slot_of(batch))];
    const Share share = consumer.share();
    b.phase = consumer.phase();
    b.phase_index = consumer.phase_index();
    b.step = consumer.step();
    b.micro = consumer.micro();
    b.size = share.size;
    b.global_size = consumer.sampler().step_size(consumer.step());
    b.sample_offset = share.offset;
    b.last_in_phase = consumer.last_in_phase();
    return &b;
  }

  Totals totals() const {
    Totals sum;
    for (const WorkerCounters& c : counters) {
      sum.read_ns += c.read_ns.load(std::memory_order_relaxed);
      sum.transform_ns += c.transform_ns.load(std::memory_order_relaxed);
      sum.samples += c.samples.load(std::memory_order_relaxed);
    }
    return sum;
  }

  const LoaderConfig config;
  const PhaseFunction phases;
  const int num_workers;
  std::unique_ptr<SplitPipeline> train, val;
  StreamCursor consumer;  // at the batch that next() gives
  TransferStation station;
  std::vector<Failure> failures;  // [slots][workers]
  std::vector<WorkerCounters> counters;
  std::vector<WorkerScratch> scratch;
  std::vector<Batch> batches[2];         // by split, one a slot
  std::int64_t taken = 0, released = 0;  // batches given out and given back
  bool advance_pending = false;          // the cursor stands at a batch already given out
  double wait_ms = 0;
  Totals reported;
  std::vector<std::thread> threads;  // last: they use everything above
};

Loader::Loader(LoaderConfig config, std::function<std::optional<StreamPhase>(std::int64_t)> phases,
               std::int64_t start_phase, std::int64_t start_step)
    : impl_(std::make_unique<Impl>(std::move(config), std::move(phases), start_phase, start_step)) {
}

Loader::~Loader() = default;

const Batch* Loader::next() {
  Impl& m = *impl_;
  if (m.advance_pending) m.consumer.advance();
  m.advance_pending = false;
  if (m.consumer.at_end()) return nullptr;
  TR_CHECK(m.taken - m.released < m.station.num_slots(),
           "loader: all {} slots are out; release() a batch before the next one",
           m.station.num_slots());
  if (!m.station.is_ready(m.taken)) {
    const Stopwatch watch;
    m.station.wait_ready(m.taken);
    m.wait_ms += watch.ms();
  }
  m.check_failures(m.taken);
  m.advance_pending = true;
  return m.describe(m.taken++);
}

std::span<const std::byte> Loader::slot_memory() const { return impl_->station.memory(); }

void Loader::release(const Batch& batch) {
  Impl& m = *impl_;
  TR_CHECK(m.released < m.taken && batch.slot == m.station.slot_of(m.released),
           "loader: release() of slot {}, expected slot {} (in the order of next())", batch.slot,
           m.station.slot_of(m.released));
  m.station.release(m.released++);
}

LoaderStats Loader::stats() {
  Impl& m = *impl_;
  const Totals now = m.totals();
  LoaderStats stats{.wait_ms = m.wait_ms,
                    .read_ms = double(now.read_ns - m.reported.read_ns) * 1e-6,
                    .transform_ms = double(now.transform_ns - m.reported.transform_ns) * 1e-6,
                    .samples = now.samples - m.reported.samples};
  m.reported = now;
  m.wait_ms = 0;
  return stats;
}

std::int64_t Loader::num_steps(Split split) const {
  const SplitPipeline* pipeline = impl_->pipeline(split);
  return pipeline == nullptr ? 0 : pipeline->sampler().num_steps();
}

int Loader::num_workers() const { return impl_->num_workers; }

std::int64_t Loader::memory_bytes() const {
  std::int64_t bytes = impl_->station.memory_bytes();
  for (const WorkerScratch& s : impl_->scratch) bytes += s.num_bytes();
  for (const SplitPipeline* p : {impl_->train.get(), impl_->val.get()}) {
    if (p != nullptr) bytes += p->cache_bytes();
  }
  return bytes;
}

}  // namespace tr::data

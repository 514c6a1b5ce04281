// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <stop_token>

#include "core/check.h"
#include "core/clock.h"
#include "core/cpu_topology.h"
#include "core/format.h"
#include "core/human.h"
#include "core/log.h"
#include "data/loader_threads.h"
#include "data/split_pipeline.h"
#include "data/stream_cursor.h"
#include "data/transfer_station.h"
#include "data/unit_cursor.h"
#include "data/unit_ring.h"

namespace tr::data {
namespace {

constexpr int kMaxSlots = 64;

/// What became of a batch: the sample of its earliest row that failed.
struct Failure {
  std::exception_ptr error;
  std::int64_t row = 0;
};

/// Written by one thread, read by the consumer.
struct alignas(64) ThreadCounters {
  std::array<std::atomic<std::int64_t>, kNumStages> ns{};
  std::array<std::atomic<std::int64_t>, kNumDecodePaths> decoded{};
  std::atomic<std::int64_t> samples{0};
  std::atomic<std::int64_t> scratch_bytes{0};

  static void raise(std::atomic<std::int64_t>& counter, std::int64_t by) {
    counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  }
  void add(const StageTimes& times) {
    for (std::size_t s = 0; s < kNumStages; ++s) raise(ns[s], times.ns[s]);
    for (std::size_t p = 0; p < kNumDecodePaths; ++p) raise(decoded[p], times.decoded[p]);
  }
};

}  // namespace

void LoaderStats::add(const LoaderStats& other) {
  wait_ms += other.wait_ms;
  for (std::size_t s = 0; s < kNumStages; ++s) stage_ms[s] += other.stage_ms[s];
  samples += other.samples;
  for (std::size_t p = 0; p < kNumDecodePaths; ++p) decoded[p] += other.decoded[p];
}

struct Loader::Impl {
  Impl(LoaderConfig loader_config, PhaseFunction phase_function, std::int64_t start_phase,
       std::int64_t start_step)
      : config(prepared(std::move(loader_config))),
        phases(std::move(phase_function)),
        train(make_pipeline("training", config.train, Split::TRAIN)),
        val(make_pipeline("validation", config.val, Split::VAL)),
        counts(choose_threads(config, reads_files())),
        units(unit_plan()),
        consumer(phases, samplers(), start_phase, start_step),
        station(config.num_slots, slot_bytes()),
        failures(std::size_t(config.num_slots)),
        skipped(std::size_t(config.num_slots)),
        counters(std::size_t(counts.workers + counts.readers)),
        scratch(std::size_t(counts.workers)),
        threads(config.bind_threads) {
    for (int s = 0; s < config.num_slots; ++s) {
      for (const Split split : {Split::TRAIN, Split::VAL}) {
        Batch& batch = batches[int(split)].emplace_back();
        batch.slot = s;
        if (pipeline(split)) batch.fields = pipeline(split)->field_pointers(station.slot_bytes(s));
      }
    }
    for (int w = 0; w < counts.workers; ++w) {
      WorkerScratch& s = scratch[std::size_t(w)];
      if (train) train->reserve(s);
      if (val) val->reserve(s);
      note_scratch(w);
    }
    make_buffers();
    place_slots();
    try {
      const UnitCursor start(consumer, units);
      threads.start("read", counts.readers, [this, start](int r) { run(start, r, &Impl::read); });
      threads.start("work", counts.workers, [this, start](int w) { run(start, w, &Impl::work); });
    } catch (...) {  // the threads that did start must end
      stop();
      throw;
    }
  }

  ~Impl() { stop(); }

  void stop() {
    stop_reading.request_stop();
    station.stop();
    if (ring) ring->stop();
    threads.join();
  }

  /// Slots come from the memory of the consumer's node: a device near it copies from them.
  void place_slots() const {
    const int node = memory_node_of(sched_getcpu());
    if (node < 0 || prefer_memory_node(station.memory(), node)) return;
    log_info("loader: its slots are not bound to memory node {}: the system refuses it", node);
  }

  /// Where samples lie between being read and written: each worker's own place, or the ring that
  /// readers fill ahead of the workers.
  void make_buffers() {
    std::size_t unit_bytes = 0;
    std::int64_t pictures = 0;
    for (const Split split : {Split::TRAIN, Split::VAL}) {
      const SplitPipeline* p = pipeline(split);
      if (p == nullptr) continue;
      const std::int64_t samples = units.samples[std::size_t(split)];
      unit_bytes = std::max(unit_bytes, std::size_t(samples) * p->input_stride());
      if (p->reads_files()) pictures = std::max(pictures, samples);
    }
    // Every thread has one in hand, and as many again wait for their turn.
    const int count = counts.readers > 0 ? 2 * (counts.workers + counts.readers) : counts.workers;
    UnitBuffers made(count, unit_bytes, pictures, stop_reading.get_token());
    if (counts.readers > 0) {
      ring.emplace(std::move(made));
    } else {
      own.emplace(std::move(made));
    }
  }

  static LoaderConfig prepared(LoaderConfig config) {
    TR_CHECK(config.num_slots >= 2 && config.num_slots <= kMaxSlots,
             "loader: num_slots is {}, must be in 2..{}", config.num_slots, kMaxSlots);
    TR_CHECK(config.train.dataset || config.val.dataset,
             "loader: there is neither a training nor a validation set");
    if (!config.full_memory) return config;
    for (SplitConfig* split : {&config.train, &config.val}) {
      if (split->dataset) split->dataset = config.full_memory->get(split->dataset);
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
  bool reads_files() const {
    return (train && train->reads_files()) || (val && val->reads_files());
  }
  UnitPlan unit_plan() const {
    return {{unit_samples_of(Split::TRAIN), unit_samples_of(Split::VAL)},
            {train && train->mixes(), val && val->mixes()}};
  }
  /// As many as leave each worker some units of the batches that may be filled.
  std::int64_t unit_samples_of(Split split) const {
    if (pipeline(split) == nullptr) return 1;
    const std::int64_t rows = config.of(split).batch_size * config.num_slots;
    return pipeline(split)->unit_samples(rows / (2 * counts.workers));
  }
  SplitSamplers samplers() const {
    return {train ? &train->sampler() : nullptr, val ? &val->sampler() : nullptr};
  }
  std::size_t slot_bytes() const {
    return std::max(train ? train->slot_bytes() : 0, val ? val->slot_bytes() : 0);
  }
  /// Life of a thread: one unit of the stream after the other, in turn with its like.
  void run(UnitCursor cursor, int thread, bool (Impl::*take)(const Unit&, std::int64_t, int)) {
    std::atomic<std::int64_t>& next = take == &Impl::work ? next_to_work : next_to_read;
    try {
      for (;;) {
        const std::int64_t index = next.fetch_add(1, std::memory_order_relaxed);
        if (!cursor.seek(index) || !(this->*take)(cursor.unit(), index, thread)) return;
      }
    } catch (...) {  // only the walk along the phases throws: the consumer's cursor does so too, in
                     // next()
    }
  }

  bool read(const Unit& unit, std::int64_t index, int reader) {
    if (!ring->wait_free(index)) return false;
    read_into(ring->buffer(index), unit, counters[std::size_t(counts.workers + reader)]);
    ring->put(index);
    return true;
  }

  bool work(const Unit& unit, std::int64_t index, int worker) {
    if (!station.wait_writable(unit.batch)) return false;
    if (ring && !ring->wait_full(index)) return false;
    UnitBuffer& buffer = ring ? ring->buffer(index) : (*own)[std::size_t(worker)];
    ThreadCounters& mine = counters[std::size_t(worker)];
    if (!ring) read_into(buffer, unit, mine);
    if (!buffer.error) write_from(buffer, unit, worker);
    if (buffer.error) note_failure(unit.batch, buffer);
    if (!buffer.skipped.empty()) note_skipped(unit.batch, buffer);
    if (ring) ring->take(index);
    if (!unit.is_partner()) ThreadCounters::raise(mine.samples, unit.count);
    if (station.finish(unit.batch, unit.units_of_batch)) {
      complete(unit, mine);
      station.hand_over(unit.batch);
    }
    return true;
  }

  /// What needs the whole batch, by the thread that wrote its last unit.
  void complete(const Unit& unit, ThreadCounters& mine) {
    Failure& failure = failures[std::size_t(station.slot_of(unit.batch))];
    if (failure.error) return;
    try {
      fill_skipped(unit);
      if (!pipeline(unit.split)->mixes()) return;
      const std::int64_t start_ns = now_ns();
      pipeline(unit.split)->mix(unit, station.slot_bytes(unit.batch));
      StageTimes times;
      times[Stage::MIX] = now_ns() - start_ns;
      mine.add(times);
    } catch (...) {  // next() throws it to the consumer
      failure.error = std::current_exception();
    }
  }

  void read_into(UnitBuffer& buffer, const Unit& unit, ThreadCounters& mine) {
    StageTimes times;
    buffer.error = nullptr;
    try {
      pipeline(unit.split)->read(unit, buffer, times);
    } catch (...) {  // next() throws it to the consumer
      buffer.error = std::current_exception();
    }
    mine.add(times);
  }

  void write_from(UnitBuffer& buffer, const Unit& unit, int worker) {
    StageTimes times;
    try {
      pipeline(unit.split)
          ->write(unit, buffer, station.slot_bytes(unit.batch), scratch[std::size_t(worker)],
                  times);
    } catch (...) {  // next() throws it to the consumer
      buffer.error = std::current_exception();
    }
    counters[std::size_t(worker)].add(times);
    note_scratch(worker);
  }

  /// Scratch grows to the largest picture; others than its worker may not look at it.
  void note_scratch(int worker) {
    counters[std::size_t(worker)].scratch_bytes.store(scratch[std::size_t(worker)].num_bytes(),
                                                      std::memory_order_relaxed);
  }

  void note_failure(std::int64_t batch, const UnitBuffer& buffer) {
    const std::lock_guard lock(failure_mutex);
    Failure& failure = failures[std::size_t(station.slot_of(batch))];
    if (!failure.error || buffer.row < failure.row) failure = {buffer.error, buffer.row};
  }

  void note_skipped(std::int64_t batch, const UnitBuffer& buffer) {
    const std::lock_guard lock(failure_mutex);
    std::vector<std::int64_t>& rows = skipped[std::size_t(station.slot_of(batch))];
    rows.insert(rows.end(), buffer.skipped.begin(), buffer.skipped.end());
  }

  /// Gives rows without a sample of their own one of the same batch.
  void fill_skipped(const Unit& unit) {
    std::vector<std::int64_t>& rows = skipped[std::size_t(station.slot_of(unit.batch))];
    if (rows.empty()) return;
    std::sort(rows.begin(), rows.end());
    const std::int64_t size = unit.batch_size;
    const bool no_partner = rows.back() == size;  // its own micro-batch is another one
    if (no_partner) rows.pop_back();
    const auto copies = rows_to_copy(rows, size);
    if (copies.empty() && !rows.empty()) {
      throw_as<DataError>(
          "none of the {} samples of a batch can be read (bad_sample_policy is skip); the last "
          "reason: {}",
          size, config.bad_samples->last());
    }
    const SplitPipeline& p = *pipeline(unit.split);
    std::byte* slot = station.slot_bytes(unit.batch);
    for (const auto& [to, from] : copies) p.copy_row(slot, from, to);
    if (no_partner) p.copy_row(slot, size - 1, size);
    rows.clear();
  }

  /// Of a batch that is ready. One that failed never leaves its slot, so failures stay.
  void check_failure(std::int64_t batch) {
    const Failure& failure = failures[std::size_t(station.slot_of(batch))];
    if (failure.error) std::rethrow_exception(failure.error);
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

  LoaderStats totals() const {
    LoaderStats sum{.wait_ms = wait_ms};
    for (const ThreadCounters& c : counters) {
      for (std::size_t s = 0; s < kNumStages; ++s)
        sum.stage_ms[s] += double(c.ns[s].load(std::memory_order_relaxed)) * 1e-6;
      sum.samples += c.samples.load(std::memory_order_relaxed);
      for (std::size_t p = 0; p < kNumDecodePaths; ++p)
        sum.decoded[p] += c.decoded[p].load(std::memory_order_relaxed);
    }
    return sum;
  }

  const LoaderConfig config;
  const PhaseFunction phases;
  std::unique_ptr<SplitPipeline> train, val;
  const ThreadCounts counts;
  const UnitPlan units;
  StreamCursor consumer;  // at the batch that next() gives
  TransferStation station;
  std::mutex failure_mutex;                        // taken only by threads that met a failure
  std::vector<Failure> failures;                   // by slot
  std::vector<std::vector<std::int64_t>> skipped;  // by slot: rows without a sample
  std::vector<ThreadCounters> counters;            // workers, then readers
  std::vector<WorkerScratch> scratch;
  std::stop_source stop_reading;
  std::optional<UnitBuffers> own;  // by worker
  std::optional<UnitRing> ring;
  std::vector<Batch> batches[2];         // by split, one a slot
  std::int64_t taken = 0, released = 0;  // batches given out and given back
  bool advance_pending = false;          // the cursor stands at a batch already given out
  double wait_ms = 0;
  LoaderStats reported;
  alignas(64) std::atomic<std::int64_t> next_to_read{0};  // units of the stream
  alignas(64) std::atomic<std::int64_t> next_to_work{0};
  LoaderThreads threads;  // last: they use everything above
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
  m.check_failure(m.taken);
  m.advance_pending = true;
  return m.describe(m.taken++);
}

bool Loader::is_ready() const {
  StreamCursor next = impl_->consumer;
  if (impl_->advance_pending) next.advance();
  return next.at_end() || impl_->station.is_ready(impl_->taken);
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
  const LoaderStats now = m.totals();
  LoaderStats stats = now;
  stats.wait_ms -= m.reported.wait_ms;
  for (std::size_t s = 0; s < kNumStages; ++s) stats.stage_ms[s] -= m.reported.stage_ms[s];
  stats.samples -= m.reported.samples;
  for (std::size_t p = 0; p < kNumDecodePaths; ++p) stats.decoded[p] -= m.reported.decoded[p];
  m.reported = now;
  return stats;
}

std::int64_t Loader::num_steps(Split split) const {
  const SplitPipeline* pipeline = impl_->pipeline(split);
  return pipeline == nullptr ? 0 : pipeline->sampler().num_steps();
}

int Loader::num_workers() const { return impl_->counts.workers; }
int Loader::num_readers() const { return impl_->counts.readers; }

std::int64_t Loader::memory_bytes() const {
  const Impl& m = *impl_;
  std::int64_t bytes = m.station.memory_bytes();
  bytes += m.ring ? m.ring->memory_bytes() : m.own->memory_bytes();
  for (const ThreadCounters& c : m.counters) {
    bytes += c.scratch_bytes.load(std::memory_order_relaxed);
  }
  for (const SplitPipeline* p : {m.train.get(), m.val.get()}) {
    if (p != nullptr) bytes += p->kept_bytes();
  }
  return bytes;
}

std::string Loader::str() const {
  const Impl& m = *impl_;
  const auto counted = [](int n, const char* what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  std::string text = counted(m.counts.workers, "worker");
  if (m.counts.readers > 0) text += " and " + counted(m.counts.readers, "reader");
  return text + fmt::format(", {} batches of {} ahead, {} in all", m.config.num_slots,
                            format_bytes(std::int64_t(m.slot_bytes())),
                            format_bytes(memory_bytes()));
}

}  // namespace tr::data

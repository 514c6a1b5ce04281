// SPDX-License-Identifier: Apache-2.0
#include "data/loader_threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <system_error>

#include "core/block_signals.h"
#include "core/check.h"
#include "core/cpu_info.h"
#include "core/cpu_topology.h"
#include "core/format.h"
#include "core/log.h"

namespace tr::data {
namespace {

constexpr int kMaxThreads = 256;                      // of each kind
constexpr int kFewestReaders = 2, kMostReaders = 16;  // chosen

/// Binds thread `index` to `cores[index + 1]`, over and over; the first core is the consumer's.
void bind_thread(std::thread& thread, std::size_t index, const std::vector<int>& cores) {
  const int core = cores[(index + 1) % cores.size()];
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  const int error = pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
  if (error != 0) log_warning("loader: thread {} cannot be bound to core {}", index, core);
}

}  // namespace

ThreadCounts choose_threads(const LoaderConfig& config, bool reads_files) {
  TR_CHECK(config.num_workers >= 0 && config.num_workers <= kMaxThreads,
           "loader: num_workers is {}, must be in 0..{} (0: chosen)", config.num_workers,
           kMaxThreads);
  const bool chosen = config.num_readers == LoaderConfig::kChosen;
  TR_CHECK(chosen || (config.num_readers >= 0 && config.num_readers <= kMaxThreads),
           "loader: num_readers is {}, must be in 0..{}, or {} (chosen)", config.num_readers,
           kMaxThreads, LoaderConfig::kChosen);
  const int cores = default_num_threads();
  ThreadCounts counts{config.num_workers, config.num_readers};
  if (counts.workers == 0) counts.workers = std::clamp(cores - 1, 1, kMaxThreads);
  if (chosen) counts.readers = reads_files ? std::clamp(cores, kFewestReaders, kMostReaders) : 0;
  return counts;
}

void LoaderThreads::start(const char* kind, int count, const std::function<void(int)>& body) {
  const BlockSignals blocked;
  // Near the consumer: a device that it feeds copies from memory of its node.
  const std::vector<int> cores =
      bind_ ? nearest_first(usable_cores(), sched_getcpu()) : std::vector<int>();
  for (int i = 0; i < count; ++i) {
    try {
      threads_.emplace_back([body, i] { body(i); });
    } catch (const std::system_error& error) {
      throw_as<OutOfMemory>("loader: {}er {} of {} cannot be started ({})", kind, i + 1, count,
                            error.what());
    }
    pthread_setname_np(threads_.back().native_handle(), fmt::format("tr-{}-{}", kind, i).c_str());
    if (cores.size() > 1) bind_thread(threads_.back(), threads_.size() - 1, cores);
  }
}

void LoaderThreads::join() {
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

}  // namespace tr::data

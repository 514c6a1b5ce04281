// SPDX-License-Identifier: Apache-2.0
// The steps of a run that are timed, and what is shown of them.
#include "core/atomic_file.h"
#include "core/format.h"
#include "task/trainer.h"

namespace tr {

void Trainer::begin_timing() {
  if (!run_.config.train.trace_file.empty()) spans_.keep();
  if (timed_left_ > 0) ranks_.front()->executor().set_step_timing(true);
}

void Trainer::count_timed_step() {
  if (timed_left_ > 0 && --timed_left_ == 0) end_timing();
}

/// Also where the run was shorter than that.
void Trainer::end_timing() {
  Executor& executor = ranks_.front()->executor();
  executor.set_step_timing(false);
  for (StepTiming& timing : executor.take_step_timings()) timings_.push_back(std::move(timing));
}

void Trainer::write_trace() const {
  const std::string& path = run_.config.train.trace_file;
  if (path.empty()) return;
  const std::string device = run_.device.gpus.empty()
                                 ? std::string(name_of(run_.device.kind))
                                 : fmt::format("GPU {}", run_.device.gpus.front());
  write_file_atomically(path, chrome_trace(spans_, timings_, run_.compiled, device));
}

std::vector<VariantTimes> Trainer::step_times() const { return summarize(timings_, run_.compiled); }

std::string Trainer::graph(GraphFormat format) const {
  return write_graphs(shown_graphs(run_.compiled, timings_), format);
}

DeviceMemory Trainer::memory() const {
  DeviceMemory memory;
  for (const auto& rank : ranks_) {
    const MemoryUse use = rank->executor().memory();
    memory.arena_bytes += use.arena_bytes;
    memory.data_bytes += use.data_bytes;
    memory.total_bytes += use.total_bytes();
  }
  return memory;
}

}  // namespace tr

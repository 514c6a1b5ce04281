// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/step_timer.h"

#include "core/clock.h"

namespace tr::cuda {

void StepTimer::prepare(const Step& step) {
  const Key key(step.variant, step.split);
  if (graphs_.contains(key)) return;
  Timed timed;
  timed.events.resize(std::size_t(step.prepared->num_nodes()) + 2);
  const auto record = [&](std::size_t event) {
    // External: a node of the graph, which records the event anew in every launch.
    TR_CUDA(cudaEventRecordWithFlags(timed.events[event].handle, stream_, cudaEventRecordExternal));
  };
  const StepProbe probe{.begin =
                            [&] {
                              if (step.marks != nullptr) step.marks->begin();
                              record(0);
                            },
                        .behind =
                            [&](int node) {
                              record(std::size_t(node + 2));
                              if (step.marks != nullptr) step.marks->behind(node);
                            }};
  timed.exec = capture_in_order(stream_, *step.prepared, probe, step.frame);
  TR_CUDA(cudaGraphUpload(timed.exec.handle, stream_));
  graphs_.emplace(key, std::move(timed));
}

void StepTimer::run(const Step& step, std::int64_t begin_ns) {
  const Timed& timed = graphs_.at(Key(step.variant, step.split));
  TR_CUDA(cudaStreamSynchronize(stream_));  // the copies end, the graph begins when it is launched
  const double copying = double(now_ns() - begin_ns) * 1e-9;
  TR_CUDA(cudaGraphLaunch(timed.exec.handle, stream_));
  TR_CUDA(cudaStreamSynchronize(stream_));
  StepTiming timing{.variant = step.variant, .begin_ns = begin_ns, .spans = {}};
  double at = copying;
  for (std::size_t i = 1; i < timed.events.size(); ++i) {
    float ms = 0;
    TR_CUDA(cudaEventElapsedTime(&ms, timed.events[i - 1].handle, timed.events[i].handle));
    const double seconds = double(ms) / 1000;
    const bool copied = i == 1 && step.split < 0;  // before the graph
    timing.spans.push_back({int(i) - 2, copied ? 0 : at, copied ? copying : seconds});
    at += seconds;
  }
  timings_.push_back(std::move(timing));
}

}  // namespace tr::cuda

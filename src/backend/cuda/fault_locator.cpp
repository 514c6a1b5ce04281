// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/fault_locator.h"

#include "core/format.h"

namespace tr::cuda {

FaultLocator::FaultLocator(int device, cudaStream_t stream, bool marks, FaultQuestions questions)
    : device_(device), stream_(stream), questions_(std::move(questions)) {
  if (marks) marks_ = std::make_unique<FaultMarks>();
}

void FaultLocator::waited() {
  ended_ += log_.num_steps();
  log_.clear();
}

void FaultLocator::fail(const std::string& error) {
  DeviceFault fault{.device = fmt::format("GPU {}", device_), .error = error};
  fault.num_steps = log_.num_steps();
  for (const int variant : log_.variants())
    fault.variants.push_back(questions_.name_variant(variant));
  // An error that a wait finds again after it was taken back is the device's end.
  cudaGetLastError();
  fault.lost = cudaStreamSynchronize(stream_) != cudaSuccess;
  cudaGetLastError();
  if (marks_) locate_by_mark(fault, marks_->read(), ended_, log_, questions_.describe);
  if (!fault.lost && fault.num_steps > 0) {
    // All but the launch that was refused has ended, so this is the state that it would have met.
    const std::int64_t last = fault.num_steps - 1;
    fault.searched = true;
    fault.node = questions_.failing_node(log_.variant_of(last));
    fault.step = fault.node.empty() ? -1 : last;
  }
  if (fault.step >= 0) fault.variants = {questions_.name_variant(log_.variant_of(fault.step))};
  waited();
  throw DeviceFaultError(std::move(fault));
}

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include "backend/cuda/ordered_capture.h"
#include "backend/device_fault.h"

namespace tr::cuda {

/// The mark of an executor's steps, in memory of the host that the device writes to.
class FaultMarks {
 public:
  FaultMarks();
  ~FaultMarks();
  FaultMarks(const FaultMarks&) = delete;
  FaultMarks& operator=(const FaultMarks&) = delete;

  /// Enqueues the writes of a step's mark on `stream`.
  StepProbe probe(cudaStream_t stream) const;
  /// As it stands now: read it when the device has stopped.
  FaultMark read() const;

 private:
  FaultMark* host_ = nullptr;
  FaultMark* device_ = nullptr;  // the same bytes
};

}  // namespace tr::cuda

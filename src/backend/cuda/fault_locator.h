// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "backend/cuda/check.h"
#include "backend/cuda/fault_marks.h"

namespace tr::cuda {

/// What a locator asks its executor when something has failed.
struct FaultQuestions {
  std::function<std::string(int variant)> name_variant;
  std::function<std::string(int variant, int node)> describe;
  /// Runs the variant's nodes one by one, waiting for each, and leaves the state as it was; the
  /// words of the one that fails, empty if none does.
  std::function<std::string(int variant)> failing_node;
};

/// Turns CUDA's errors, which come some time after the launch that is at fault, into
/// DeviceFaultErrors that say where it was. Costs a run nothing but the note of its launch, unless
/// marks are wanted.
class FaultLocator {
 public:
  /// `marks`: with them the node is known even when the device is lost.
  FaultLocator(int device, cudaStream_t stream, bool marks, FaultQuestions questions);

  /// Null without marks.
  const FaultMarks* marks() const { return marks_.get(); }

  void launched(int variant, std::int64_t num_steps = 1) { log_.add(variant, num_steps); }
  /// Everything launched has ended well.
  void waited();

  /// Calls `body`. @throws DeviceFaultError  in place of its CudaError.
  template <typename F>
  decltype(auto) guard(F&& body) {
    try {
      return body();
    } catch (const CudaError& error) {
      fail(error.what());
    }
  }

 private:
  [[noreturn]] void fail(const std::string& error);

  int device_;
  cudaStream_t stream_;
  FaultQuestions questions_;
  std::unique_ptr<FaultMarks> marks_;
  LaunchLog log_;
  std::int64_t ended_ = 0;  // steps that the host has seen end
};

}  // namespace tr::cuda

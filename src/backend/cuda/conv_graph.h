// SPDX-License-Identifier: Apache-2.0
#pragma once

// One convolution as a graph of cuDNN's operations.

#include <cstdint>
#include <string>
#include <vector>

#include "backend/cuda/cudnn_api.h"
#include "ops/conv_geometry.h"

namespace tr::cuda {

enum class ConvDirection : std::uint8_t { FORWARD, DATA, WEIGHT };

/// What a plan is made for. x, weight and y have one dtype; sums are fp32.
struct ConvProblem {
  ConvDirection direction = ConvDirection::FORWARD;
  ConvGeometry geometry{};
  DType dtype = DType::FP32;
  /// FORWARD only: the sums of y and of its squares over all pixels, one a channel, in fp32, are
  /// results too.
  bool statistics = false;
  /// fp32 operands may be cut to TF32.
  bool tf32 = false;

  /// "conv fp16 x[256, 56, 56, 64] w[64, 3, 3, 64] stride 1, 1 ...": one text, one plan.
  std::string text() const;
};

/// Numbers by which a launch names the operands.
enum ConvUid : std::int64_t {
  kConvX = 1,
  kConvWeight,
  kConvY,
  kConvSum,
  kConvSumOfSquares,
};

/// Where plans are made for: a device, or the properties of one that is not here (cuDNN's JSON).
struct ConvTarget {
  cudnnHandle_t handle = nullptr;
  const CudnnDescriptor* properties = nullptr;
};

/// The descriptors of a problem's graph.
class ConvGraph {
 public:
  /// @throws DeviceError  cuDNN refuses the graph itself.
  ConvGraph(const ConvProblem& problem, const ConvTarget& target);

  const ConvProblem& problem() const { return problem_; }
  const ConvTarget& target() const { return target_; }
  const CudnnDescriptor& descriptor() const { return graph_; }

 private:
  ConvProblem problem_;
  ConvTarget target_;
  std::vector<CudnnDescriptor> parts_;  // what the graph refers to
  CudnnDescriptor graph_;
};

}  // namespace tr::cuda

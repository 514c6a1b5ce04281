// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "backend/kernel.h"

namespace tr::cuda {

/// The targets of a batch: (1 - s) q + s / C with q one-hot or the given probabilities. A class
/// number outside [0, C) makes the sample's loss and gradient NaN, so that the step is skipped and
/// seen.
struct Targets {
  const void* labels = nullptr;
  DType dtype = DType::INT32;
  std::int64_t classes = 0;
  float smoothing = 0;

  Targets() = default;
  Targets(const KernelArgs& args, int input, std::int64_t classes)
      : labels(args.in<void>(input)),
        dtype(args.in_type(input).dtype),
        classes(classes),
        smoothing(args.attrs().f32("label_smoothing")) {}

  /// Probabilities, one a class; else class numbers.
  __device__ bool soft() const { return dtype == DType::FP32; }
  __device__ std::int64_t label(std::int64_t row) const {
    return dtype == DType::INT64 ? static_cast<const std::int64_t*>(labels)[row]
                                 : std::int64_t(static_cast<const std::int32_t*>(labels)[row]);
  }
  __device__ bool is_class(std::int64_t label) const { return label >= 0 && label < classes; }
  __device__ const float* probabilities(std::int64_t row) const {
    return static_cast<const float*>(labels) + row * classes;
  }
  __device__ float uniform() const { return smoothing / float(classes); }
};

}  // namespace tr::cuda

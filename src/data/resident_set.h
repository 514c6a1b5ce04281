// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "renaissance/core/dtype.h"
#include "renaissance/data/dataset.h"

namespace tr::data {

/// A whole split in host memory, as a device takes it: each field one tensor [n, ...]. UINT8 images
/// are kept as pixels; FP32 images, which no transform touches, are in the batch's type already.
class ResidentSet {
 public:
  /// Reads every sample once, on `num_threads` threads (0: the processor's cores).
  /// @throws DataError  of the first sample that cannot be read, naming it.
  /// @throws InvalidArgument  image_dtype is no floating type, or the field "image" is neither
  ///         UINT8 nor FP32.
  ResidentSet(const Dataset& dataset, DType image_dtype, int num_threads = 0);

  std::int64_t num_samples() const { return num_samples_; }
  const std::vector<NamedTensor>& fields() const { return fields_; }
  std::int64_t num_bytes() const;

 private:
  void read(const Dataset& dataset, int num_threads);

  std::int64_t num_samples_ = 0;
  std::vector<NamedTensor> fields_;
};

/// Bytes that a ResidentSet of `dataset` holds, known without reading it.
std::int64_t resident_bytes(const Dataset& dataset, DType image_dtype);

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "ops/rules.h"

namespace tr {

/// Sizes of a normalisation of each sample by itself, from the attributes of layer_norm, rms_norm
/// ("num_axes") or group_norm ("groups"): x is [samples, spatial, groups, channels], and each
/// (sample, group) has statistics of its own over spatial and channels. Kernels use it too.
struct SampleNorm {
  std::int64_t samples = 1, spatial = 1, groups = 1, channels = 1;
  Shape weight;

  std::int64_t width() const { return groups * channels; }
  std::int64_t rows() const { return samples * spatial; }
  /// Values that are normalised together.
  std::int64_t length() const { return spatial * channels; }
  std::int64_t num_statistics() const { return samples * groups; }
};

/// @throws InvalidArgument  x has too few axes, or groups do not divide its channels.
SampleNorm sample_norm(const Attrs& attrs, const Shape& x);

}  // namespace tr

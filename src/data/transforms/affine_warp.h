// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pixel/affine.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {

/// The image seen through `map`, of the same size; outside is `fill`. NEAREST or BILINEAR.
void warp_affine(const ImageRef& src, const pixel::AffineMap& map, int fill,
                 Interpolation interpolation, std::uint8_t* dst);

}  // namespace tr::data

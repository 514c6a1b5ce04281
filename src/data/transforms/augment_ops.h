// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pixel/augment.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {

std::size_t augment_scratch_bytes(ImageShape in);

/// One operation of RandAugment and TrivialAugment, NEAREST; outside is `fill`. `dst` is packed and
/// does not overlap with `src`.
void apply_augment(const ImageRef& src, const pixel::AugmentChoice& choice, int fill,
                   std::uint8_t* dst, std::byte* scratch);

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pixel/resample.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {

/// How an image is scaled.
struct ResampleKind {
  pixel::ResampleFilter filter = pixel::ResampleFilter::TRIANGLE;
  bool antialias = true;
};
ResampleKind resample_kind(Interpolation interpolation, bool antialias);

/// Scratch of resample() for a part of an image of shape `in` that becomes `out`.
std::size_t resample_scratch_bytes(ImageShape in, ImageShape out, ResampleKind kind);

/// Scales a part of an image to the sides of `out`: across into a ring of rows, then down;
/// definition in core/pixel/resample.h. Reads up to kImageSlack bytes behind a row's last pixel;
/// `dst` has kImageSlack behind it.
void resample(const DecodedCrop& part, ImageShape out, ResampleKind kind, std::uint8_t* dst,
              std::byte* scratch);

}  // namespace tr::data

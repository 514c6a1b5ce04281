// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/pixel/uniform.h"

namespace tr::pixel {

struct CropWindow {
  std::int32_t top = 0, left = 0;
};

/// Upper left corner of a window of crop_height x crop_width in height x width, each place equally
/// likely. Words 0 (top) and 1 (left) of block 0. The window is not larger than the image.
TR_HOST_DEVICE inline CropWindow draw_crop(const StepDraws& draws, int height, int width,
                                           int crop_height, int crop_width) {
  const Philox4 words = draws.block(0);
  return {std::int32_t(uniform_below(words.v[0], std::uint32_t(height - crop_height + 1))),
          std::int32_t(uniform_below(words.v[1], std::uint32_t(width - crop_width + 1)))};
}

}  // namespace tr::pixel

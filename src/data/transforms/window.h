// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/transforms/pixel_step.h"

namespace tr::data {

/// Copies the window [top, top + out.height) x [left, left + out.width) of an image; what lies
/// outside the image becomes 0.
void copy_window(const ImageRef& src, int top, int left, ImageShape out, std::uint8_t* dst);

}  // namespace tr::data

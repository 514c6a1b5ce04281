// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

namespace tr::data {

/// A place in the unit square, y downwards.
struct Point {
  float x = 0, y = 0;
};

/// A pen's way: through the points in straight lines, or smoothly (Catmull-Rom).
struct Stroke {
  std::span<const Point> points;
  bool smooth = false;
  bool optional = false;  // drawn in half of the samples
};

/// The strokes of digit 0..9.
std::span<const Stroke> glyph(int digit);

}  // namespace tr::data

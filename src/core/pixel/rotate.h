// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/det_math.h"
#include "core/host_device.h"
#include "core/pixel/bilinear.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

/// Sine and cosine with 16 fractional bits of the angle, anticlockwise as the viewer sees it.
struct Rotation {
  std::int32_t cos_q = 65536, sin_q = 0;
};

TR_HOST_DEVICE inline std::int32_t to_fixed16(float x) {
  return std::int32_t(x * 65536.0f + (x < 0 ? -0.5f : 0.5f));
}

/// An angle from [-degrees, degrees]: word 0 of block 0.
TR_HOST_DEVICE inline Rotation draw_rotation(const StepDraws& draws, float degrees) {
  const float angle = uniform_between(draws.block(0).v[0], -degrees, degrees);
  const float radians = angle * 0.017453292519943295f;
  return {to_fixed16(det::cos(radians)), to_fixed16(det::sin(radians))};
}

// Source coordinates have 17 fractional bits: offsets from the centre are counted in half pixels,
// so that the centre of an even side is exact too. Sides up to 8192 keep them within 31 bits.
constexpr int kRotateBits = 17;

TR_HOST_DEVICE inline std::int32_t rotate_source_x(const Rotation& r, int x, int y, int width,
                                                   int height) {
  return r.cos_q * (2 * x - width + 1) - r.sin_q * (2 * y - height + 1) + ((width - 1) << 16);
}

TR_HOST_DEVICE inline std::int32_t rotate_source_y(const Rotation& r, int x, int y, int width,
                                                   int height) {
  return r.sin_q * (2 * x - width + 1) + r.cos_q * (2 * y - height + 1) + ((height - 1) << 16);
}

/// Index of the left (upper) neighbour, cut to [-2, side]: there both neighbours lie outside.
TR_HOST_DEVICE inline std::int32_t rotate_index(std::int32_t source, int side) {
  const std::int32_t index = source >> kRotateBits;
  const std::int32_t at_least = index < -2 ? -2 : index;  // compiled to a maximum and a minimum
  return at_least > side ? side : at_least;
}

/// Weight of the right (lower) neighbour, 0..255.
TR_HOST_DEVICE inline std::int32_t rotate_fraction(std::int32_t source) {
  return (source >> (kRotateBits - kWeightBits)) & 255;
}

}  // namespace tr::pixel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/det_math.h"
#include "core/pixel/bilinear.h"
#include "core/pixel/uniform.h"

namespace tr::pixel {

/// Where a result pixel comes from, in offsets from the image's centre: source = matrix * result +
/// shift. The matrix has 16 fractional bits; the shift has 17, pixels.
struct AffineMap {
  std::int64_t xx = 65536, xy = 0, yx = 0, yy = 65536;
  std::int64_t shift_x = 0, shift_y = 0;
};

TR_HOST_DEVICE inline std::int64_t to_fixed(double x, std::int32_t bits) {
  const double scaled = x * double(std::int64_t(1) << bits);
  return std::int64_t(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

constexpr float kRadiansPerDegree = 0.017453292519943295f;

struct AffineParameters {
  float degrees = 0;  // clockwise as the viewer sees it, as torchvision's affine()
  std::int32_t shift_x = 0, shift_y = 0;  // pixels by which the content moves right and down
  float scale = 1;
  float shear_x = 0, shear_y = 0;  // degrees
};

/// The inverse of torchvision.transforms.functional.affine(center=None).
TR_HOST_DEVICE inline AffineMap affine_map(const AffineParameters& p) {
  const float turn = p.degrees * kRadiansPerDegree;
  const float sx = p.shear_x * kRadiansPerDegree, sy = p.shear_y * kRadiansPerDegree;
  const double tan_sx = double(det::sin(sx)) / double(det::cos(sx)), cos_sy = det::cos(sy);
  const double cos_turn = det::cos(turn - sy), sin_turn = det::sin(turn - sy);
  const double a = cos_turn / cos_sy, b = -a * tan_sx - double(det::sin(turn));
  const double c = sin_turn / cos_sy, d = -c * tan_sx + double(det::cos(turn));
  const double m[4] = {d / p.scale, -b / p.scale, -c / p.scale, a / p.scale};
  return {to_fixed(m[0], 16),
          to_fixed(m[1], 16),
          to_fixed(m[2], 16),
          to_fixed(m[3], 16),
          to_fixed(-m[0] * p.shift_x - m[1] * p.shift_y, 17),
          to_fixed(-m[2] * p.shift_x - m[3] * p.shift_y, 17)};
}

/// Source coordinates of result pixel (y, x) with 17 fractional bits, from the first pixel's
/// centre. Offsets from the centre are counted in half pixels, so that the centre of an even side
/// is exact.
TR_HOST_DEVICE inline std::int64_t affine_source_x(const AffineMap& m, std::int32_t x,
                                                   std::int32_t y, std::int32_t width,
                                                   std::int32_t height) {
  return m.xx * (2 * x - width + 1) + m.xy * (2 * y - height + 1) + m.shift_x +
         (std::int64_t(width - 1) << 16);
}
TR_HOST_DEVICE inline std::int64_t affine_source_y(const AffineMap& m, std::int32_t x,
                                                   std::int32_t y, std::int32_t width,
                                                   std::int32_t height) {
  return m.yx * (2 * x - width + 1) + m.yy * (2 * y - height + 1) + m.shift_y +
         (std::int64_t(height - 1) << 16);
}

constexpr std::int32_t kAffineBits = 17;

/// Index of the left (upper) neighbour, cut to [-2, side]: there both neighbours lie outside.
TR_HOST_DEVICE inline std::int32_t affine_index(std::int64_t source, std::int32_t side) {
  const std::int64_t index = source >> kAffineBits;
  return std::int32_t(index < -2 ? -2 : (index > side ? side : index));
}
/// Index of the nearest pixel, cut alike.
TR_HOST_DEVICE inline std::int32_t affine_nearest(std::int64_t source, std::int32_t side) {
  return affine_index(source + (std::int64_t(1) << (kAffineBits - 1)), side);
}
/// Weight of the right (lower) neighbour, 0..255.
TR_HOST_DEVICE inline std::int32_t affine_fraction(std::int64_t source) {
  return std::int32_t(source >> (kAffineBits - kWeightBits)) & 255;
}

struct AffineRange {
  float degrees = 0;
  float shift_x = 0, shift_y = 0;  // fractions of width and height
  float scale_low = 1, scale_high = 1;
  float shear_x_low = 0, shear_x_high = 0, shear_y_low = 0, shear_y_high = 0;
};

TR_HOST_DEVICE inline std::int32_t draw_shift(std::uint32_t word, float most) {
  const float shift = uniform_between(word, -most, most);
  return std::int32_t(shift < 0 ? shift - 0.5f : shift + 0.5f);
}

/// Block 0: angle, shift right, shift down, scale; block 1: shear along x, along y.
TR_HOST_DEVICE inline AffineParameters draw_affine(const StepDraws& draws, std::int32_t height,
                                                   std::int32_t width, const AffineRange& range) {
  const Philox4 first = draws.block(0), second = draws.block(1);
  AffineParameters p;
  p.degrees = uniform_between(first.v[0], -range.degrees, range.degrees);
  p.shift_x = draw_shift(first.v[1], range.shift_x * float(width));
  p.shift_y = draw_shift(first.v[2], range.shift_y * float(height));
  p.scale = uniform_between(first.v[3], range.scale_low, range.scale_high);
  p.shear_x = uniform_between(second.v[0], range.shear_x_low, range.shear_x_high);
  p.shear_y = uniform_between(second.v[1], range.shear_y_low, range.shear_y_high);
  return p;
}

}  // namespace tr::pixel

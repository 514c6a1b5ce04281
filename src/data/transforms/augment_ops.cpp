// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/augment_ops.h"

#include <cstring>

#include "core/pixel/levels.h"
#include "data/transforms/affine_warp.h"
#include "data/transforms/color_pass.h"
#include "data/transforms/level_pass.h"
#include "data/transforms/window.h"

namespace tr::data {
namespace {

using pixel::AugmentOp;

/// Shears and shifts act on distances from the upper left corner, rotation about the centre.
pixel::AffineMap geometric_map(const pixel::AugmentChoice& choice, ImageShape shape) {
  pixel::AffineMap map;
  const std::int64_t amount = pixel::to_fixed(double(choice.strength), 16);
  switch (choice.op) {
    case AugmentOp::SHEAR_X:
      map.xy = amount;
      map.shift_x = amount * shape.height;
      break;
    case AugmentOp::SHEAR_Y:
      map.yx = amount;
      map.shift_y = amount * shape.width;
      break;
    case AugmentOp::TRANSLATE_X: map.shift_x = -2 * amount; break;
    case AugmentOp::TRANSLATE_Y: map.shift_y = -2 * amount; break;
    default: map = pixel::affine_map({.degrees = -choice.strength}); break;
  }
  return map;
}

void shade(const ImageRef& src, pixel::ColorOp op, float strength, std::uint8_t* dst) {
  const ColorStep step{op, pixel::to_factor(1 + strength)};
  apply_colors(src, {&step, 1}, dst);
}

/// Blends with the image smoothed by its 3x3 neighbourhoods; the outermost pixels stay.
void sharpen(const ImageRef& src, float strength, std::uint8_t* dst) {
  const std::int32_t factor = pixel::to_factor(1 + strength);
  const int channels = src.shape.channels, height = src.shape.height;
  const int bytes = int(src.shape.row_bytes());
  for (int y = 0; y < height; ++y, dst += bytes) {
    const std::uint8_t* row = src.row(y);
    std::memcpy(dst, row, std::size_t(bytes));
    if (y == 0 || y == height - 1) continue;
    const std::uint8_t *above = src.row(y - 1), *below = src.row(y + 1);
    for (int i = channels; i < bytes - channels; ++i) {
      std::int32_t sum = 4 * row[i];  // and once more below
      for (const int k : {i - channels, i, i + channels}) sum += above[k] + row[k] + below[k];
      dst[i] = std::uint8_t(
          pixel::blend_factor(row[i], factor, (pixel::kFactorOne - factor) * pixel::smoothed(sum)));
    }
  }
}

template <typename Entry>
void apply_levels(const ImageRef& src, const Entry& entry, std::uint8_t* dst, std::byte* scratch) {
  auto* tables = reinterpret_cast<std::uint8_t*>(scratch);
  for (int i = 0; i < 256 * src.shape.channels; ++i) tables[i] = std::uint8_t(entry(i & 255));
  apply_tables(src, tables, dst);
}

void equalize(const ImageRef& src, std::uint8_t* dst, std::byte* scratch) {
  const int channels = src.shape.channels;
  auto* tables = reinterpret_cast<std::uint8_t*>(scratch);
  for (int c = 0; c < channels; ++c) {
    std::int64_t counts[256] = {}, largest = 0;
    for (int y = 0; y < src.shape.height; ++y) {
      const std::uint8_t* line = src.row(y) + c;
      for (int x = 0; x < src.shape.width; ++x) ++counts[line[x * channels]];
    }
    for (const std::int64_t count : counts) largest = count > 0 ? count : largest;
    const std::int64_t step = (std::int64_t(src.shape.height) * src.shape.width - largest) / 255;
    std::int64_t below = 0;
    for (int x = 0; x < 256; ++x) {
      tables[256 * c + x] = std::uint8_t(pixel::equalized(x, below, step));
      below += counts[x];
    }
  }
  apply_tables(src, tables, dst);
}

}  // namespace

std::size_t augment_scratch_bytes(ImageShape in) { return 256 * std::size_t(in.channels); }

void apply_augment(const ImageRef& src, const pixel::AugmentChoice& choice, int fill,
                   std::uint8_t* dst, std::byte* scratch) {
  const float strength = choice.strength;
  switch (choice.op) {
    case AugmentOp::IDENTITY: return copy_window(src, 0, 0, src.shape, dst);
    case AugmentOp::SHEAR_X:
    case AugmentOp::SHEAR_Y:
    case AugmentOp::TRANSLATE_X:
    case AugmentOp::TRANSLATE_Y:
    case AugmentOp::ROTATE:
      return warp_affine(src, geometric_map(choice, src.shape), fill, Interpolation::NEAREST, dst);
    case AugmentOp::BRIGHTNESS: return shade(src, pixel::ColorOp::BRIGHTNESS, strength, dst);
    case AugmentOp::COLOR: return shade(src, pixel::ColorOp::SATURATION, strength, dst);
    case AugmentOp::CONTRAST: return shade(src, pixel::ColorOp::CONTRAST, strength, dst);
    case AugmentOp::SHARPNESS: return sharpen(src, strength, dst);
    case AugmentOp::POSTERIZE:
      return apply_levels(
          src, [&](int x) { return pixel::posterized(x, int(strength)); }, dst, scratch);
    case AugmentOp::SOLARIZE:
      return apply_levels(
          src, [&](int x) { return pixel::solarized(x, strength); }, dst, scratch);
    case AugmentOp::AUTO_CONTRAST: return stretch_levels(src, dst, scratch);
    case AugmentOp::EQUALIZE: return equalize(src, dst, scratch);
  }
}

}  // namespace tr::data

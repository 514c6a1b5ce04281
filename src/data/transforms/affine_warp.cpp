// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/affine_warp.h"

#include <cstring>

namespace tr::data {
namespace {

/// Walks along a row of the result: source coordinates of its pixels.
struct Walk {
  std::int64_t x, y, step_x, step_y;

  Walk(const pixel::AffineMap& map, int row, ImageShape shape)
      : x(pixel::affine_source_x(map, 0, row, shape.width, shape.height)),
        y(pixel::affine_source_y(map, 0, row, shape.width, shape.height)),
        step_x(2 * map.xx),
        step_y(2 * map.yx) {}
  void next() {
    x += step_x;
    y += step_y;
  }
};

bool holds(ImageShape shape, int y, int x) {
  return unsigned(y) < unsigned(shape.height) && unsigned(x) < unsigned(shape.width);
}

void nearest_row(const ImageRef& src, Walk at, int fill, std::uint8_t* dst) {
  const int channels = src.shape.channels;
  for (int x = 0; x < src.shape.width; ++x, at.next(), dst += channels) {
    const int from_y = pixel::affine_nearest(at.y, src.shape.height);
    const int from_x = pixel::affine_nearest(at.x, src.shape.width);
    const std::uint8_t* pixel = src.row(0);
    const bool inside = holds(src.shape, from_y, from_x);
    if (inside) pixel = src.row(from_y) + from_x * channels;
    for (int c = 0; c < channels; ++c) dst[c] = inside ? pixel[c] : std::uint8_t(fill);
  }
}

void bilinear_row(const ImageRef& src, Walk at, int fill, std::uint8_t* dst) {
  const int channels = src.shape.channels;
  std::uint8_t outside[kMaxChannels];
  std::memset(outside, fill, std::size_t(channels));
  const auto pixel_at = [&](int y, int x) {
    return holds(src.shape, y, x) ? src.row(y) + x * channels : outside;
  };
  for (int x = 0; x < src.shape.width; ++x, at.next(), dst += channels) {
    const int y0 = pixel::affine_index(at.y, src.shape.height);
    const int x0 = pixel::affine_index(at.x, src.shape.width);
    const std::int32_t fy = pixel::affine_fraction(at.y), fx = pixel::affine_fraction(at.x);
    const std::uint8_t *a = pixel_at(y0, x0), *b = pixel_at(y0, x0 + 1);
    const std::uint8_t *c = pixel_at(y0 + 1, x0), *d = pixel_at(y0 + 1, x0 + 1);
    for (int k = 0; k < channels; ++k) {
      dst[k] = std::uint8_t(pixel::blend_column(pixel::blend_row(a[k], b[k], fx),
                                                pixel::blend_row(c[k], d[k], fx), fy));
    }
  }
}

}  // namespace

void warp_affine(const ImageRef& src, const pixel::AffineMap& map, int fill,
                 Interpolation interpolation, std::uint8_t* dst) {
  for (int y = 0; y < src.shape.height; ++y, dst += src.shape.row_bytes()) {
    const Walk at(map, y, src.shape);
    if (interpolation == Interpolation::NEAREST) {
      nearest_row(src, at, fill, dst);
    } else {
      bilinear_row(src, at, fill, dst);
    }
  }
}

}  // namespace tr::data

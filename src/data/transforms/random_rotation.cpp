// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/check.h"
#include "core/pixel/rotate.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {
namespace {

constexpr int kTile = 32;  // columns at once: fixed, so that the loops are whole vectors
constexpr int kRing = 2;   // pixels of `fill` around a plane: reach of rotate_index()

std::uint32_t load_pair(const std::uint8_t* at) {
  std::uint16_t pair;
  std::memcpy(&pair, at, sizeof pair);
  return pair;
}

/// One channel of the source with its ring.
struct Plane {
  std::uint8_t* pixels;  // first pixel of the image, behind the ring
  int stride, height, width;
};

/// kTile pixels of the turned plane from (x, y) on.
void rotate_tile(const Plane& plane, const pixel::Rotation& rotation, int x, int y,
                 std::uint8_t* out) {
  std::int32_t offset[kTile], fx[kTile], fy[kTile];
  std::uint32_t quad[kTile];
  const int height = plane.height, width = plane.width, stride = plane.stride;
  for (int i = 0; i < kTile; ++i) {
    const std::int32_t sx = pixel::rotate_source_x(rotation, x + i, y, width, height);
    const std::int32_t sy = pixel::rotate_source_y(rotation, x + i, y, width, height);
    offset[i] = pixel::rotate_index(sy, height) * stride + pixel::rotate_index(sx, width);
    fx[i] = pixel::rotate_fraction(sx);
    fy[i] = pixel::rotate_fraction(sy);
  }
  for (int i = 0; i < kTile; ++i) {
    const std::uint8_t* at = plane.pixels + offset[i];
    quad[i] = load_pair(at) | (load_pair(at + stride) << 16);
  }
  for (int i = 0; i < kTile; ++i) {
    out[i] = std::uint8_t(pixel::blend_quad(quad[i], fx[i], fy[i]));
  }
}

class RandomRotationStep final : public PixelStep {
 public:
  RandomRotationStep(const RandomRotation& rotation, ImageShape in)
      : PixelStep(in, in, plane_bytes(in)), degrees_(rotation.degrees), fill_(rotation.fill) {}

  void apply(const std::uint8_t* src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    const pixel::Rotation rotation = pixel::draw_rotation(draws, degrees_);
    for (int c = 0; c < in().channels; ++c) {
      const Plane plane = copy_plane(src + c, reinterpret_cast<std::uint8_t*>(scratch));
      for (int y = 0; y < in().height; ++y) {
        rotate_row(plane, rotation, y, dst + std::size_t(y) * in().row_bytes() + c);
      }
    }
  }

 private:
  static std::size_t plane_bytes(ImageShape in) {
    return std::size_t(in.height + 2 * kRing + 1) * std::size_t(in.width + 2 * kRing + 1);
  }

  Plane copy_plane(const std::uint8_t* src, std::uint8_t* scratch) const {
    const int stride = in().width + 2 * kRing + 1, channels = in().channels;
    const Plane plane{scratch + kRing * stride + kRing, stride, in().height, in().width};
    std::memset(scratch, fill_, plane_bytes(in()));
    for (int y = 0; y < in().height; ++y, src += in().row_bytes()) {
      std::uint8_t* row = plane.pixels + y * stride;
      if (channels == 1) {
        std::memcpy(row, src, std::size_t(in().width));
      } else {
        for (int x = 0; x < in().width; ++x) row[x] = src[x * channels];
      }
    }
    return plane;
  }

  void rotate_row(const Plane& plane, const pixel::Rotation& rotation, int y,
                  std::uint8_t* dst) const {
    const int width = in().width, channels = in().channels;
    for (int x = 0; x < width; x += kTile) {
      std::uint8_t tile[kTile];
      rotate_tile(plane, rotation, x, y, tile);
      const int count = width - x < kTile ? width - x : kTile;
      if (channels == 1) {
        std::memcpy(dst + x, tile, std::size_t(count));
      } else {
        for (int i = 0; i < count; ++i) dst[(x + i) * channels] = tile[i];
      }
    }
  }

  float degrees_;
  int fill_;
};

}  // namespace

std::unique_ptr<PixelStep> make_step(const RandomRotation& rotation, ImageShape in) {
  return std::make_unique<RandomRotationStep>(rotation, in);
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/pixel/rotate.h"
#include "data/transforms/blend_avx2.h"
#include "data/transforms/copy_row.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

constexpr int kTile = 32;           // pixels at once: fixed, so that the loops are whole vectors
constexpr int kRing = 2;            // pixels of `fill` around a plane: reach of rotate_index()
constexpr int kBlockPixels = 1024;  // whose places and weights are kept: they fit the L1 cache

int whole_tiles(int count) { return (count + kTile - 1) / kTile * kTile; }

std::uint32_t load_pair(const std::uint8_t* at) {
  std::uint16_t pair;
  std::memcpy(&pair, at, sizeof pair);
  return pair;
}

/// Shape of one channel with its ring.
struct PlaneShape {
  int height, width;
  int stride() const { return width + 2 * kRing + 1; }
  int origin() const { return kRing * stride() + kRing; }  // of the first pixel of the image
  std::size_t num_bytes() const {
    return std::size_t(height + 2 * kRing + 1) * std::size_t(stride());
  }
};

/// Scratch of one image: the columns' share of the source coordinates; for a block of rows each
/// pixel's place in a plane, weights and neighbours; the planes.
struct Workspace {
  std::int32_t *column_x, *column_y;  // [columns]
  std::int32_t* offset;               // [pixels]
  std::uint32_t* fractions;           // [pixels] fx below, fy above
  std::uint32_t* quad;                // [pixels]
  std::uint8_t* line;                 // [pixels] of one channel
  std::uint8_t* planes;

  static int block_rows(const PlaneShape& plane) {
    return std::clamp(kBlockPixels / plane.width, 1, plane.height);
  }
  /// A row may be written up to whole tiles, where the next one begins.
  static int block_pixels(const PlaneShape& plane) {
    return whole_tiles(block_rows(plane) * plane.width + kTile);
  }
  Workspace(std::byte* bytes, const PlaneShape& plane) {
    const int columns = whole_tiles(plane.width), pixels = block_pixels(plane);
    column_x = reinterpret_cast<std::int32_t*>(bytes);
    column_y = column_x + columns;
    offset = column_y + columns;
    fractions = reinterpret_cast<std::uint32_t*>(offset + pixels);
    quad = fractions + pixels;
    line = reinterpret_cast<std::uint8_t*>(quad + pixels);
    planes = line + pixels;
  }
  static std::size_t num_bytes(const PlaneShape& plane, int channels) {
    const auto columns = std::size_t(whole_tiles(plane.width));
    const auto pixels = std::size_t(block_pixels(plane));
    return 8 * columns + 13 * pixels + plane.num_bytes() * std::size_t(channels);
  }
};

/// One image, turned.
class Turning {
 public:
  Turning(const ImageRef& src, int fill)
      : src_(src), shape_(src.shape), plane_{src.shape.height, src.shape.width}, fill_(fill) {}

  void apply(const pixel::Rotation& rotation, std::uint8_t* dst, std::byte* scratch) const {
    Workspace work(scratch, plane_);
    for (int x = 0; x < whole_tiles(plane_.width); ++x) {
      work.column_x[x] = 2 * x * rotation.cos_q;
      work.column_y[x] = 2 * x * rotation.sin_q;
    }
    std::memset(work.planes, fill_, plane_.num_bytes() * std::size_t(shape_.channels));
    for (int c = 0; c < shape_.channels; ++c) copy_plane(c, plane_of(work, c));
    const int rows = Workspace::block_rows(plane_);
    for (int y = 0; y < shape_.height; y += rows) {
      rotate_rows(work, rotation, y, std::min(rows, shape_.height - y), dst);
    }
  }

 private:
  std::uint8_t* plane_of(const Workspace& work, int channel) const {
    return work.planes + plane_.num_bytes() * std::size_t(channel) + plane_.origin();
  }

  void copy_plane(int c, std::uint8_t* plane) const {
    const int channels = shape_.channels;
    for (int y = 0; y < shape_.height; ++y, plane += plane_.stride()) {
      const std::uint8_t* row = src_.row(y) + c;
      if (channels == 1) {
        copy_row(plane, row, std::size_t(shape_.width));
      } else {
        for (int x = 0; x < shape_.width; ++x) plane[x] = row[x * channels];
      }
    }
  }

  void rotate_rows(const Workspace& work, const pixel::Rotation& rotation, int first, int rows,
                   std::uint8_t* dst) const {
    for (int y = 0; y < rows; ++y) find_sources(work, rotation, first + y, y * plane_.width);
    const int pixels = rows * plane_.width, channels = shape_.channels;
    dst += std::size_t(first) * shape_.row_bytes();
    for (int c = 0; c < channels; ++c) {
      gather(plane_of(work, c), work, pixels);
      blend(work, pixels);
      if (channels == 1) {
        std::memcpy(dst, work.line, std::size_t(pixels));
      } else {
        for (int i = 0; i < pixels; ++i) dst[i * channels + c] = work.line[i];
      }
    }
  }

  /// Places and weights of row y, at `to` of the block.
  void find_sources(const Workspace& work, const pixel::Rotation& rotation, int y, int to) const {
    const int width = plane_.width, height = plane_.height, stride = plane_.stride();
    const std::int32_t row_x = pixel::rotate_source_x(rotation, 0, y, width, height);
    const std::int32_t row_y = pixel::rotate_source_y(rotation, 0, y, width, height);
    for (int x = 0; x < width; x += kTile) {
      std::int32_t* offset = work.offset + to + x;
      std::uint32_t* fractions = work.fractions + to + x;
      for (int i = 0; i < kTile; ++i) {
        const std::int32_t sx = row_x + work.column_x[x + i], sy = row_y + work.column_y[x + i];
        offset[i] = pixel::rotate_index(sy, height) * stride + pixel::rotate_index(sx, width);
        fractions[i] = std::uint32_t(pixel::rotate_fraction(sx)) |
                       std::uint32_t(pixel::rotate_fraction(sy)) << 16;
      }
    }
  }

  void gather(const std::uint8_t* plane, const Workspace& work, int pixels) const {
    const std::uint8_t* below = plane + plane_.stride();
    const std::int32_t* offset = work.offset;
    std::uint32_t* quad = work.quad;
#pragma GCC unroll 8  // the loop's own instructions would be half of it
    for (int i = 0; i < pixels; ++i) {
      const std::ptrdiff_t at = offset[i];
      quad[i] = load_pair(plane + at) | (load_pair(below + at) << 16);
    }
  }

  static void blend(const Workspace& work, int pixels) {
    const auto eight = [&](int i) {
      const auto load = [i](const std::uint32_t* from) {
        return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i));
      };
      return blend_quads(load(work.quad), load(work.fractions));
    };
    for (int i = 0; i < pixels; i += kTile) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(work.line + i),
                          pack_bytes(eight(i), eight(i + 8), eight(i + 16), eight(i + 24)));
    }
  }

  const ImageRef& src_;
  const ImageShape shape_;
  const PlaneShape plane_;
  const int fill_;
};

class RandomRotationStep final : public PixelStep {
 public:
  explicit RandomRotationStep(const RandomRotation& rotation)
      : degrees_(rotation.degrees), fill_(rotation.fill) {}

  std::size_t scratch_bytes(ImageShape in) const override {
    return Workspace::num_bytes({in.height, in.width}, in.channels);
  }
  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    Turning(src, fill_).apply(pixel::draw_rotation(draws, degrees_), dst, scratch);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape) const override {
    const float angle = pixel::uniform_between(draws.block(0).v[0], -degrees_, degrees_);
    return fmt::format("angle {:.4g}", angle);
  }

 private:
  float degrees_;
  int fill_;
};

}  // namespace

TransformRule rule_of(const RandomRotation& t) {
  const std::string text = fmt::format("RandomRotation({}, fill={})", t.degrees, t.fill);
  return {.text = text,
          .check =
              [=] {
                check_between(text, "degrees", t.degrees, 0, 360);
                check_fill(text, t.fill);
              },
          .make_step = [=] { return std::make_unique<RandomRotationStep>(t); }};
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "core/cpu_info.h"
#include "core/det_math.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "core/thread_pool.h"
#include "data/memory_dataset.h"
#include "data/procedural_glyphs.h"
#include "renaissance/data/datasets.h"

namespace tr::data {
namespace {

constexpr int kSide = 28;
constexpr int kNumClasses = 10;
constexpr int kStepsPerSpan = 4;  // straight pieces between two points of a smooth stroke

// How much the samples differ. Chosen so that a linear model stays well below a network with hidden
// layers.
constexpr float kPointJitter = 0.055f;  // of each control point, in units of the glyph's box
constexpr float kMaxTurn = 0.35f;       // radians
constexpr float kMaxShear = 0.25f;
constexpr float kMinSize = 12.0f, kMaxSize = 22.0f;  // pixels, width and height apart
constexpr float kMaxShift = 3.0f;                    // pixels
constexpr float kMinPen = 1.2f, kMaxPen = 3.0f;      // pixels
constexpr float kNoise = 40.0f;                      // of a pixel, uniform around 0

/// The draws of one sample in the order in which they are asked for.
class DrawStream {
 public:
  explicit DrawStream(const DrawAddress& address) : address_(address) {}
  std::uint32_t word() {
    if (next_ == 4) {
      words_ = address_.block(block_++);
      next_ = 0;
    }
    return words_.v[std::size_t(next_++)];
  }
  float between(float low, float high) { return low + (high - low) * uniform01(word()); }

 private:
  DrawAddress address_;
  Philox4 words_;
  std::uint32_t block_ = 0;
  int next_ = 4;
};

/// From the glyph's box to pixels: p = centre + m (q - 1/2).
struct Placement {
  float xx, xy, yx, yy, centre_x, centre_y;
  Point operator()(Point q) const {
    const float x = q.x - 0.5f, y = q.y - 0.5f;
    return {centre_x + xx * x + xy * y, centre_y + yx * x + yy * y};
  }
};

Placement draw_placement(DrawStream& draws) {
  const float turn = draws.between(-kMaxTurn, kMaxTurn);
  const float shear = draws.between(-kMaxShear, kMaxShear);
  const float width = draws.between(kMinSize, kMaxSize), height = draws.between(kMinSize, kMaxSize);
  const float c = det::cos(turn), s = det::sin(turn);
  constexpr float kMiddle = (kSide - 1) * 0.5f;
  // Turning after shearing after scaling.
  return {c * width,
          (c * shear + s) * height,
          -s * width,
          (c - s * shear) * height,
          kMiddle + draws.between(-kMaxShift, kMaxShift),
          kMiddle + draws.between(-kMaxShift, kMaxShift)};
}

/// Ink in [0, 1] of each pixel.
using Canvas = std::array<float, kSide * kSide>;

/// A straight piece with round ends: full ink within pen / 2 of it, none half a pixel further out.
void draw_segment(Canvas& canvas, Point a, Point b, float pen) {
  const float reach = pen * 0.5f + 0.5f;
  const int left = std::max(0, int(std::floor(std::min(a.x, b.x) - reach)));
  const int right = std::min(kSide - 1, int(std::ceil(std::max(a.x, b.x) + reach)));
  const int top = std::max(0, int(std::floor(std::min(a.y, b.y) - reach)));
  const int bottom = std::min(kSide - 1, int(std::ceil(std::max(a.y, b.y) + reach)));
  const float dx = b.x - a.x, dy = b.y - a.y;
  const float length2 = dx * dx + dy * dy;
  const float inverse = length2 > 0 ? 1.0f / length2 : 0.0f;
  for (int y = top; y <= bottom; ++y) {
    for (int x = left; x <= right; ++x) {
      const float px = float(x) - a.x, py = float(y) - a.y;
      const float t = std::clamp((px * dx + py * dy) * inverse, 0.0f, 1.0f);
      const float ex = px - t * dx, ey = py - t * dy;
      const float ink = std::clamp(reach - std::sqrt(ex * ex + ey * ey), 0.0f, 1.0f);
      float& pixel = canvas[std::size_t(y * kSide + x)];
      pixel = std::max(pixel, ink);
    }
  }
}

/// Catmull-Rom between p1 and p2.
Point spline(Point p0, Point p1, Point p2, Point p3, float t) {
  const auto axis = [t](float a, float b, float c, float d) {
    return b + 0.5f * t * ((c - a) + t * ((2 * a - 5 * b + 4 * c - d) + t * (3 * (b - c) + d - a)));
  };
  return {axis(p0.x, p1.x, p2.x, p3.x), axis(p0.y, p1.y, p2.y, p3.y)};
}

void draw_stroke(Canvas& canvas, const Stroke& stroke, const Placement& place, float pen,
                 DrawStream& draws) {
  std::array<Point, 16> points;
  const std::size_t count = stroke.points.size();
  for (std::size_t i = 0; i < count; ++i) {
    const Point p = stroke.points[i];
    const float x = p.x + draws.between(-kPointJitter, kPointJitter);
    const float y = p.y + draws.between(-kPointJitter, kPointJitter);
    points[i] = place({x, y});
  }
  for (std::size_t i = 0; i + 1 < count; ++i) {
    if (!stroke.smooth) {
      draw_segment(canvas, points[i], points[i + 1], pen);
      continue;
    }
    const Point before = points[i == 0 ? 0 : i - 1], after = points[std::min(i + 2, count - 1)];
    Point from = points[i];
    for (int k = 1; k <= kStepsPerSpan; ++k) {
      const Point to =
          spline(before, points[i], points[i + 1], after, float(k) * (1.0f / kStepsPerSpan));
      draw_segment(canvas, from, to, pen);
      from = to;
    }
  }
}

void draw_digit(int digit, const DrawAddress& address, std::uint8_t* pixels) {
  DrawStream draws(address);
  const Placement place = draw_placement(draws);
  const float pen = draws.between(kMinPen, kMaxPen);
  const float ink = draws.between(160.0f, 255.0f);
  Canvas canvas{};
  for (const Stroke& stroke : glyph(digit)) {
    const bool wanted = (draws.word() >> 31) != 0 || !stroke.optional;
    if (wanted) draw_stroke(canvas, stroke, place, pen, draws);
  }
  for (std::size_t i = 0; i < canvas.size(); i += 4) {
    const std::uint32_t word = draws.word();
    for (std::size_t k = 0; k < 4; ++k) {
      const float noise = (float((word >> (8 * k)) & 255u) - 127.5f) * (2 * kNoise / 255.0f);
      const float value = canvas[i + k] * ink + noise;
      pixels[i + k] = std::uint8_t(std::clamp(value, 0.0f, 255.0f));
    }
  }
}

/// Each run of ten samples has every digit once, in an order of its own.
int digit_of(std::int64_t sample, std::uint64_t seed, std::uint64_t split) {
  const Permutation order =
      make_permutation(kNumClasses, seed, std::uint64_t(sample / kNumClasses), 2 + split);
  return int(order(std::uint64_t(sample % kNumClasses)));
}

}  // namespace
}  // namespace tr::data

namespace tr {

std::shared_ptr<const Dataset> make_procedural_digits(const std::string& split, std::int64_t n,
                                                      std::uint64_t seed) {
  using namespace data;
  TR_CHECK(split == "train" || split == "val",
           "procedural digits: split is \"{}\", expected \"train\" or \"val\"", split);
  TR_CHECK(n >= 1, "procedural digits: n is {}, must be at least 1", n);
  const std::uint64_t split_number = split == "train" ? 0 : 1;
  Tensor images({n, kSide, kSide, 1}, DType::UINT8);
  Tensor labels({n}, DType::INT32);
  auto* pixels = images.data<std::uint8_t>();
  auto* digits = labels.data<std::int32_t>();
  constexpr std::int64_t kChunk = 500;
  ThreadPool pool(default_num_threads());
  pool.parallel_for((n + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
    for (std::int64_t i = chunk * kChunk; i < std::min(n, (chunk + 1) * kChunk); ++i) {
      digits[i] = digit_of(i, seed, split_number);
      draw_digit(digits[i], {seed, DrawPurpose::PROCEDURAL, split_number, std::uint64_t(i)},
                 pixels + i * kSide * kSide);
    }
  });
  std::vector<NamedTensor> fields;
  fields.push_back({"image", std::move(images)});
  fields.push_back({"label", std::move(labels)});
  return std::make_shared<MemoryDataset>("procedural", std::move(fields), kNumClasses);
}

}  // namespace tr

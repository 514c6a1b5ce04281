// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "core/check.h"
#include "core/pixel/pad.h"
#include "data/transforms/copy_row.h"
#include "data/transforms/rules.h"
#include "data/transforms/words.h"

namespace tr::data {
namespace {

static_assert(int(PadMode::CONSTANT) == int(pixel::PadRule::CONSTANT) &&
              int(PadMode::EDGE) == int(pixel::PadRule::EDGE) &&
              int(PadMode::REFLECT) == int(pixel::PadRule::REFLECT) &&
              int(PadMode::SYMMETRIC) == int(pixel::PadRule::SYMMETRIC));

std::string text_of(const Pad& t) {
  return fmt::format("Pad({}, fill={}, {})", t.padding, t.fill, word_of(t.mode));
}

class PadStep final : public PixelStep {
 public:
  explicit PadStep(const Pad& pad) : pad_(pad) {}

  ImageShape out_shape(ImageShape in) const override {
    if (!in.is_known()) return in;
    const int side = in.height < in.width ? in.height : in.width;
    const int limit = pad_.mode == PadMode::REFLECT ? side - 1 : side;
    TR_CHECK(pad_.mode == PadMode::CONSTANT || pad_.mode == PadMode::EDGE || pad_.padding <= limit,
             "{}: padding is {}, must be at most {} for images of {}x{}", text_of(pad_),
             pad_.padding, limit, in.height, in.width);
    return {in.height + 2 * pad_.padding, in.width + 2 * pad_.padding, in.channels};
  }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws&,
             std::byte*) const override {
    const int channels = src.shape.channels, padding = pad_.padding;
    const int width = src.shape.width, height = src.shape.height;
    const auto rule = pixel::PadRule(pad_.mode);
    const std::size_t row_out = std::size_t(width + 2 * padding) * std::size_t(channels);
    for (int y = -padding; y < height + padding; ++y, dst += row_out) {
      const int row = pixel::pad_index(y, height, rule);
      if (row < 0) {
        std::memset(dst, pad_.fill, row_out);
        continue;
      }
      const std::uint8_t* line = src.row(row);
      const std::size_t margin = std::size_t(padding) * std::size_t(channels);
      copy_row(dst + margin, line, src.shape.row_bytes());
      fill_margin(line, src.shape, -padding, 0, dst);
      fill_margin(line, src.shape, width, width + padding, dst + margin + src.shape.row_bytes());
    }
  }

 private:
  /// Places [from, to) of a row, all outside the image.
  void fill_margin(const std::uint8_t* line, ImageShape shape, int from, int to,
                   std::uint8_t* dst) const {
    const int width = shape.width, channels = shape.channels;
    if (pad_.mode == PadMode::CONSTANT) {
      std::memset(dst, pad_.fill, std::size_t(to - from) * std::size_t(channels));
      return;
    }
    for (int x = from; x < to; ++x) {
      const int column = pixel::pad_index(x, width, pixel::PadRule(pad_.mode));
      for (int c = 0; c < channels; ++c) *dst++ = line[column * channels + c];
    }
  }

  Pad pad_;
};

}  // namespace

TransformRule rule_of(const Pad& t) {
  const std::string text = text_of(t);
  return {.text = text,
          .is_random = false,
          .check =
              [=] {
                TR_CHECK(t.padding >= 0 && t.padding <= kMaxSide,
                         "{}: padding is {}, must be in 0..{}", text, t.padding, kMaxSide);
                check_fill(text, t.fill);
              },
          .make_step = [=] { return std::make_unique<PadStep>(t); }};
}

}  // namespace tr::data

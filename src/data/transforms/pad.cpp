// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "core/check.h"
#include "core/pixel/pad.h"
#include "data/transforms/copy_row.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {
namespace {

static_assert(int(PadMode::CONSTANT) == int(pixel::PadRule::CONSTANT) &&
              int(PadMode::EDGE) == int(pixel::PadRule::EDGE) &&
              int(PadMode::REFLECT) == int(pixel::PadRule::REFLECT) &&
              int(PadMode::SYMMETRIC) == int(pixel::PadRule::SYMMETRIC));

class PadStep final : public PixelStep {
 public:
  PadStep(const Pad& pad, ImageShape in)
      : PixelStep(in, {in.height + 2 * pad.padding, in.width + 2 * pad.padding, in.channels}),
        pad_(pad) {
    if (pad.mode == PadMode::CONSTANT) return;
    const auto rule = pixel::PadRule(pad.mode);
    for (int y = -pad.padding; y < in.height + pad.padding; ++y) {
      rows_.push_back(pixel::pad_index(y, in.height, rule));
    }
    for (int x = -pad.padding; x < in.width + pad.padding; ++x) {
      columns_.push_back(pixel::pad_index(x, in.width, rule));
    }
  }

  void apply(const std::uint8_t* src, std::uint8_t* dst, const pixel::StepDraws&,
             std::byte*) const override {
    pad_.mode == PadMode::CONSTANT ? constant(src, dst) : repeated(src, dst);
  }

 private:
  void constant(const std::uint8_t* src, std::uint8_t* dst) const {
    const std::size_t row_in = in().row_bytes(), row_out = out().row_bytes();
    const std::size_t left = std::size_t(pad_.padding) * std::size_t(in().channels);
    std::memset(dst, pad_.fill, out().num_bytes());
    dst += std::size_t(pad_.padding) * row_out + left;
    for (int y = 0; y < in().height; ++y) copy_row(dst + y * row_out, src + y * row_in, row_in);
  }

  void repeated(const std::uint8_t* src, std::uint8_t* dst) const {
    const int channels = in().channels;
    for (const int row : rows_) {
      const std::uint8_t* line = src + std::size_t(row) * in().row_bytes();
      for (const int column : columns_) {
        for (int c = 0; c < channels; ++c) *dst++ = line[column * channels + c];
      }
    }
  }

  Pad pad_;
  std::vector<int> rows_, columns_;
};

}  // namespace

std::unique_ptr<PixelStep> make_step(const Pad& pad, ImageShape in) {
  const int side = in.height < in.width ? in.height : in.width;
  const int limit = pad.mode == PadMode::REFLECT ? side - 1 : side;
  TR_CHECK(pad.mode == PadMode::CONSTANT || pad.mode == PadMode::EDGE || pad.padding <= limit,
           "{}: padding is {}, must be at most {} for images of {}x{}", to_string(Transform(pad)),
           pad.padding, limit, in.height, in.width);
  return std::make_unique<PadStep>(pad, in);
}

}  // namespace tr::data

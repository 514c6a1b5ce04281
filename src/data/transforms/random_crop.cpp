// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "core/pixel/crop.h"
#include "data/transforms/copy_row.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {
namespace {

class RandomCropStep final : public PixelStep {
 public:
  RandomCropStep(int size, ImageShape in)
      : PixelStep(in, {size, size, in.channels}),
        canvas_height_(std::max(in.height, size)),
        canvas_width_(std::max(in.width, size)) {}

  void apply(const std::uint8_t* src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const auto window =
        pixel::draw_crop(draws, canvas_height_, canvas_width_, out().height, out().width);
    const int top =
        window.top - (canvas_height_ - in().height) / 2;  // in the image; negative: margin
    const int left = window.left - (canvas_width_ - in().width) / 2;
    const std::size_t row_in = in().row_bytes(), row_out = out().row_bytes();
    const int first = std::max(0, -left), last = std::min(out().width, in().width - left);
    const std::size_t channels = std::size_t(in().channels);
    if (canvas_height_ != in().height || canvas_width_ != in().width) {
      std::memset(dst, 0, out().num_bytes());
    }
    const int first_row = std::max(0, -top), last_row = std::min(out().height, in().height - top);
    src += std::size_t(top + first_row) * row_in + std::size_t(left + first) * channels;
    dst += std::size_t(first_row) * row_out + std::size_t(first) * channels;
    const std::size_t bytes = std::size_t(last - first) * channels;
    for (int y = first_row; y < last_row; ++y, src += row_in, dst += row_out) {
      copy_row(dst, src, bytes);
    }
  }

 private:
  int canvas_height_, canvas_width_;  // of the image with its margin of zeros
};

}  // namespace

std::unique_ptr<PixelStep> make_step(const RandomCrop& crop, ImageShape in) {
  return std::make_unique<RandomCropStep>(crop.size, in);
}

}  // namespace tr::data

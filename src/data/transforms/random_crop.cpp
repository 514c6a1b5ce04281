// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/check.h"
#include "core/pixel/crop.h"
#include "data/transforms/rules.h"
#include "data/transforms/window.h"
#include "data/transforms/words.h"

namespace tr::data {
namespace {

class RandomCropStep final : public PixelStep {
 public:
  explicit RandomCropStep(ImageSize size) : size_(size) {}

  ImageShape out_shape(ImageShape in) const override {
    return {size_.height, size_.width, in.channels};
  }
  int max_side() const override { return kMaxPictureSide; }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte*) const override {
    const pixel::CropWindow window = draw(draws, src.shape);
    copy_window(src, window.top, window.left, out_shape(src.shape), dst);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape in) const override {
    const pixel::CropWindow window = draw(draws, in);
    return fmt::format("top {}, left {}", window.top, window.left);
  }

  bool takes_a_part() const override { return true; }
  std::optional<SourceCrop> source_crop(const pixel::StepDraws& draws,
                                        ImageShape in) const override {
    if (in.height < size_.height || in.width < size_.width) return std::nullopt;
    const pixel::CropWindow window = draw(draws, in);
    return SourceCrop{window.top, window.left, size_.height, size_.width};
  }
  void apply_crop(const DecodedCrop& crop, const SourceCrop&, std::uint8_t* dst,
                  std::byte*) const override {
    copy_window(crop.image, 0, 0, out_shape(crop.image.shape), dst);
  }

 private:
  /// In the image; negative where the image's margin of zeros begins before it.
  pixel::CropWindow draw(const pixel::StepDraws& draws, ImageShape in) const {
    const int canvas_height = std::max(in.height, size_.height);
    const int canvas_width = std::max(in.width, size_.width);
    const auto window =
        pixel::draw_crop(draws, canvas_height, canvas_width, size_.height, size_.width);
    return {window.top - (canvas_height - in.height) / 2,
            window.left - (canvas_width - in.width) / 2};
  }

  ImageSize size_;
};

}  // namespace

TransformRule rule_of(const RandomCrop& t) {
  const std::string text = fmt::format("RandomCrop({})", text_of(t.size));
  return {.text = text,
          .check = [=] { check_size(text, t.size); },
          .make_step = [=] { return std::make_unique<RandomCropStep>(t.size); }};
}

}  // namespace tr::data

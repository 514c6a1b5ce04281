// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/pixel/resized_crop.h"
#include "data/transforms/rules.h"
#include "data/transforms/window.h"
#include "data/transforms/words.h"

namespace tr::data {
namespace {

class CenterCropStep final : public PixelStep {
 public:
  explicit CenterCropStep(ImageSize size) : size_(size) {}

  ImageShape out_shape(ImageShape in) const override {
    return {size_.height, size_.width, in.channels};
  }
  int max_side() const override { return kMaxPictureSide; }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws&,
             std::byte*) const override {
    copy_window(src, first(src.shape.height, size_.height), first(src.shape.width, size_.width),
                out_shape(src.shape), dst);
  }

  bool takes_a_part() const override { return true; }
  std::optional<SourceCrop> source_crop(const pixel::StepDraws&, ImageShape in) const override {
    if (in.height < size_.height || in.width < size_.width) return std::nullopt;
    return SourceCrop{first(in.height, size_.height), first(in.width, size_.width), size_.height,
                      size_.width};
  }
  void apply_crop(const DecodedCrop& crop, const SourceCrop&, std::uint8_t* dst,
                  std::byte*) const override {
    copy_window(crop.image, 0, 0, out_shape(crop.image.shape), dst);
  }

 private:
  /// First place of the window on an axis of `side` pixels; negative: so many zeros come before.
  static int first(int side, int size) {
    return side < size ? -((size - side) / 2) : pixel::centred_offset(side - size);
  }

  ImageSize size_;
};

}  // namespace

TransformRule rule_of(const CenterCrop& t) {
  const std::string text = fmt::format("CenterCrop({})", text_of(t.size));
  return {.text = text,
          .is_random = false,
          .check = [=] { check_size(text, t.size); },
          .make_step = [=] { return std::make_unique<CenterCropStep>(t.size); }};
}

}  // namespace tr::data

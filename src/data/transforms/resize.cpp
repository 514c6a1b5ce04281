// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/check.h"
#include "data/transforms/resampler.h"
#include "data/transforms/rules.h"
#include "data/transforms/words.h"

namespace tr::data {
namespace {

std::string text_of_resize(const Resize& t) {
  return fmt::format("Resize({}, {}, {}, antialias={})", text_of(t.size), word_of(t.mode),
                     word_of(t.interpolation), t.antialias);
}

class ResizeStep final : public PixelStep {
 public:
  explicit ResizeStep(const Resize& resize)
      : size_(resize.size),
        mode_(resize.mode),
        kind_(resample_kind(resize.interpolation, resize.antialias)),
        text_(text_of_resize(resize)) {}

  /// The longer side is cut to whole pixels, as torchvision does.
  ImageShape out_shape(ImageShape in) const override {
    if (mode_ != ResizeMode::SHORT_SIDE) return {size_.height, size_.width, in.channels};
    if (!in.is_known()) return in;
    const int shorter = std::min(in.height, in.width);
    const auto scaled = [&](int side) {
      return side == shorter ? size_.width : int(std::int64_t(size_.width) * side / shorter);
    };
    const ImageShape out{scaled(in.height), scaled(in.width), in.channels};
    TR_CHECK(out.height <= kMaxSide && out.width <= kMaxSide,
             "{}: an image of {}x{} would become {}x{}, sides up to {} are possible", text_,
             in.height, in.width, out.height, out.width, kMaxSide);
    return out;
  }

  int max_side() const override { return kMaxPictureSide; }

  std::size_t scratch_bytes(ImageShape in) const override {
    return resample_scratch_bytes(in, out_shape(in), kind_);
  }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws&,
             std::byte* scratch) const override {
    const SourceCrop crop = taken_part(src.shape);
    const ImageRef part = src.part(crop.top, crop.left, crop.height, crop.width);
    apply_crop(DecodedCrop(part), crop, dst, scratch);
  }

  bool takes_a_part() const override { return mode_ == ResizeMode::SQUARE; }
  std::optional<SourceCrop> source_crop(const pixel::StepDraws&, ImageShape in) const override {
    return taken_part(in);
  }

  void apply_crop(const DecodedCrop& crop, const SourceCrop& asked, std::uint8_t* dst,
                  std::byte* scratch) const override {
    resample(crop, {asked.target_height, asked.target_width}, kind_, dst, scratch);
  }

 private:
  SourceCrop taken_part(ImageShape in) const {
    const ImageShape out = out_shape(in);
    SourceCrop part{0, 0, in.height, in.width, out.height, out.width};
    if (mode_ == ResizeMode::SQUARE) {
      part.height = part.width = std::min(in.height, in.width);
      part.top = (in.height - part.height) / 2;
      part.left = (in.width - part.width) / 2;
    }
    return part;
  }

  ImageSize size_;  // a square unless mode_ is STRETCH
  ResizeMode mode_;
  ResampleKind kind_;
  std::string text_;
};

}  // namespace

TransformRule rule_of(const Resize& t) {
  const std::string text = text_of_resize(t);
  return {.text = text,
          .is_random = false,
          .check =
              [=] {
                check_size(text, t.size);
                TR_CHECK(t.size.height == t.size.width || t.mode == ResizeMode::STRETCH,
                         "{}: a size of two sides needs STRETCH", text);
                check_scaling(text, t.interpolation);
              },
          .make_step = [=] { return std::make_unique<ResizeStep>(t); }};
}

}  // namespace tr::data

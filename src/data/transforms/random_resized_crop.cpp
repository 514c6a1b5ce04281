// SPDX-License-Identifier: Apache-2.0
// RandomResizedCrop and its cheap sister: a drawn region, scaled.
#include "core/check.h"
#include "core/pixel/resized_crop.h"
#include "data/transforms/resampler.h"
#include "data/transforms/rules.h"
#include "data/transforms/words.h"

namespace tr::data {
namespace {

class ResizedCropStep final : public PixelStep {
 public:
  ResizedCropStep(ImageSize size, const pixel::CropRange& range, ResampleKind kind)
      : size_(size), range_(range), kind_(kind) {}

  ImageShape out_shape(ImageShape in) const override {
    return {size_.height, size_.width, in.channels};
  }
  int max_side() const override { return kMaxPictureSide; }
  std::size_t scratch_bytes(ImageShape in) const override {
    return resample_scratch_bytes(in, out_shape(in), kind_);
  }

  void apply(const ImageRef& src, std::uint8_t* dst, const pixel::StepDraws& draws,
             std::byte* scratch) const override {
    const auto rect = pixel::draw_resized_crop(draws, src.shape.height, src.shape.width, range_);
    resample(DecodedCrop(src.part(rect.top, rect.left, rect.height, rect.width)),
             out_shape(src.shape), kind_, dst, scratch);
  }

  std::string describe(const pixel::StepDraws& draws, ImageShape in) const override {
    const auto rect = pixel::draw_resized_crop(draws, in.height, in.width, range_);
    return fmt::format("top {}, left {}, {}x{}", rect.top, rect.left, rect.height, rect.width);
  }

  bool takes_a_part() const override { return true; }
  std::optional<SourceCrop> source_crop(const pixel::StepDraws& draws,
                                        ImageShape in) const override {
    const auto rect = pixel::draw_resized_crop(draws, in.height, in.width, range_);
    return SourceCrop{rect.top, rect.left, rect.height, rect.width, size_.height, size_.width};
  }
  void apply_crop(const DecodedCrop& crop, const SourceCrop&, std::uint8_t* dst,
                  std::byte* scratch) const override {
    resample(crop, {size_.height, size_.width}, kind_, dst, scratch);
  }

 private:
  ImageSize size_;
  pixel::CropRange range_;
  ResampleKind kind_;
};

pixel::CropRange range_of(Range scale, Range ratio, bool log_scale) {
  return {log_scale ? det::log(scale.low) : scale.low,
          log_scale ? det::log(scale.high) : scale.high,
          log_scale,
          ratio.low,
          ratio.high,
          det::log(ratio.low),
          det::log(ratio.high)};
}

template <typename T>
std::string region_text(const char* name, const T& t) {
  return fmt::format("{}({}, scale=[{}, {}], ratio=[{}, {}]", name, text_of(t.size), t.scale.low,
                     t.scale.high, t.ratio.low, t.ratio.high);
}

template <typename T>
void check_region(const std::string& text, const T& t) {
  check_size(text, t.size);
  check_area(text, t.scale);
  check_ratio(text, t.ratio);
}

}  // namespace

TransformRule rule_of(const RandomResizedCrop& t) {
  const std::string text =
      region_text("RandomResizedCrop", t) +
      fmt::format(", {}, antialias={})", word_of(t.interpolation), t.antialias);
  return {.text = text,
          .check =
              [=] {
                check_region(text, t);
                check_scaling(text, t.interpolation);
              },
          .make_step =
              [=] {
                return std::make_unique<ResizedCropStep>(
                    t.size, range_of(t.scale, t.ratio, false),
                    resample_kind(t.interpolation, t.antialias));
              }};
}

TransformRule rule_of(const FastRandomResizedCrop& t) {
  const std::string text = region_text("FastRandomResizedCrop", t) + ")";
  return {.text = text,
          .check = [=] { check_region(text, t); },
          .make_step =
              [=] {
                return std::make_unique<ResizedCropStep>(
                    t.size, range_of(t.scale, t.ratio, true),
                    resample_kind(Interpolation::BILINEAR, false));
              }};
}

}  // namespace tr::data

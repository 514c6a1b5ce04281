// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/chain.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/format.h"
#include "data/transforms/mirror.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

std::size_t rounded_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

ImageShape image_shape(const Shape& input) {
  TR_CHECK(input.rank() == 3, "transforms: the field \"image\" has shape {}, expected [H, W, C]",
           input);
  const bool any_size = input[0] == 0 && input[1] == 0;
  for (int axis = any_size ? 2 : 0; axis < 3; ++axis) {
    const int limit = axis < 2 ? kMaxSide : kMaxChannels;
    TR_CHECK(input[axis] >= 1 && input[axis] <= limit,
             "transforms: images of shape {}: axis {} must be in 1..{}", input, axis, limit);
  }
  return {int(input[0]), int(input[1]), int(input[2])};
}

std::string size_text(ImageShape shape) {
  return shape.is_known() ? fmt::format("{}x{}", shape.height, shape.width) : "any size";
}

}  // namespace

PixelChain::PixelChain(const TransformChain& chain, const Shape& input, DType dtype)
    : input_(image_shape(input)), text_(chain.str()) {
  chain.validate();
  add_steps(chain);
  output_ = last_shape(input_, fixed_);
  TR_CHECK(output_.is_known(),
           "transforms: {} leaves pictures of different sizes different; a step must give them one "
           "size (RandomResizedCrop, RandomCrop, CenterCrop, Resize(SQUARE) ...)",
           text_);
  const int height = chain.output_height > 0 ? chain.output_height : output_.height;
  const int width = chain.output_width > 0 ? chain.output_width : output_.width;
  TR_CHECK(
      output_.height == height && output_.width == width,
      "transforms: {} turns images of {} into {}x{}, expected {}x{} (the configured resolution)",
      text_, size_text(input_), output_.height, output_.width, height, width);
  normalization_.emplace(chain.normalization, erasing_, output_, dtype, chain.output_channels);
  defer_flips();
}

void PixelChain::add_steps(const TransformChain& chain) {
  for (std::uint32_t i = 0; i < chain.transforms.size(); ++i) {
    const TransformRule rule = rule_of(chain.transforms[i]);
    if (rule.stage == ChainStage::PIXELS) {
      steps_.push_back({rule.make_step(), i, rule.text});
    } else if (rule.stage == ChainStage::NORMALIZED) {
      erasing_ = std::get<RandomErasing>(chain.transforms[i]);
      erasing_index_ = i;
      erasing_text_ = rule.text;
    }
  }
}

void PixelChain::defer_flips() {
  for (std::size_t i = steps_.size(); i-- > 0;) {
    if (steps_[i].pixels->mirrors()) {
      last_flips_.push_back(std::move(steps_[i]));
      steps_.erase(steps_.begin() + std::ptrdiff_t(i));
    } else if (!steps_[i].pixels->commutes_with_mirror()) {
      return;
    }
  }
}

/// Shape behind the last step; what is needed on the way, if the sizes are known.
ImageShape PixelChain::last_shape(ImageShape in, Sizes& sizes) const {
  ImageShape now = in;
  const auto check_side = [&](const std::string& who, int limit) {
    TR_CHECK(now.height <= limit && now.width <= limit,
             "{}: the image is {} there, sides up to {} are possible", who, size_text(now), limit);
  };
  for (const Step& step : steps_) {
    check_side(step.text, step.pixels->max_side());
    if (now.is_known()) {
      sizes.step_bytes = std::max(sizes.step_bytes, rounded_up(step.pixels->scratch_bytes(now)));
    }
    now = step.pixels->out_shape(now);
    if (now.is_known()) {
      sizes.buffer_bytes = std::max(sizes.buffer_bytes, rounded_up(now.num_bytes() + kImageSlack));
    }
  }
  check_side(text_, kMaxSide);
  return now;
}

PixelChain::Sizes PixelChain::sizes_of(ImageShape picture) const {
  if (picture == input_) return fixed_;
  Sizes sizes;
  try {
    const ImageShape last = last_shape(picture, sizes);
    TR_CHECK(last == output_, "{} turns it into {}, expected {}", text_, size_text(last),
             size_text(output_));
  } catch (const InvalidArgument& error) {
    throw_as<DataError>("a picture of {}: {}", size_text(picture), error.what());
  }
  return sizes;
}

Shape PixelChain::output_shape() const {
  const ImageShape& out = normalization_->out();
  return {out.height, out.width, out.channels};
}

std::size_t PixelChain::scratch_bytes(int height, int width) const {
  return sizes_of({height, width, input_.channels}).scratch_bytes();
}

void PixelChain::run_steps(Position& at, const Sizes& sizes, const DrawAddress& address,
                           std::byte* scratch) const {
  for (; at.next < steps_.size(); ++at.next) {
    const Step& step = steps_[at.next];
    const pixel::StepDraws draws{address, step.index};
    if (step.pixels->is_identity(draws, at.image.shape)) continue;
    if (at.buffer < 0 || !step.pixels->works_in_place()) at.buffer = at.buffer == 0 ? 1 : 0;
    std::uint8_t* dst = buffer(at.buffer, sizes, scratch);
    const ImageShape out = step.pixels->out_shape(at.image.shape);
    step.pixels->apply(at.image, dst, draws, scratch + 2 * sizes.buffer_bytes);
    at.image = ImageRef(dst, out);
  }
}

bool PixelChain::is_mirrored(const DrawAddress& address, ImageShape shape) const {
  bool mirrored = false;
  for (const Step& flip : last_flips_) {
    mirrored ^= !flip.pixels->is_identity({address, flip.index}, shape);
  }
  return mirrored;
}

ImageRef PixelChain::run_pixels(const ImageRef& src, const DrawAddress& address,
                                std::byte* scratch) const {
  Position at{src};
  run_steps(at, sizes_of(src.shape), address, scratch);
  return at.image;
}

void PixelChain::normalise(const ImageRef& pixels, void* dst, const DrawAddress& address) const {
  normalization_->apply(pixels, is_mirrored(address, pixels.shape), dst, {address, erasing_index_});
}

pixel::ImageTail PixelChain::leave(const ImageRef& pixels, std::uint8_t* dst,
                                   const DrawAddress& address) const {
  for (int y = 0; y < output_.height; ++y, dst += output_.row_bytes())
    std::memcpy(dst, pixels.row(y), output_.row_bytes());
  return {.mirrored = is_mirrored(address, pixels.shape) ? 1 : 0, .erased = erased(address)};
}

const std::uint8_t* PixelChain::run_pixels(const std::uint8_t* src, const DrawAddress& address,
                                           std::byte* scratch) const {
  TR_ASSERT(!takes_pictures());
  return run_pixels(ImageRef(src, input_), address, scratch).pixels;
}

void PixelChain::normalise(const std::uint8_t* pixels, void* dst,
                           const DrawAddress& address) const {
  normalise(ImageRef(pixels, output_), dst, address);
}

void PixelChain::run(const std::uint8_t* src, void* dst, const DrawAddress& address,
                     std::byte* scratch) const {
  normalise(run_pixels(src, address, scratch), dst, address);
}

std::optional<SourceCrop> PixelChain::first_crop(const DrawAddress& address, int height,
                                                 int width) const {
  const ImageShape picture{height, width, input_.channels};
  sizes_of(picture);  // throws for what cannot go through
  if (steps_.empty()) return std::nullopt;
  auto crop = steps_.front().pixels->source_crop({address, steps_.front().index}, picture);
  if (crop) {
    crop->picture_height = height;
    crop->picture_width = width;
  }
  return crop;
}

ImageRef PixelChain::run_pixels(const DecodedCrop& crop, const SourceCrop& asked,
                                const DrawAddress& address, std::byte* scratch) const {
  TR_ASSERT(!steps_.empty());
  const ImageShape picture{asked.picture_height, asked.picture_width, input_.channels};
  const Sizes sizes = sizes_of(picture);
  std::uint8_t* first = buffer(0, sizes, scratch);
  const PixelStep& step = *steps_.front().pixels;
  step.apply_crop(crop, asked, first, scratch + 2 * sizes.buffer_bytes);
  Position at{ImageRef(first, step.out_shape(picture)), 0, 1};
  run_steps(at, sizes, address, scratch);
  return at.image;
}

ImageRef PixelChain::final_pixels(const ImageRef& pixels, const DrawAddress& address,
                                  std::uint8_t* mirrored) const {
  const ImageShape& shape = pixels.shape;
  if (!is_mirrored(address, shape)) return pixels;
  for (int y = 0; y < shape.height; ++y) {
    mirror_row(pixels.row(y), shape.width, shape.channels,
               mirrored + std::size_t(y) * shape.row_bytes());
  }
  return {mirrored, shape};
}

pixel::EraseRect PixelChain::erased(const DrawAddress& address) const {
  const auto& range = normalization_->erasing();
  if (!range) return {};
  return pixel::draw_erase({address, erasing_index_}, output_.height, output_.width, *range);
}

std::vector<std::string> PixelChain::describe(const DrawAddress& address, int height,
                                              int width) const {
  std::vector<std::string> texts;
  ImageShape now{height, width, input_.channels};
  const auto add = [&](const Step& step) {
    const std::string drawn = step.pixels->describe({address, step.index}, now);
    texts.push_back(drawn.empty() ? step.text : step.text + ": " + drawn);
    now = step.pixels->out_shape(now);
  };
  // The flips that the last pass does stand where the user wrote them.
  for (std::size_t i = 0, flips = last_flips_.size(); i < steps_.size() || flips > 0;) {
    const bool flip =
        flips > 0 && (i == steps_.size() || last_flips_[flips - 1].index < steps_[i].index);
    add(flip ? last_flips_[--flips] : steps_[i++]);
  }
  if (erasing_) {
    const pixel::EraseRect rect = erased(address);
    texts.push_back(rect.height == 0 ? erasing_text_ + ": not erased"
                                     : fmt::format("{}: top {}, left {}, {}x{}", erasing_text_,
                                                   rect.top, rect.left, rect.height, rect.width));
  }
  return texts;
}

}  // namespace tr::data

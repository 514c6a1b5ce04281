// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/chain.h"

#include <algorithm>
#include <type_traits>

#include "core/check.h"
#include "core/format.h"

namespace tr::data {
namespace {

template <typename T>
constexpr bool kIsPixelStep = std::is_same_v<T, Pad> || std::is_same_v<T, RandomCrop> ||
                              std::is_same_v<T, RandomRotation> || std::is_same_v<T, RandomScale>;

std::size_t rounded_up(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

ImageShape image_shape(const Shape& input) {
  TR_CHECK(input.rank() == 3, "transforms: the field \"image\" has shape {}, expected [H, W, C]",
           input);
  for (int axis = 0; axis < 3; ++axis) {
    const int limit = axis < 2 ? kMaxSide : kMaxChannels;
    TR_CHECK(input[axis] >= 1 && input[axis] <= limit,
             "transforms: images of shape {}: axis {} must be in 1..{}", input, axis, limit);
  }
  return {int(input[0]), int(input[1]), int(input[2])};
}

}  // namespace

bool has_kernel(const Transform& transform) {
  return std::visit(
      [](const auto& t) {
        using T = std::decay_t<decltype(t)>;
        return kIsPixelStep<T> || std::is_same_v<T, RandomErasing>;
      },
      transform);
}

PixelChain::PixelChain(const TransformChain& chain, const Shape& input, DType dtype)
    : input_(image_shape(input)), output_(input_) {
  chain.validate();
  std::optional<RandomErasing> erasing;
  buffer_bytes_ = rounded_up(input_buffer_bytes());
  for (const Transform& transform : chain.transforms) {
    std::visit(
        [&](const auto& t) {
          using T = std::decay_t<decltype(t)>;
          if constexpr (kIsPixelStep<T>) {
            steps_.push_back(make_step(t, output_));
          } else if constexpr (std::is_same_v<T, RandomErasing>) {
            erasing = t;
            erasing_index_ = std::uint32_t(steps_.size());
          }
        },
        transform);
    if (erasing) break;
    output_ = steps_.back()->out();
    TR_CHECK(output_.height <= kMaxSide && output_.width <= kMaxSide,
             "{}: the result is {}x{}, sides up to {} are possible", to_string(transform),
             output_.height, output_.width, kMaxSide);
    buffer_bytes_ = std::max(buffer_bytes_, rounded_up(output_.num_bytes() + kImageSlack));
    step_scratch_bytes_ = std::max(step_scratch_bytes_, steps_.back()->scratch_bytes());
  }
  const int height = chain.output_height > 0 ? chain.output_height : output_.height;
  const int width = chain.output_width > 0 ? chain.output_width : output_.width;
  TR_CHECK(
      output_.height == height && output_.width == width,
      "transforms: {} turns images of {} into {}x{}, expected {}x{} (the configured resolution)",
      chain.str(), input, output_.height, output_.width, height, width);
  normalization_.emplace(chain.normalization, erasing, output_, dtype);
}

Shape PixelChain::output_shape() const { return {output_.height, output_.width, output_.channels}; }

const std::uint8_t* PixelChain::run_pixels(const std::uint8_t* src, const DrawAddress& address,
                                           std::byte* scratch) const {
  std::byte* buffers[2] = {scratch, scratch + buffer_bytes_};
  std::byte* step_scratch = scratch + 2 * buffer_bytes_;
  for (std::uint32_t i = 0; i < steps_.size(); ++i) {
    auto* dst = reinterpret_cast<std::uint8_t*>(buffers[i % 2]);
    steps_[i]->apply(src, dst, pixel::StepDraws{address, i}, step_scratch);
    src = dst;
  }
  return src;
}

void PixelChain::normalise(const std::uint8_t* pixels, void* dst,
                           const DrawAddress& address) const {
  normalization_->apply(pixels, dst, pixel::StepDraws{address, erasing_index_});
}

void PixelChain::run(const std::uint8_t* src, void* dst, const DrawAddress& address,
                     std::byte* scratch) const {
  normalise(run_pixels(src, address, scratch), dst, address);
}

}  // namespace tr::data

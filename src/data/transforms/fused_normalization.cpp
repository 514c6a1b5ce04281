// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/fused_normalization.h"

#include <cstring>

#include "core/check.h"
#include "core/format.h"
#include "core/half.h"
#include "core/pixel/normalize.h"

namespace tr::data {
namespace {

struct Preset {
  const char* name;
  std::vector<float> mean, std;  // empty: 0 and 1 for any number of channels
};

Preset preset_of(NormMode mode) {
  constexpr float kMax = 255.0f;
  switch (mode) {
    case NormMode::NO_NORM: return {"NO_NORM", {}, {}};
    case NormMode::MLPERF:
      return {"MLPERF",
              {123.68f / kMax, 116.78f / kMax, 103.94f / kMax},
              {1 / kMax, 1 / kMax, 1 / kMax}};
    case NormMode::IMAGENET:
      return {"IMAGENET", {0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
    case NormMode::MNIST: return {"MNIST", {0.1307f}, {0.3081f}};
    case NormMode::CIFAR:
      return {"CIFAR", {0.4914f, 0.4822f, 0.4465f}, {0.2470f, 0.2435f, 0.2616f}};
  }
  return {"NO_NORM", {}, {}};
}

/// Sets the rectangle to 0; all-zero bytes are 0 in every floating type.
void erase(const pixel::EraseRect& rect, ImageShape shape, std::size_t element_bytes,
           std::byte* dst) {
  const std::size_t pixel_bytes = std::size_t(shape.channels) * element_bytes;
  const std::size_t row_bytes = std::size_t(shape.width) * pixel_bytes;
  dst += std::size_t(rect.top) * row_bytes + std::size_t(rect.left) * pixel_bytes;
  for (int y = 0; y < rect.height; ++y, dst += row_bytes) {
    std::memset(dst, 0, std::size_t(rect.width) * pixel_bytes);
  }
}

}  // namespace

std::vector<ChannelNorm> channel_norms(const Normalization& normalization, int channels) {
  const bool custom = !normalization.mean.empty();
  const Preset preset = custom ? Preset{"custom", normalization.mean, normalization.std}
                               : preset_of(normalization.mode);
  std::vector<ChannelNorm> norms(std::size_t(channels), ChannelNorm{});
  if (preset.mean.empty()) return norms;
  TR_CHECK(preset.mean.size() == norms.size(),
           "normalization: {} has {} channels, the images have {}", preset.name, preset.mean.size(),
           channels);
  for (std::size_t c = 0; c < norms.size(); ++c) norms[c] = {preset.mean[c], preset.std[c]};
  return norms;
}

FusedNormalization::FusedNormalization(const Normalization& normalization,
                                       const std::optional<RandomErasing>& erasing, ImageShape in,
                                       DType dtype)
    : in_(in), dtype_(dtype) {
  TR_CHECK(is_floating(dtype), "normalization: the images' type is {}, expected fp32, fp16 or bf16",
           dtype);
  for (const ChannelNorm& norm : channel_norms(normalization, in.channels)) {
    for (int x = 0; x < 256; ++x) {
      const float y = pixel::normalized(std::uint8_t(x), norm.mean, norm.std);
      table_.push_back(y);
      table16_.push_back(dtype == DType::BF16 ? from_float<BFloat16>(y).bits
                                              : from_float<Half>(y).bits);
    }
  }
  if (erasing) {
    erasing_ = pixel::EraseRange{erasing->p, erasing->scale.low, erasing->scale.high,
                                 det::log(erasing->ratio.low), det::log(erasing->ratio.high)};
  }
}

template <typename T>
void FusedNormalization::convert(const std::uint8_t* src, T* dst, const T* table) const {
  const std::size_t count = in_.num_bytes(), channels = std::size_t(in_.channels);
  if (channels == 1) {
#pragma GCC unroll 8  // the loop's own instructions would be half of it
    for (std::size_t i = 0; i < count; ++i) dst[i] = table[src[i]];
    return;
  }
  for (std::size_t i = 0; i < count; i += channels) {
    for (std::size_t c = 0; c < channels; ++c) dst[i + c] = table[256 * c + src[i + c]];
  }
}

void FusedNormalization::apply(const std::uint8_t* src, void* dst,
                               const pixel::StepDraws& draws) const {
  if (dtype_ == DType::FP32) {
    convert(src, static_cast<float*>(dst), table_.data());
  } else {
    convert(src, static_cast<std::uint16_t*>(dst), table16_.data());
  }
  if (!erasing_) return;
  const auto rect = pixel::draw_erase(draws, in_.height, in_.width, *erasing_);
  erase(rect, in_, size_of(dtype_), static_cast<std::byte*>(dst));
}

}  // namespace tr::data

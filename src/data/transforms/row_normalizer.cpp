// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/row_normalizer.h"

#include <immintrin.h>

#include <cstring>

#include "core/check.h"
#include "core/format.h"
#include "core/half.h"
#include "core/pixel/normalize.h"
#include "data/transforms/float_vectors.h"

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

/// x / divisor, `reciprocal` being 1 / divisor rounded: the product's error is found exactly by a
/// fused operation and put right, which gives the rounded quotient (Markstein 1990) but where
/// vectors_agree() says otherwise.
__m256 quotient(__m256 x, __m256 divisor, __m256 reciprocal) {
  const __m256 first = _mm256_mul_ps(x, reciprocal);
  const __m256 error = _mm256_fnmadd_ps(first, divisor, x);
  return _mm256_fmadd_ps(error, reciprocal, first);
}

void store(__m256 y, DType dtype, std::size_t i, void* dst) {
  if (dtype == DType::FP32) return store_floats(y, static_cast<float*>(dst) + i);
  if (dtype == DType::FP16) return store_floats(y, static_cast<Half*>(dst) + i);
  store_floats(y, static_cast<BFloat16*>(dst) + i);
}

template <typename T>
void look_up(const std::uint8_t* src, std::size_t count, std::size_t channels, const T* table,
             T* dst) {
  if (channels == 1) {
#pragma GCC unroll 8  // the loop's own instructions would be half of it
    for (std::size_t i = 0; i < count; ++i) dst[i] = table[src[i]];
    return;
  }
  for (std::size_t i = 0; i < count; i += channels) {
    for (std::size_t c = 0; c < channels; ++c) dst[i + c] = table[256 * c + src[i + c]];
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

RowNormalizer::RowNormalizer(std::vector<ChannelNorm> norms, DType dtype)
    : dtype_(dtype), channels_(norms.size()) {
  TR_CHECK(is_floating(dtype), "normalization: the images' type is {}, expected fp32, fp16 or bf16",
           dtype);
  for (const ChannelNorm& norm : norms) {
    for (int x = 0; x < 256; ++x) {
      const float y = pixel::normalized(std::uint8_t(x), norm.mean, norm.std);
      table_.push_back(y);
      table16_.push_back(dtype == DType::BF16 ? from_float<BFloat16>(y).bits
                                              : from_float<Half>(y).bits);
    }
  }
  for (std::size_t i = 0; i < 8 * channels_; ++i) {
    means_.push_back(norms[i % channels_].mean);
    stds_.push_back(norms[i % channels_].std);
    reciprocals_.push_back(1 / stds_.back());
  }
  vectors_ = (channels_ == 1 || channels_ == 3 || channels_ == 4) && vectors_agree();
}

/// Every value of every channel both ways.
bool RowNormalizer::vectors_agree() const {
  std::vector<std::uint8_t> pixels;
  for (int x = 0; x < 256; ++x) pixels.insert(pixels.end(), channels_, std::uint8_t(x));
  std::vector<float> exact(pixels.size()), found(pixels.size());
  const std::size_t bytes = pixels.size() * size_of(dtype_);
  if (dtype_ == DType::FP32) {
    look_up(pixels.data(), pixels.size(), channels_, table_.data(), exact.data());
  } else {
    look_up(pixels.data(), pixels.size(), channels_, table16_.data(),
            reinterpret_cast<std::uint16_t*>(exact.data()));
  }
  return convert_vectors(pixels.data(), pixels.size(), found.data()) == pixels.size() &&
         std::memcmp(exact.data(), found.data(), bytes) == 0;
}

/// Eight pixels at a time; returns how many values are done.
template <int kChannels>
std::size_t RowNormalizer::convert_channels(const std::uint8_t* src, std::size_t count,
                                            void* dst) const {
  __m256 mean[kChannels], std[kChannels], reciprocal[kChannels];
  for (int v = 0; v < kChannels; ++v) {
    mean[v] = _mm256_loadu_ps(means_.data() + 8 * v);
    std[v] = _mm256_loadu_ps(stds_.data() + 8 * v);
    reciprocal[v] = _mm256_loadu_ps(reciprocals_.data() + 8 * v);
  }
  const __m256 full = _mm256_set1_ps(255.0f), inverse = _mm256_set1_ps(1 / 255.0f);
  std::size_t i = 0;
  for (; i + 8 * kChannels <= count; i += 8 * kChannels) {
    for (std::size_t v = 0; v < kChannels; ++v) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + i + 8 * v));
      const __m256 x = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
      const __m256 centred = _mm256_sub_ps(quotient(x, full, inverse), mean[v]);
      store(quotient(centred, std[v], reciprocal[v]), dtype_, i + 8 * v, dst);
    }
  }
  return i;
}

std::size_t RowNormalizer::convert_vectors(const std::uint8_t* src, std::size_t count,
                                           void* dst) const {
  switch (channels_) {
    case 1: return convert_channels<1>(src, count, dst);
    case 3: return convert_channels<3>(src, count, dst);
    case 4: return convert_channels<4>(src, count, dst);
    default: return 0;
  }
}

void RowNormalizer::convert(const std::uint8_t* src, std::size_t count, void* dst) const {
  const std::size_t done = vectors_ ? convert_vectors(src, count, dst) : 0;
  if (dtype_ == DType::FP32) {
    look_up(src + done, count - done, channels_, table_.data(), static_cast<float*>(dst) + done);
  } else {
    look_up(src + done, count - done, channels_, table16_.data(),
            static_cast<std::uint16_t*>(dst) + done);
  }
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
// Mixup and CutMix: their rules, and what they do to a batch.
#include "data/transforms/batch_mix.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/half.h"
#include "data/transforms/float_vectors.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

TransformRule mix_rule(const char* name, float alpha, float p) {
  const std::string text =
      p == 1 ? fmt::format("{}({})", name, alpha) : fmt::format("{}({}, p={})", name, alpha, p);
  return {.text = text, .stage = ChainStage::BATCH, .check = [=] {
            check_between(text, "alpha", alpha, 0.01f, 100);
            check_probability(text, p);
          }};
}

/// x = x * lambda + other * (1 - lambda), each operation rounded.
template <typename T>
void mix_values(T* x, const T* other, std::size_t count, float lambda) {
  const float rest = 1 - lambda;
  const __m256 own_weight = _mm256_set1_ps(lambda), other_weight = _mm256_set1_ps(rest);
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 own_part = _mm256_mul_ps(load_floats(x + i), own_weight);
    const __m256 other_part = _mm256_mul_ps(load_floats(other + i), other_weight);
    store_floats(_mm256_add_ps(own_part, other_part), x + i);
  }
  for (; i < count; ++i) {
    x[i] = from_float<T>(to_float(x[i]) * lambda + to_float(other[i]) * rest);
  }
}

}  // namespace

TransformRule rule_of(const Mixup& t) { return mix_rule("Mixup", t.alpha, t.p); }
TransformRule rule_of(const CutMix& t) { return mix_rule("CutMix", t.alpha, t.p); }

bool mixes_batches(const TransformChain& chain) {
  return std::any_of(chain.transforms.begin(), chain.transforms.end(),
                     [](const Transform& t) { return rule_of(t).stage == ChainStage::BATCH; });
}

std::optional<BatchMix> BatchMix::of(const TransformChain& chain, ImageShape image, DType dtype,
                                     int num_classes) {
  BatchMix mix;
  for (const Transform& t : chain.transforms) {
    const TransformRule rule = rule_of(t);
    if (rule.stage != ChainStage::BATCH) continue;
    rule.check();
    TR_CHECK(num_classes >= 1, "{}: there are no classes, labels cannot be mixed", rule.text);
    if (const auto* cut = std::get_if<CutMix>(&t)) {
      mix.choices_.push_back({Kind::CUTMIX, cut->alpha, cut->p});
    } else {
      const auto& mixup = std::get<Mixup>(t);
      mix.choices_.push_back({Kind::MIXUP, mixup.alpha, mixup.p});
    }
  }
  if (mix.choices_.empty()) return std::nullopt;
  mix.shape_ = image;
  mix.dtype_ = dtype;
  mix.num_classes_ = num_classes;
  mix.image_bytes_ = image.num_bytes() * size_of(dtype);
  return mix;
}

BatchMix::Mixing BatchMix::draw(const DrawAddress& address) const {
  float total = 0;
  for (const Choice& choice : choices_) total += choice.p;
  float left = uniform01(address.block(0).v[2]) * std::max(total, 1.0f);
  for (const Choice& choice : choices_) {
    left -= choice.p;
    if (left >= 0) continue;
    Mixing mixing{
        .kind = choice.kind, .lambda = pixel::draw_beta(address, choice.alpha), .rect = {}};
    if (choice.kind == Kind::CUTMIX) {
      mixing.rect = pixel::draw_cut(address, shape_.height, shape_.width, mixing.lambda);
      mixing.lambda = mixing.rect.kept;
    }
    return mixing;
  }
  return {};
}

void BatchMix::mix_image(std::byte* image, const std::byte* other, const Mixing& mixing) const {
  if (mixing.kind == Kind::CUTMIX) {
    const pixel::CutRect& rect = mixing.rect;
    const std::size_t pixel_bytes = std::size_t(shape_.channels) * size_of(dtype_);
    const std::size_t bytes = std::size_t(rect.right - rect.left) * pixel_bytes;
    for (int y = rect.top; y < rect.bottom; ++y) {
      const std::size_t at =
          (std::size_t(y) * std::size_t(shape_.width) + std::size_t(rect.left)) * pixel_bytes;
      std::memcpy(image + at, other + at, bytes);
    }
    return;
  }
  const std::size_t count = shape_.num_bytes();
  if (dtype_ == DType::FP32) {
    mix_values(reinterpret_cast<float*>(image), reinterpret_cast<const float*>(other), count,
               mixing.lambda);
  } else if (dtype_ == DType::BF16) {
    mix_values(reinterpret_cast<BFloat16*>(image), reinterpret_cast<const BFloat16*>(other), count,
               mixing.lambda);
  } else {
    mix_values(reinterpret_cast<Half*>(image), reinterpret_cast<const Half*>(other), count,
               mixing.lambda);
  }
}

/// From the last row on: the label of the row before is still its own.
template <typename Label>
void BatchMix::mix_labels(const Batch& batch, Label* labels, float lambda) const {
  const std::int64_t count = batch.count;
  for (std::int64_t i = 0; i <= count; ++i) {
    if (labels[i] >= 0 && labels[i] < num_classes_) continue;
    throw_as<DataError>("row {} of the batch has label {}, the model has {} outputs", i,
                        std::int64_t(labels[i]), num_classes_);
  }
  std::memset(batch.soft_labels, 0, std::size_t(count) * std::size_t(num_classes_) * sizeof(float));
  for (std::int64_t i = count - 1; i >= 0; --i) {
    const Label other = labels[i > 0 ? i - 1 : count];
    float* row = batch.soft_labels + i * num_classes_;
    row[labels[i]] += lambda;
    row[other] += 1 - lambda;
    if (lambda < 0.5f) labels[i] = other;
  }
}

void BatchMix::mix(const Batch& batch, const Mixing& mixing) const {
  if (batch.count == 0) return;
  if (batch.label_dtype == DType::INT64) {
    mix_labels(batch, static_cast<std::int64_t*>(batch.labels), mixing.lambda);
  } else {
    mix_labels(batch, static_cast<std::int32_t*>(batch.labels), mixing.lambda);
  }
  if (mixing.kind == Kind::NONE) return;
  auto* first = static_cast<std::byte*>(batch.images);
  for (std::int64_t i = batch.count - 1; i >= 0; --i) {
    const std::int64_t other = i > 0 ? i - 1 : batch.count;
    mix_image(first + std::size_t(i) * image_bytes_, first + std::size_t(other) * image_bytes_,
              mixing);
  }
}

}  // namespace tr::data

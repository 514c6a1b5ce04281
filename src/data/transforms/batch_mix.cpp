// SPDX-License-Identifier: Apache-2.0
// Mixup and CutMix: their rules, and what they do to a batch.
#include "data/transforms/batch_mix.h"

#include <cstring>

#include "core/check.h"
#include "core/half.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

TransformRule mix_rule(const char* name, float alpha) {
  const std::string text = fmt::format("{}({})", name, alpha);
  return {.text = text, .stage = ChainStage::BATCH, .check = [=] {
            check_between(text, "alpha", alpha, 0.01f, 100);
          }};
}

template <typename T>
void mix_values(T* x, const T* other, std::size_t count, float lambda) {
  const float rest = 1 - lambda;
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = from_float<T>(to_float(x[i]) * lambda + to_float(other[i]) * rest);
  }
}

}  // namespace

TransformRule rule_of(const Mixup& t) { return mix_rule("Mixup", t.alpha); }
TransformRule rule_of(const CutMix& t) { return mix_rule("CutMix", t.alpha); }

std::optional<BatchMix> BatchMix::of(const TransformChain& chain, ImageShape image, DType dtype,
                                     int num_classes) {
  for (const Transform& t : chain.transforms) {
    const TransformRule rule = rule_of(t);
    if (rule.stage != ChainStage::BATCH) continue;
    rule.check();
    TR_CHECK(num_classes >= 1, "{}: the set has no classes, labels cannot be mixed", rule.text);
    BatchMix mix;
    mix.shape_ = image;
    mix.dtype_ = dtype;
    mix.num_classes_ = num_classes;
    mix.image_bytes_ = image.num_bytes() * size_of(dtype);
    mix.cuts_ = std::holds_alternative<CutMix>(t);
    mix.alpha_ = mix.cuts_ ? std::get<CutMix>(t).alpha : std::get<Mixup>(t).alpha;
    return mix;
  }
  return std::nullopt;
}

BatchMix::Mixing BatchMix::draw(const DrawAddress& address) const {
  Mixing mixing;
  mixing.lambda = pixel::draw_beta(address, alpha_);
  if (cuts_) {
    mixing.rect = pixel::draw_cut(address, shape_.height, shape_.width, mixing.lambda);
    mixing.lambda = mixing.rect.kept;
  }
  return mixing;
}

void BatchMix::mix_image(std::byte* image, const std::byte* other, const Mixing& mixing) const {
  if (cuts_) {
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

void BatchMix::mix(const Batch& batch, const Mixing& mixing, std::byte* scratch) const {
  const auto& [images, labels, soft_labels, count] = batch;
  if (count == 0) return;
  auto* first = static_cast<std::byte*>(batch.images);
  const auto image = [this, first](std::int64_t i) {
    return first + std::size_t(i) * image_bytes_;
  };
  std::memcpy(scratch, image(count - 1), image_bytes_);  // the last one, as the first one's partner
  for (std::int64_t i = count - 1; i >= 0; --i) {
    mix_image(image(i), i > 0 ? image(i - 1) : scratch, mixing);
  }
  std::memset(soft_labels, 0, std::size_t(count) * std::size_t(num_classes_) * sizeof(float));
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int32_t label = labels[i], other = labels[i > 0 ? i - 1 : count - 1];
    if (label < 0 || label >= num_classes_) {
      throw_as<DataError>("row {} of the batch has label {}, the set has {} classes", i, label,
                          num_classes_);
    }
    float* row = soft_labels + i * num_classes_;
    row[label] += mixing.lambda;
    if (other >= 0 && other < num_classes_) row[other] += 1 - mixing.lambda;
  }
}

}  // namespace tr::data

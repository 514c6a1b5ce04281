// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/batch_mix.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "core/half.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::throws;
using Kind = BatchMix::Kind;

constexpr ImageShape kShape{3, 5, 3};  // no whole number of vectors
constexpr std::int64_t kCount = 3;

BatchMix mix_of(std::vector<Transform> transforms, DType dtype) {
  return *BatchMix::of({.transforms = std::move(transforms)}, kShape, dtype, 5);
}

/// Images whose values differ from each other everywhere; one more than the batch has.
template <typename T>
std::vector<T> make_images() {
  std::vector<T> images(kShape.num_bytes() * (kCount + 1));
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = from_float<T>(0.37f * float(i) - 9);
  return images;
}

template <typename T, typename Label>
void expect_mixed(DType dtype, DType label_dtype) {
  const BatchMix mix = mix_of({RandomHorizontalFlip(), Mixup()}, dtype);
  std::vector<T> images = make_images<T>();
  const std::vector<T> before = images;
  std::vector<Label> labels = {4, 1, 1, 2};
  std::vector<float> soft(15, -1);
  mix.mix({.images = images.data(),
           .labels = labels.data(),
           .label_dtype = label_dtype,
           .soft_labels = soft.data(),
           .count = kCount},
          {.kind = Kind::MIXUP, .lambda = 0.3f, .rect = {}});
  const std::size_t size = kShape.num_bytes();
  for (std::size_t i = 0; i < size * kCount; ++i) {
    const float other = to_float(before[i < size ? i + kCount * size : i - size]);
    const T want = from_float<T>(to_float(before[i]) * 0.3f + other * (1 - 0.3f));
    ASSERT_EQ(to_float(images[i]), to_float(want)) << i;
  }
  const std::vector<float> want = {0,        0, 1 - 0.3f,          0, 0.3f, 0, 0.3f, 0, 0,
                                   1 - 0.3f, 0, 0.3f + (1 - 0.3f), 0, 0,    0};
  EXPECT_EQ(soft, want);
  EXPECT_EQ(labels, (std::vector<Label>{2, 4, 1, 2})) << "those of the heavier images";
}

TEST(BatchMixTest, EveryImageIsMixedWithTheOneBeforeItInEveryType) {
  expect_mixed<float, std::int32_t>(DType::FP32, DType::INT32);
  expect_mixed<Half, std::int64_t>(DType::FP16, DType::INT64);
  expect_mixed<BFloat16, std::int32_t>(DType::BF16, DType::INT32);
}

TEST(BatchMixTest, DrawsDependOnThePlaceAlone) {
  for (const Transform& transform : {Transform(Mixup(0.4f)), Transform(CutMix(0.4f))}) {
    const auto mix = BatchMix::of({.transforms = {transform}}, {200, 300, 3}, DType::FP16, 5);
    ASSERT_TRUE(mix.has_value());
    const auto lambda = [&](std::int64_t epoch, std::int64_t place) {
      return mix->draw(pixel::batch_address(3, epoch, place)).lambda;
    };
    EXPECT_EQ(lambda(1, 64), lambda(1, 64));
    EXPECT_NE(lambda(1, 64), lambda(1, 128));
    EXPECT_NE(lambda(1, 64), lambda(2, 64));
  }
}

constexpr int kDraws = 4000;

/// How often each kind is drawn: none, Mixup, CutMix.
std::array<int, 3> counts_of(std::vector<Transform> transforms) {
  const BatchMix mix = mix_of(std::move(transforms), DType::FP32);
  std::array<int, 3> counts{};
  for (std::int64_t place = 0; place < kDraws; ++place)
    ++counts[std::size_t(mix.draw(pixel::batch_address(3, 0, place)).kind)];
  return counts;
}

TEST(BatchMixTest, OneOfSeveralIsDrawnByItsProbability) {
  const auto expect = [](std::vector<Transform> transforms, std::array<double, 3> want) {
    const auto got = counts_of(std::move(transforms));
    for (std::size_t k = 0; k < 3; ++k) {
      const double deviation = std::sqrt(kDraws * want[k] * (1 - want[k]));
      EXPECT_NEAR(got[k], kDraws * want[k], 4 * deviation) << k;
    }
  };
  expect({Mixup()}, {0, 1, 0});
  expect({Mixup(1, 0.25f)}, {0.75, 0.25, 0});
  expect({Mixup(1, 0)}, {1, 0, 0});
  expect({Mixup(), CutMix()}, {0, 0.5, 0.5});  // torchvision's RandomChoice
  expect({CutMix(1, 0.75f), Mixup(1, 0.25f)}, {0, 0.25, 0.75});
  expect({Mixup(1, 0.2f), CutMix(1, 0.3f)}, {0.5, 0.2, 0.3});
}

TEST(BatchMixTest, WithoutMixingOnlyLabelsBecomeSoft) {
  const BatchMix mix = mix_of({CutMix(1, 0)}, DType::FP32);
  std::vector<float> images = make_images<float>();
  const std::vector<float> before = images;
  std::vector<std::int32_t> labels = {4, 1, 0, 2};
  std::vector<float> soft(15, -1);
  mix.apply({.images = images.data(),
             .labels = labels.data(),
             .soft_labels = soft.data(),
             .count = kCount},
            pixel::batch_address(1, 2, 3));
  EXPECT_EQ(images, before);
  EXPECT_EQ(labels, (std::vector<std::int32_t>{4, 1, 0, 2}));
  EXPECT_EQ(soft, (std::vector<float>{0, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}));
}

TEST(BatchMixTest, CutMixTakesTheRectangleOnly) {
  const BatchMix mix = mix_of({CutMix()}, DType::FP32);
  std::vector<float> images = make_images<float>();
  const std::vector<float> before = images;
  std::vector<std::int32_t> labels = {0, 1, 2, 3};
  std::vector<float> soft(15);
  mix.mix({.images = images.data(),
           .labels = labels.data(),
           .soft_labels = soft.data(),
           .count = kCount},
          {.kind = Kind::CUTMIX,
           .lambda = 0.75f,
           .rect = {.top = 1, .left = 2, .bottom = 3, .right = 4}});
  const std::size_t size = kShape.num_bytes();
  for (std::size_t i = 0; i < size * kCount; ++i) {
    const std::size_t y = i % size / 15, x = i % 15 / 3;
    const std::size_t other = i < size ? i + kCount * size : i - size;
    ASSERT_EQ(images[i], before[y >= 1 && x >= 2 && x < 4 ? other : i]) << i;
  }
}

TEST(BatchMixTest, RefusesWhatItCannotMix) {
  EXPECT_FALSE(BatchMix::of({.transforms = {CenterCrop(2)}}, kShape, DType::FP32, 5).has_value());
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { BatchMix::of({.transforms = {Mixup()}}, kShape, DType::FP32, 0); }, "no classes"));
  const BatchMix mix = mix_of({Mixup()}, DType::FP32);
  std::vector<float> images = make_images<float>(), soft(15);
  std::vector<std::int32_t> labels = {0, 5, 2, 0};
  EXPECT_TRUE(throws<DataError>(
      [&] {
        mix.mix({.images = images.data(),
                 .labels = labels.data(),
                 .soft_labels = soft.data(),
                 .count = kCount},
                {.kind = Kind::MIXUP, .lambda = 0.5f, .rect = {}});
      },
      "row 1 of the batch has label 5, the model has 5 outputs"));
}

}  // namespace
}  // namespace tr::data

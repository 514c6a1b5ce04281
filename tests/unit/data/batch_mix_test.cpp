// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/batch_mix.h"

#include <gtest/gtest.h>

#include <vector>

#include "core/half.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::throws;

constexpr ImageShape kShape{3, 4, 2};
constexpr std::int64_t kCount = 3;

BatchMix mix_of(Transform transform, DType dtype) {
  return *BatchMix::of({.transforms = {RandomHorizontalFlip(), transform}}, kShape, dtype, 5);
}

/// Images whose values differ from each other everywhere.
template <typename T>
std::vector<T> make_images() {
  std::vector<T> images(kShape.num_bytes() * kCount);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = from_float<T>(0.37f * float(i) - 9);
  return images;
}

template <typename T>
void expect_mixed(DType dtype) {
  const BatchMix mix = mix_of(Mixup(), dtype);
  std::vector<T> images = make_images<T>();
  const std::vector<T> before = images;
  const std::int32_t labels[] = {4, 1, 1};
  std::vector<float> soft(15, -1);
  std::vector<std::byte> scratch(mix.scratch_bytes());
  mix.mix({images.data(), labels, soft.data(), kCount}, {.lambda = 0.3f}, scratch.data());
  const std::size_t size = kShape.num_bytes();
  for (std::size_t i = 0; i < images.size(); ++i) {
    const float other = to_float(before[i < size ? i + 2 * size : i - size]);
    const T want = from_float<T>(to_float(before[i]) * 0.3f + other * (1 - 0.3f));
    ASSERT_EQ(to_float(images[i]), to_float(want)) << i;
  }
  const std::vector<float> want = {0, 1 - 0.3f,          0, 0, 0.3f, 0, 0.3f, 0, 0, 1 - 0.3f,
                                   0, 0.3f + (1 - 0.3f), 0, 0, 0};
  EXPECT_EQ(soft, want);
}

TEST(BatchMixTest, EveryImageIsMixedWithTheOneBeforeItInEveryType) {
  expect_mixed<float>(DType::FP32);
  expect_mixed<Half>(DType::FP16);
  expect_mixed<BFloat16>(DType::BF16);
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

TEST(BatchMixTest, CutMixTakesTheRectangleOnly) {
  const BatchMix mix = mix_of(CutMix(), DType::FP32);
  std::vector<float> images = make_images<float>();
  const std::vector<float> before = images;
  const std::int32_t labels[] = {0, 1, 2};
  std::vector<float> soft(15);
  std::vector<std::byte> scratch(mix.scratch_bytes());
  mix.mix({images.data(), labels, soft.data(), kCount},
          {{.top = 1, .left = 2, .bottom = 3, .right = 4}, 0.75f}, scratch.data());
  const std::size_t size = kShape.num_bytes();
  for (std::size_t i = 0; i < images.size(); ++i) {
    const std::size_t y = i % size / 8, x = i % 8 / 2;
    const std::size_t other = i < size ? i + 2 * size : i - size;
    ASSERT_EQ(images[i], before[y >= 1 && x >= 2 ? other : i]) << i;
  }
}

TEST(BatchMixTest, RefusesWhatItCannotMix) {
  EXPECT_FALSE(BatchMix::of({.transforms = {CenterCrop(2)}}, kShape, DType::FP32, 5).has_value());
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { BatchMix::of({.transforms = {Mixup()}}, kShape, DType::FP32, 0); }, "no classes"));
  const BatchMix mix = mix_of(Mixup(), DType::FP32);
  std::vector<float> images = make_images<float>(), soft(15);
  const std::int32_t labels[] = {0, 5, 2};
  std::vector<std::byte> scratch(mix.scratch_bytes());
  EXPECT_TRUE(throws<DataError>(
      [&] {
        mix.mix({images.data(), labels, soft.data(), kCount}, {.lambda = 0.5f}, scratch.data());
      },
      "row 1 of the batch has label 5, the set has 5 classes"));
}

}  // namespace
}  // namespace tr::data

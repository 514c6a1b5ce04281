// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/chain.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "core/sha256.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/throws.h"
#include "unit/data/pixel_images.h"

namespace tr::data {
namespace {

using test::Image;
using test::random_image;
using test::throws;

TransformChain article_chain() {
  return {.transforms = {Pad(2), RandomCrop(28), RandomRotation(20.0f, 0), RandomScale(0.8f, 1.2f),
                         RandomErasing(0.5f)},
          .normalization = NormMode::MNIST,
          .output_height = 28,
          .output_width = 28};
}

DrawAddress address_of(std::uint64_t sample) { return {7, DrawPurpose::AUGMENT, 2, sample}; }

template <typename T>
std::vector<T> run_chain(const PixelChain& chain, const Image& image, std::uint64_t sample) {
  std::vector<std::uint8_t> src(image.pixels);
  src.resize(chain.input_buffer_bytes());
  std::vector<std::byte> scratch(chain.scratch_bytes());
  std::vector<T> out(chain.output_bytes() / sizeof(T));
  chain.run(src.data(), out.data(), address_of(sample), scratch.data());
  return out;
}

TEST(PixelChainTest, IsItsStepsOneAfterTheOther) {
  const TransformChain chain = article_chain();
  const PixelChain prepared(chain, {28, 28, 1}, DType::FP32);
  for (std::uint64_t sample = 0; sample < 20; ++sample) {
    const Image image = random_image({28, 28, 1}, sample);
    Image now = image;
    for (std::uint32_t i = 0; i < 4; ++i) {
      const auto step = std::visit(
          [&](const auto& t) -> std::unique_ptr<PixelStep> {
            if constexpr (requires { make_step(t, now.shape); }) return make_step(t, now.shape);
            return nullptr;
          },
          chain.transforms[i]);
      now = test::run_step(*step, now, {address_of(sample), i});
    }
    const pixel::EraseRange range{0.5f, 0.02f, 0.33f, det::log(0.3f), det::log(3.3f)};
    const auto rect = pixel::draw_erase({address_of(sample), 4}, 28, 28, range);
    const auto got = run_chain<float>(prepared, image, sample);
    for (int y = 0; y < 28; ++y) {
      for (int x = 0; x < 28; ++x) {
        const bool erased = y >= rect.top && y < rect.top + rect.height && x >= rect.left &&
                            x < rect.left + rect.width;
        const float expected =
            erased ? 0.0f : (float(test::at(now, y, x, 0)) / 255.0f - 0.1307f) / 0.3081f;
        ASSERT_EQ(got[std::size_t(28 * y + x)], expected) << sample << ' ' << y << ' ' << x;
      }
    }
  }
}

// Frozen: the same on every machine and device (docs/determinism.md).
TEST(PixelChainTest, GoldenBytesOfTheArticlesChain) {
  const PixelChain chain(article_chain(), {28, 28, 1}, DType::FP32);
  Sha256 hash;
  for (std::uint64_t sample = 0; sample < 64; ++sample) {
    const auto pixels = run_chain<float>(chain, random_image({28, 28, 1}, sample), sample);
    hash.update(std::as_bytes(std::span(pixels)));
  }
  EXPECT_EQ(hash.hex(), "2c15b541d0b0bd77d9e005ffb311abfe075711c3f166a6cbd0c5902fa272b893");
}

TEST(PixelChainTest, DrawsDifferBySampleAndEpochOnly) {
  const PixelChain chain(article_chain(), {28, 28, 1}, DType::FP32);
  const Image image = random_image({28, 28, 1}, 1);
  EXPECT_EQ(run_chain<float>(chain, image, 5), run_chain<float>(chain, image, 5));
  EXPECT_NE(run_chain<float>(chain, image, 5), run_chain<float>(chain, image, 6));
}

TEST(FusedNormalizationTest, HalfTypesAreTheRoundedTable) {
  TransformChain chain;
  chain.normalization = NormMode::IMAGENET;
  const Image image = random_image({9, 8, 3}, 2);
  const auto fp32 = run_chain<float>(PixelChain(chain, {9, 8, 3}, DType::FP32), image, 0);
  const auto fp16 = run_chain<std::uint16_t>(PixelChain(chain, {9, 8, 3}, DType::FP16), image, 0);
  const auto bf16 = run_chain<std::uint16_t>(PixelChain(chain, {9, 8, 3}, DType::BF16), image, 0);
  constexpr float kMean[] = {0.485f, 0.456f, 0.406f}, kStd[] = {0.229f, 0.224f, 0.225f};
  for (std::size_t i = 0; i < fp32.size(); ++i) {
    ASSERT_EQ(fp32[i], (float(image.pixels[i]) / 255.0f - kMean[i % 3]) / kStd[i % 3]);
    ASSERT_EQ(fp16[i], from_float<Half>(fp32[i]).bits);
    ASSERT_EQ(bf16[i], from_float<BFloat16>(fp32[i]).bits);
  }
}

TEST(FusedNormalizationTest, PresetsAndCustomValues) {
  const auto last = [](Normalization norm, int channels) {
    return channel_norms(norm, channels).back();
  };
  EXPECT_EQ(last(NormMode::NO_NORM, 4).mean, 0.0f);
  EXPECT_EQ(last(NormMode::NO_NORM, 4).std, 1.0f);
  EXPECT_EQ(last(NormMode::MNIST, 1).std, 0.3081f);
  EXPECT_EQ(last(NormMode::CIFAR, 3).mean, 0.4465f);
  EXPECT_EQ(last(NormMode::IMAGENET, 3).std, 0.225f);
  EXPECT_EQ(last(NormMode::MLPERF, 3).mean, 103.94f / 255.0f);
  EXPECT_EQ(last(NormMode::MLPERF, 3).std, 1.0f / 255.0f);
  EXPECT_EQ(last(Normalization({0.1f, 0.2f}, {0.3f, 0.4f}), 2).std, 0.4f);
  EXPECT_TRUE(throws<InvalidArgument>([&] { last(NormMode::IMAGENET, 1); },
                                      "IMAGENET has 3 channels, the images have 1"));
}

TEST(TransformChainTest, KnowsItsShapeAndText) {
  const TransformChain chain = article_chain();
  EXPECT_EQ(chain.output_shape({28, 28, 1}), (Shape{28, 28, 1}));
  EXPECT_TRUE(chain.is_random());
  EXPECT_FALSE(TransformChain{.transforms = {Pad(1)}}.is_random());
  EXPECT_EQ(chain.str(),
            "Pad(2, fill=0, CONSTANT), RandomCrop(28), RandomRotation(20, fill=0), "
            "RandomScale(0.8, 1.2), "
            "RandomErasing(0.5, scale=[0.02, 0.33], ratio=[0.3, 3.3]), Normalize(MNIST) -> 28x28");
}

TEST(TransformChainTest, TheArticlesSecondChainIsDeclaredAndRefusedByName) {
  const TransformChain chain{.transforms = {RandomResizedCrop(224, 0.08f, 1.0f),
                                            RandomHorizontalFlip(),
                                            ColorJitter(0.2f, 0.2f, 0.2f, 0.1f),
                                            RandomErasing(0.25f, {0.02f, 0.33f}, {0.3f, 3.3f})}};
  EXPECT_TRUE(throws<Unsupported>([&] { chain.validate(); }, "RandomResizedCrop(224"));
  const TransformChain val{.transforms = {Resize(256), CenterCrop(224)}};
  EXPECT_TRUE(
      throws<Unsupported>([&] { val.validate(); }, "Resize(256): this transform has no kernel"));
}

struct BadChain {
  Transform transform;
  const char* words;
};
class BadTransformTest : public testing::TestWithParam<BadChain> {};

TEST_P(BadTransformTest, IsRefusedWithItsValue) {
  const TransformChain chain{.transforms = {GetParam().transform}};
  EXPECT_TRUE(throws<InvalidArgument>([&] { chain.validate(); }, GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    Values, BadTransformTest,
    testing::Values(BadChain{Pad(-1), "padding is -1"}, BadChain{Pad(1, 256), "fill is 256"},
                    BadChain{RandomCrop(0), "size is 0"},
                    BadChain{RandomRotation(-5.0f), "degrees is -5"},
                    BadChain{RandomRotation(std::nanf("")), "degrees is nan"},
                    BadChain{RandomScale(1.2f, 0.8f), "[1.2, 0.8]"},
                    BadChain{RandomErasing(1.5f), "p is 1.5"},
                    BadChain{RandomErasing(0.5f, {0.5f, 0.2f}), "scale is [0.5, 0.2]"},
                    BadChain{RandomErasing(0.5f, {0.1f, 0.2f}, {0, 1}), "ratio is [0, 1]"},
                    BadChain{ColorJitter(0, 0, 0, 0.7f), "hue is 0.7"}));

TEST(TransformChainTest, RefusesWhatDoesNotFitTogether) {
  TransformChain chain = article_chain();
  std::swap(chain.transforms[3], chain.transforms[4]);
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { chain.validate(); }, "step 4 of 5, must be the last one"));
  chain = article_chain();
  chain.output_height = 32;
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        chain.output_shape({28, 28, 1});
      },
      "into 28x28, expected 32x28"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { chain.output_shape({28, 28}); }, "expected [H, W, C]"));
  chain = article_chain();
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        chain.output_shape({28, 28, 3});
      },
      "MNIST has 1 channels"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        TransformChain{.transforms = {Pad(4, 0, PadMode::REFLECT)}}.output_shape({4, 4, 1});
      },
      "must be at most 3"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { TransformChain{.normalization = Normalization({0.5f}, {0.0f})}.validate(); },
      "standard deviation is 0"));
}

}  // namespace
}  // namespace tr::data

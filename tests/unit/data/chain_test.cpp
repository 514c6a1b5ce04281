// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/chain.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "core/half.h"
#include "core/pixel/crop.h"
#include "core/pixel/normalize.h"
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
      const auto step = make_step(chain.transforms[i]);
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

TransformChain second_article_chain() {
  return {.transforms = {RandomResizedCrop(224, 0.08f, 1.0f), RandomHorizontalFlip(),
                         ColorJitter(0.2f, 0.2f, 0.2f, 0.1f),
                         RandomErasing(0.25f, {0.02f, 0.33f}, {0.3f, 3.3f})},
          .normalization = NormMode::IMAGENET,
          .output_height = 224,
          .output_width = 224};
}

TEST(TransformChainTest, TheArticlesSecondChainTakesPicturesOfAnySize) {
  const TransformChain chain = second_article_chain();
  EXPECT_EQ(chain.output_shape({0, 0, 3}), (Shape{224, 224, 3}));
  const TransformChain val{.transforms = {Resize(256), CenterCrop(224)}};
  EXPECT_EQ(val.output_shape({0, 0, 3}), (Shape{224, 224, 3}));
  EXPECT_FALSE(val.is_random());
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        TransformChain{.transforms = {Resize(256), RandomHorizontalFlip()}}.output_shape({0, 0, 3});
      },
      "a step must give them one size"));
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
    testing::Values(
        BadChain{Pad(-1), "padding is -1"}, BadChain{Pad(1, 256), "fill is 256"},
        BadChain{RandomCrop(0), "size is 0"}, BadChain{RandomRotation(-5.0f), "degrees is -5"},
        BadChain{RandomRotation(std::nanf("")), "degrees is nan"},
        BadChain{RandomScale(1.2f, 0.8f), "[1.2, 0.8]"}, BadChain{RandomErasing(1.5f), "p is 1.5"},
        BadChain{RandomErasing(0.5f, {0.5f, 0.2f}), "scale is [0.5, 0.2]"},
        BadChain{RandomErasing(0.5f, {0.1f, 0.2f}, {0, 1}), "ratio is [0, 1]"},
        BadChain{ColorJitter(0, 0, 0, 0.7f), "hue is 0.7"},
        BadChain{ColorJitter(20), "brightness is 20"}, BadChain{CenterCrop(-1), "size is -1"},
        BadChain{Resize(0), "size is 0"},
        BadChain{Resize(ImageSize(60, 160)), "[60, 160], SHORT_SIDE"},
        BadChain{Resize(ImageSize(60, 160), ResizeMode::SQUARE),
                 "a size of two sides needs STRETCH"},
        BadChain{CenterCrop(ImageSize(4, 0)), "size is [4, 0]"},
        BadChain{RandomCrop(ImageSize(-4, 4)), "size is [-4, 4]"},
        BadChain{Resize(8, ResizeMode::SQUARE, Interpolation::NEAREST), "is NEAREST"},
        BadChain{RandomResizedCrop(8, 0.5f, 0.1f), "scale is [0.5, 0.1]"},
        BadChain{FastRandomResizedCrop(8, {0, 1}), "scale is [0, 1]"},
        BadChain{RandomHorizontalFlip(2), "p is 2"}, BadChain{RandomVerticalFlip(-1), "p is -1"},
        BadChain{RandomGrayscale(1.1f), "p is 1.1"}, BadChain{RandomAutocontrast(7), "p is 7"},
        BadChain{RandomAffine(400), "degrees is 400"},
        BadChain{RandomAffine(0, {2, 0}), "translate (width) is 2"},
        BadChain{RandomAffine(0, {0, 0}, {2, 1}), "scale is [2, 1]"},
        BadChain{RandomAffine(0, {0, 0}, {1, 1}, {-90, 0}), "shear_x is [-90, 0]"},
        BadChain{RandomAffine(0).with_interpolation(Interpolation::BICUBIC), "is BICUBIC"},
        BadChain{GaussianBlur(0, 1), "sigma is [0, 1]"},
        BadChain{GaussianBlur(1, 2, 4), "kernel_size is 4"},
        BadChain{GaussianNoise(0, 300), "std is 300"}, BadChain{RandAugment(0), "num_ops is 0"},
        BadChain{RandAugment(2, 31), "magnitude is 31"},
        BadChain{TrivialAugment(1), "num_bins is 1"}, BadChain{Mixup(0), "alpha is 0"},
        BadChain{CutMix(1000), "alpha is 1000"}, BadChain{Mixup(1, 1.5f), "p is 1.5"},
        BadChain{CutMix(1, -1), "p is -1"}));

TEST(TransformChainTest, RefusesWhatDoesNotFitTogether) {
  TransformChain chain = article_chain();
  std::swap(chain.transforms[3], chain.transforms[4]);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { chain.validate(); },
      "RandomErasing(0.5, scale=[0.02, 0.33], ratio=[0.3, 3.3]) acts after the normalisation: "
      "RandomScale(0.8, 1.2), which acts on pixels, cannot stand behind it"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        TransformChain{.transforms = {Mixup(), RandomErasing()}}.validate();
      },
      "Mixup(1) acts on whole batches: RandomErasing"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        TransformChain{.transforms = {RandomErasing(), RandomErasing()}}.validate();
      },
      "only one transform that acts after the normalisation"));
  const TransformChain both{.transforms = {RandomErasing(), Mixup(0.2f), CutMix(1, 0.5f)}};
  EXPECT_NO_THROW(both.validate());
  EXPECT_EQ(both.str(),
            "RandomErasing(0.5, scale=[0.02, 0.33], ratio=[0.3, 3.3]), Mixup(0.2), "
            "CutMix(1, p=0.5), Normalize(NO_NORM)");
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

TEST(PixelChainTest, AFlipThatIsLeftToTheLastPassGivesTheSameBytes) {
  // The rotation by 0 degrees changes nothing, but nothing commutes past it.
  const std::vector<Transform> first = {
      RandomCrop(20),        RandomHorizontalFlip(),  ColorJitter(0.5f, 0.5f, 0.5f, 0.2f),
      RandomGrayscale(0.3f), RandomVerticalFlip(),    RandomHorizontalFlip(),
      RandomAutocontrast(),  GaussianBlur(0.5f, 1.0f)};
  std::vector<Transform> held = first;
  held.push_back(RandomRotation(0.0f));
  for (const int channels : {1, 3}) {
    const PixelChain fused({.transforms = first}, {23, 29, channels}, DType::FP16);
    const PixelChain plain({.transforms = held}, {23, 29, channels}, DType::FP16);
    for (std::uint64_t sample = 0; sample < 60; ++sample) {
      const Image image = random_image({23, 29, channels}, sample);
      ASSERT_EQ(run_chain<std::uint16_t>(fused, image, sample),
                run_chain<std::uint16_t>(plain, image, sample));
      std::vector<std::byte> a(fused.scratch_bytes()), b(plain.scratch_bytes());
      std::vector<std::uint8_t> src(image.pixels);
      src.resize(fused.input_buffer_bytes());
      const ImageRef ref(src.data(), image.shape);
      std::vector<std::uint8_t> mirrored(ref.shape.num_bytes() + kImageSlack);
      const ImageRef got = fused.final_pixels(fused.run_pixels(ref, address_of(sample), a.data()),
                                              address_of(sample), mirrored.data());
      const ImageRef want = plain.run_pixels(ref, address_of(sample), b.data());
      ASSERT_EQ(std::memcmp(got.pixels, want.pixels, want.shape.num_bytes()), 0);
    }
  }
}

TEST(PixelChainTest, APictureGoesTheWayOfAnImageOfItsSize) {
  const TransformChain chains[] = {
      {.transforms = {Resize(20), CenterCrop(16)}},
      {.transforms = {RandomResizedCrop(16), RandomHorizontalFlip()}},
      {.transforms = {Pad(1), RandomRotation(10), RandomCrop(16), RandomErasing(1.0f)}},
      {.transforms = {ColorJitter(0.3f, 0.3f, 0.3f, 0.1f),
                      Resize(16, ResizeMode::SQUARE, Interpolation::BICUBIC)}}};
  for (const TransformChain& chain : chains) {
    const PixelChain any(chain, {0, 0, 3}, DType::FP32);
    EXPECT_TRUE(any.takes_pictures());
    for (const ImageShape shape : {ImageShape{25, 40, 3}, {40, 25, 3}, {9, 30, 3}, {16, 16, 3}}) {
      const Image image = random_image(shape, 3);
      const PixelChain fixed(chain, {shape.height, shape.width, 3}, DType::FP32);
      // The same pixels in a larger memory, row by row.
      const std::size_t stride = shape.row_bytes() + 13;
      std::vector<std::uint8_t> wide(stride * std::size_t(shape.height) + kImageSlack, 0x5A);
      for (int y = 0; y < shape.height; ++y) {
        std::memcpy(wide.data() + std::size_t(y) * stride,
                    image.pixels.data() + std::size_t(y) * shape.row_bytes(), shape.row_bytes());
      }
      std::vector<std::byte> scratch(any.scratch_bytes(shape.height, shape.width));
      std::vector<float> out(any.output_bytes() / sizeof(float));
      any.normalise(
          any.run_pixels(ImageRef(wide.data(), shape, stride), address_of(8), scratch.data()),
          out.data(), address_of(8));
      ASSERT_EQ(out, run_chain<float>(fixed, image, 8)) << chain.str();
      const auto crop = any.first_crop(address_of(8), shape.height, shape.width);
      if (!crop) continue;
      std::vector<float> cropped(out.size());
      const ImageRef part = ImageRef(wide.data(), shape, stride)
                                .part(crop->top, crop->left, crop->height, crop->width);
      any.normalise(any.run_pixels(DecodedCrop(part), *crop, address_of(8), scratch.data()),
                    cropped.data(), address_of(8));
      ASSERT_EQ(out, cropped) << chain.str();
    }
  }
}

TEST(PixelChainTest, TellsWhatTheFirstStepTakes) {
  const auto crop_of = [](std::vector<Transform> transforms, int height, int width) {
    auto crop = PixelChain({.transforms = std::move(transforms)}, {0, 0, 3}, DType::FP32)
                    .first_crop(address_of(1), height, width);
    if (crop) {
      EXPECT_EQ(crop->picture_height, height);
      EXPECT_EQ(crop->picture_width, width);
      crop->picture_height = crop->picture_width = 0;
    }
    return crop;
  };
  EXPECT_EQ(crop_of({Resize(16, ResizeMode::SQUARE)}, 40, 60), (SourceCrop{0, 10, 40, 40, 16, 16}));
  EXPECT_EQ(crop_of({Resize(20), CenterCrop(16)}, 40, 60), (SourceCrop{0, 0, 40, 60, 20, 30}));
  EXPECT_EQ(crop_of({CenterCrop(16)}, 40, 60), (SourceCrop{12, 22, 16, 16}));
  EXPECT_FALSE(crop_of({CenterCrop(16)}, 10, 60).has_value());
  EXPECT_FALSE(crop_of({Pad(2), CenterCrop(16)}, 40, 60).has_value());
  // The pictures of one pixel's width and of ten pixels' height (tests/cases).
  EXPECT_EQ(crop_of({RandomResizedCrop(8)}, 1000, 1), (SourceCrop{499, 0, 1, 1, 8, 8}));
  EXPECT_EQ(crop_of({RandomResizedCrop(8)}, 10, 1000), (SourceCrop{0, 493, 10, 13, 8, 8}));
  EXPECT_TRUE(throws<DataError>(
      [&] {
        crop_of({Resize(256), CenterCrop(224)}, 1000, 1);
      },
      "would become 256000x256"));
}

TEST(FusedNormalizationTest, AddsChannelsOfZeros) {
  TransformChain chain{.transforms = {RandomHorizontalFlip(), RandomErasing(1.0f)},
                       .normalization = NormMode::IMAGENET};
  const PixelChain three(chain, {9, 11, 3}, DType::FP16);
  chain.output_channels = 4;
  const PixelChain four(chain, {9, 11, 3}, DType::FP16);
  EXPECT_EQ(four.output_shape(), (Shape{9, 11, 4}));
  for (std::uint64_t sample = 0; sample < 10; ++sample) {
    const Image image = random_image({9, 11, 3}, sample);
    const auto a = run_chain<std::uint16_t>(three, image, sample);
    const auto b = run_chain<std::uint16_t>(four, image, sample);
    for (std::size_t i = 0; i < 99; ++i) {
      for (std::size_t c = 0; c < 3; ++c) ASSERT_EQ(a[3 * i + c], b[4 * i + c]);
      ASSERT_EQ(b[4 * i + 3], 0);
    }
  }
  chain.output_channels = 2;
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        PixelChain(chain, {9, 11, 3}, DType::FP16);
      },
      "output_channels is 2, must be in 3..64"));
}

// Vectors where they give the table's bits: for the presets always, for others where checked.
TEST(FusedNormalizationTest, VectorsGiveTheBitsOfTheTable) {
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      const Philox4 words = DrawAddress{5, DrawPurpose::TEST, i, 0}.block(0);
      const float mean = uniform01(words.v[0]), std = 0.003f + uniform01(words.v[1]);
      const std::vector<ChannelNorm> norms = {{mean, std}, {0.456f, 0.224f}, {0.406f, 0.225f}};
      const RowNormalizer rows(norms, dtype);
      EXPECT_TRUE(rows.uses_vectors()) << mean << ' ' << std;
      std::vector<std::uint8_t> pixels(3 * 259);
      for (std::size_t k = 0; k < pixels.size(); ++k) pixels[k] = std::uint8_t(k / 3);
      std::vector<float> out(pixels.size());
      rows.convert(pixels.data(), pixels.size(), out.data());
      for (std::size_t k = 0; k < pixels.size(); ++k) {
        const float y = pixel::normalized(pixels[k], norms[k % 3].mean, norms[k % 3].std);
        const auto* half = reinterpret_cast<const std::uint16_t*>(out.data());
        const std::uint32_t got =
            dtype == DType::FP32 ? std::bit_cast<std::uint32_t>(out[k]) : half[k];
        const std::uint32_t want = dtype == DType::FP32   ? std::bit_cast<std::uint32_t>(y)
                                   : dtype == DType::FP16 ? from_float<Half>(y).bits
                                                          : from_float<BFloat16>(y).bits;
        ASSERT_EQ(got, want) << mean << ' ' << std << ' ' << k;
      }
    }
  }
}

TEST(PixelChainTest, SaysWhatItDraws) {
  const PixelChain chain({.transforms = {RandomCrop(20), RandomHorizontalFlip(1.0f),
                                         ColorJitter(0.5f, 0.5f, 0.5f, 0.2f), CenterCrop(16),
                                         RandAugment(1), RandomErasing(1.0f)}},
                         {23, 29, 3}, DType::FP32);
  const std::vector<std::string> texts = chain.describe(address_of(4), 23, 29);
  ASSERT_EQ(texts.size(), 6u);
  const auto window = pixel::draw_crop({address_of(4), 0}, 23, 29, 20, 20);
  EXPECT_EQ(texts[0], "RandomCrop(20): top " + std::to_string(window.top) + ", left " +
                          std::to_string(window.left));
  EXPECT_EQ(texts[1], "RandomHorizontalFlip(1): mirrored");
  EXPECT_NE(texts[2].find("saturation"), std::string::npos) << texts[2];
  EXPECT_EQ(texts[3], "CenterCrop(16)");
  EXPECT_EQ(texts[4].find("RandAugment(1, 9, num_bins=31, fill=0): "), 0u) << texts[4];
  EXPECT_NE(texts[5].find(": top "), std::string::npos) << texts[5];
}

struct Frozen {
  Transform transform;
  const char* hash;  // first 16 digits
};

// What each transform makes of 32 images, whatever the machine, the compiler or the device:
// changing a draw or a rounding changes trained weights (docs/determinism.md).
TEST(PixelChainTest, BytesOfEveryTransformAreFrozen) {
  const Frozen kFrozen[] = {
      {Pad(3, 9, PadMode::REFLECT), "f616df6ce2c362cb"},
      {RandomCrop(20), "d9c57e60227050af"},
      {CenterCrop(21), "938903d525a2dd3c"},
      {Resize(17), "5fb07d3e39b398ea"},
      {Resize(30, ResizeMode::SQUARE, Interpolation::BICUBIC), "5b60ba824ab46aad"},
      {Resize(16, ResizeMode::STRETCH, Interpolation::BILINEAR, false), "cc3f588c58161df9"},
      {RandomResizedCrop(16), "a0a221429cd8b609"},
      {RandomResizedCrop(24, {0.1f, 1}, {0.5f, 2}, Interpolation::BICUBIC), "077d15a65676f1e7"},
      {FastRandomResizedCrop(16), "d12e591404c6eca4"},
      {RandomHorizontalFlip(), "7da181eb67f3e173"},
      {RandomVerticalFlip(), "cd6e651086534b4c"},
      {ColorJitter(0.4f, 0.4f, 0.4f, 0.1f), "1bfea5469764d493"},
      {RandomGrayscale(0.5f), "6edab5590b196a97"},
      {RandomAutocontrast(), "abb4d49cf2033a94"},
      {RandomRotation(30.0f, 7), "b8cf7226831215f1"},
      {RandomScale(0.7f, 1.4f), "6dff6045e79f4e83"},
      {RandomAffine(30, {0.1f, 0.2f}, {0.8f, 1.2f}, {-10, 10}, {-5, 5}).with_fill(3),
       "9877ceaa41694012"},
      {RandomAffine(90).with_interpolation(Interpolation::NEAREST), "c8f579ea8b2fe373"},
      {GaussianBlur(), "2abc9f491d015912"},
      {GaussianNoise(), "12e82faf8cdeebe0"},
      {RandAugment(3, 20), "a41258a85982db9e"},
      {TrivialAugment(), "88171fc516d2dfe0"},
      {RandomErasing(0.8f), "647ebec6384e32a1"}};
  for (const Frozen& frozen : kFrozen) {
    const PixelChain chain({.transforms = {frozen.transform}}, {25, 31, 3}, DType::FP32);
    Sha256 hash;
    for (std::uint64_t sample = 0; sample < 32; ++sample) {
      Image image = random_image({25, 31, 3}, sample);
      for (std::size_t i = 0; i < image.pixels.size(); ++i) {  // smooth, with a little noise
        image.pixels[i] = std::uint8_t(2 * (i / 93) + 3 * (i % 93) / 4 + image.pixels[i] / 8);
      }
      const auto pixels = run_chain<float>(chain, image, sample);
      hash.update(std::as_bytes(std::span(pixels)));
    }
    EXPECT_EQ(hash.hex().substr(0, 16), frozen.hash) << to_string(frozen.transform);
  }
}

}  // namespace
}  // namespace tr::data

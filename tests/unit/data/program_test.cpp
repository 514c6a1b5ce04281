// SPDX-License-Identifier: Apache-2.0
// The program of a chain, run pixel by pixel with the functions that kernels call, against the
// vectorised steps of the host: every byte.
#include "data/transforms/program.h"

#include <gtest/gtest.h>

#include <cstring>

#include "core/pixel/stages.h"
#include "core/sha256.h"
#include "data/transforms/chain.h"
#include "renaissance/core/error.h"
#include "support/throws.h"
#include "unit/data/pixel_images.h"

namespace tr::data {
namespace {

using test::Image;
using test::random_image;
using test::throws;

Normalization norm_of(int channels) {
  Normalization norm;
  for (int c = 0; c < channels; ++c) {
    norm.mean.push_back(0.1f + 0.07f * float(c));
    norm.std.push_back(0.3f - 0.01f * float(c));
  }
  return norm;
}

/// Both ways of a sample. Buffers begin with another byte each, so that a place that is not written
/// differs.
struct Results {
  std::vector<std::byte> chain, program;
};

Results run_both(const PixelChain& chain, ProgramRunner& runner, const Image& image,
                 const DrawAddress& address) {
  std::vector<std::uint8_t> src(image.pixels);
  src.resize(chain.input_buffer_bytes(), 0x77);
  std::vector<std::byte> scratch(chain.scratch_bytes());
  Results results{std::vector<std::byte>(chain.output_bytes(), std::byte{0x11}),
                  std::vector<std::byte>(chain.output_bytes(), std::byte{0x22})};
  chain.run(src.data(), results.chain.data(), address, scratch.data());
  runner.run(image.pixels.data(), results.program.data(), address);
  return results;
}

void expect_equal(const TransformChain& chain, const ImageShape& shape, DType dtype, int samples) {
  const Shape input{shape.height, shape.width, shape.channels};
  const PixelChain prepared(chain, input, dtype);
  const pixel::Program program = program_of(chain, input, dtype);
  ProgramRunner runner(program);
  EXPECT_EQ(std::size_t(program.out_elements()) * size_of(dtype), prepared.output_bytes());
  for (int sample = 0; sample < samples; ++sample) {
    const Image image = random_image(shape, std::uint64_t(sample) + 1);
    const DrawAddress address = pixel::augment_address(std::uint64_t(sample) * 0x9E3779B97F4A7C15u,
                                                       sample & 1, sample / 3, 1000 * sample + 7);
    const Results results = run_both(prepared, runner, image, address);
    ASSERT_EQ(results.chain, results.program)
        << chain.str() << " on " << input.str() << ", sample " << sample;
  }
}

const ImageShape kShapes[] = {{28, 28, 1}, {28, 28, 3}, {7, 41, 1}, {33, 5, 3},
                              {1, 1, 1},   {2, 3, 2},   {65, 64, 3}};
constexpr DType kTypes[] = {DType::FP32, DType::FP16, DType::BF16};

TEST(ProgramTest, EveryStepAloneEqualsTheChain) {
  const Transform kSteps[] = {Pad(1),
                              Pad(3, 200),
                              Pad(2, 0, PadMode::EDGE),
                              Pad(0, 0, PadMode::REFLECT),
                              Pad(1, 9, PadMode::SYMMETRIC),
                              RandomCrop(1),
                              RandomCrop(6),
                              RandomCrop(40),
                              RandomCrop(ImageSize(6, 40)),
                              CenterCrop(ImageSize(30, 5)),
                              CenterCrop(5),
                              CenterCrop(30),
                              RandomHorizontalFlip(),
                              RandomVerticalFlip(0.3f),
                              RandomRotation(20.0f),
                              RandomRotation(360.0f, 255),
                              RandomRotation(0.0f),
                              RandomScale(0.8f, 1.2f),
                              RandomScale(0.01f, 16.0f),
                              RandomErasing(1.0f),
                              RandomErasing(0.0f),
                              RandomErasing(0.7f, {0.01f, 1.0f}, {0.1f, 10.0f})};
  for (const Transform& step : kSteps) {
    for (const ImageShape& shape : kShapes) {
      const TransformChain chain{.transforms = {step}, .normalization = norm_of(shape.channels)};
      for (const DType dtype : kTypes) expect_equal(chain, shape, dtype, 12);
    }
  }
}

TEST(ProgramTest, MirroringPadsTakeTheWholeSide) {
  for (const PadMode mode : {PadMode::REFLECT, PadMode::SYMMETRIC}) {
    const int padding = mode == PadMode::REFLECT ? 4 : 5;
    expect_equal({.transforms = {Pad(padding, 0, mode)}}, {5, 9, 3}, DType::FP32, 3);
  }
}

TEST(ProgramTest, TheArticlesChainEqualsOverManySamples) {
  for (const int channels : {1, 3}) {
    const TransformChain chain{.transforms = {Pad(2), RandomCrop(28), RandomRotation(20.0f, 0),
                                              RandomScale(0.8f, 1.2f), RandomErasing(0.5f)},
                               .normalization = norm_of(channels)};
    for (const DType dtype : kTypes) expect_equal(chain, {28, 28, channels}, dtype, 1000);
  }
}

// The same frozen bytes as PixelChainTest.GoldenBytesOfTheArticlesChain.
TEST(ProgramTest, GoldenBytesOfTheArticlesChain) {
  const TransformChain chain{.transforms = {Pad(2), RandomCrop(28), RandomRotation(20.0f, 0),
                                            RandomScale(0.8f, 1.2f), RandomErasing(0.5f)},
                             .normalization = NormMode::MNIST};
  ProgramRunner runner(program_of(chain, {28, 28, 1}, DType::FP32));
  Sha256 hash;
  for (std::uint64_t sample = 0; sample < 64; ++sample) {
    std::vector<float> out(784);
    runner.run(random_image({28, 28, 1}, sample).pixels.data(), out.data(),
               {7, DrawPurpose::AUGMENT, 2, sample});
    hash.update(std::as_bytes(std::span(out)));
  }
  EXPECT_EQ(hash.hex(), "2c15b541d0b0bd77d9e005ffb311abfe075711c3f166a6cbd0c5902fa272b893");
}

/// A step of a random chain, drawn by `word`.
Transform random_step(std::uint32_t word) {
  const int amount = int((word >> 8) % 5);
  switch (word % 10) {
    case 0: return Pad(amount, int(word >> 24));
    case 1: return Pad(amount, 0, PadMode::EDGE);
    case 2: return Pad(amount, 0, PadMode::SYMMETRIC);
    case 3: return RandomCrop(5 + 3 * amount);
    case 4: return RandomRotation(40.0f * float(amount), int(word >> 24));
    case 5: return RandomScale(0.5f, 1.0f + 0.2f * float(amount));
    case 6: return RandomHorizontalFlip();
    case 7: return RandomVerticalFlip();
    case 8: return CenterCrop(5 + 4 * amount);
    default: return Pad(amount, 0, PadMode::REFLECT);
  }
}

TEST(ProgramTest, RandomChainsEqual) {
  for (std::uint64_t i = 0; i < 150; ++i) {
    const Philox4 words = DrawAddress{3, DrawPurpose::TEST, i, 0}.block(0);
    const ImageShape shape{5 + int(words.v[0] % 30), 5 + int(words.v[1] % 30),
                           words.v[2] % 2 == 0 ? 1 : 3};
    TransformChain chain{.normalization = norm_of(shape.channels)};
    const std::uint32_t steps = words.v[3] % 7;
    for (std::uint32_t s = 0; s < steps; ++s) {
      chain.transforms.push_back(
          random_step(DrawAddress{3, DrawPurpose::TEST, i, 1}.block(s).v[0]));
    }
    if (words.v[3] & 64) chain.transforms.push_back(RandomErasing(0.9f));
    expect_equal(chain, shape, kTypes[i % 3], 8);
    if (HasFatalFailure()) return;
  }
}

TEST(ProgramTest, LongestChainFits) {
  TransformChain chain;
  for (std::size_t i = 0; i + 1 < kMaxSteps; ++i) chain.transforms.push_back(RandomRotation(5.0f));
  chain.transforms.push_back(RandomErasing(1.0f));
  expect_equal(chain, {9, 11, 1}, DType::FP32, 3);
}

TEST(ProgramTest, KnowsTheLargestImageOnTheWay) {
  const TransformChain chain{.transforms = {Pad(2), RandomCrop(28)}};
  const pixel::Program program = program_of(chain, {28, 28, 3}, DType::FP16);
  EXPECT_EQ(program.in_bytes(), 28 * 28 * 3);
  EXPECT_EQ(program.largest_bytes, 32 * 32 * 3);
  EXPECT_EQ(program.num_steps, 2);
  EXPECT_EQ(pixel::stage_at(program, 0).end, 2);  // both only move pixels: one pass
}

TEST(ProgramTest, RefusesWhatItCannotRun) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        program_of({.normalization = NormMode::MNIST}, {28, 28, 3}, DType::FP32);
      },
      "MNIST has 1 channels, the images have 3"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        program_of({}, {28, 28}, DType::FP32);
      },
      "expected [H, W, C]"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        program_of({}, {28, 28, 1}, DType::INT32);
      },
      "expected fp32, fp16 or bf16"));
  EXPECT_TRUE(throws<Unsupported>(
      [] {
        program_of({}, {8192, 8192, 64}, DType::FP32);
      },
      "8192x8192x64 on the way has 4294967296 bytes"));
  EXPECT_TRUE(throws<Unsupported>(
      [] {
        program_of({.transforms = {Resize(9)}}, {28, 28, 1}, DType::FP32);
      },
      "Resize(9, SHORT_SIDE, BILINEAR, antialias=true): this transform runs on the host only"));
  EXPECT_TRUE(throws<Unsupported>(
      [] {
        program_of({.transforms = {CutMix()}}, {28, 28, 1}, DType::FP32);
      },
      "CutMix(1): this transform runs on the host only"));
  EXPECT_TRUE(throws<Unsupported>(
      [] {
        program_of({.transforms = {CenterCrop(9)}}, {0, 0, 1}, DType::FP32);
      },
      "pictures of any size"));
}

}  // namespace
}  // namespace tr::data

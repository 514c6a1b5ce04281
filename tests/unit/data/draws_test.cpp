// SPDX-License-Identifier: Apache-2.0
// What the transforms draw: ranges, frequencies, and frozen numbers (docs/determinism.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "core/pixel/affine.h"
#include "core/pixel/augment.h"
#include "core/pixel/blur.h"
#include "core/pixel/color.h"
#include "core/pixel/flip.h"
#include "core/pixel/mix.h"
#include "core/pixel/noise.h"
#include "core/pixel/resized_crop.h"

namespace tr::pixel {
namespace {

StepDraws draws_of(std::uint64_t sample, std::uint32_t step = 2) {
  return {{11, DrawPurpose::AUGMENT, 3, sample}, step};
}

/// Six standard deviations of a count of `n` trials of probability p.
double six_sigma(double n, double p) { return 6 * std::sqrt(n * p * (1 - p)); }

CropRange range_of(float low, float high, bool log_scale) {
  return {log_scale ? det::log(low) : low,
          log_scale ? det::log(high) : high,
          log_scale,
          0.75f,
          4.0f / 3,
          det::log(0.75f),
          det::log(4.0f / 3)};
}

TEST(DrawTest, ChancesAreAsFrequentAsAsked) {
  for (const float p : {0.0f, 0.1f, 0.5f, 1.0f}) {
    int count = 0;
    for (std::uint64_t i = 0; i < 20000; ++i) count += draw_chance(draws_of(i), p);
    EXPECT_NEAR(count, 20000 * p, six_sigma(20000, p) + 1e-9) << p;
  }
}

TEST(DrawTest, RegionsHaveTheAskedAreaAndRatio) {
  constexpr int kHeight = 400, kWidth = 500, kSamples = 20000;
  double area_sum = 0, log_ratio_sum = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const CropRect rect =
        draw_resized_crop(draws_of(i), kHeight, kWidth, range_of(0.08f, 0.5f, false));
    ASSERT_GE(rect.top, 0);
    ASSERT_GE(rect.left, 0);
    ASSERT_LE(rect.top + rect.height, kHeight);
    ASSERT_LE(rect.left + rect.width, kWidth);
    const double area = double(rect.height) * rect.width / (kHeight * kWidth);
    const double ratio = double(rect.width) / rect.height;
    ASSERT_GT(area, 0.08 * 0.98);
    ASSERT_LT(area, 0.5 * 1.02);
    ASSERT_GT(ratio, 0.75 * 0.98);
    ASSERT_LT(ratio, 4.0 / 3 * 1.02);
    area_sum += area;
    log_ratio_sum += std::log(ratio);
  }
  // Every try fits at these areas: uniform, mean 0.29, deviation 0.1212; log ratio symmetric.
  EXPECT_NEAR(area_sum / kSamples, 0.29, 6 * 0.1212 / std::sqrt(kSamples));
  EXPECT_NEAR(log_ratio_sum / kSamples, 0, 6 * 0.17 / std::sqrt(kSamples));
}

TEST(DrawTest, FastRegionsAreLogUniform) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const CropRect rect = draw_resized_crop(draws_of(i), 400, 400, range_of(0.01f, 0.25f, true));
    sum += std::log(double(rect.height) * rect.width / 160000);
  }
  const double low = std::log(0.01), high = std::log(0.25);
  EXPECT_NEAR(sum / 20000, (low + high) / 2, 6 * (high - low) / std::sqrt(12 * 20000.0) + 0.01);
}

TEST(DrawTest, OrdersOfTheJitterAreEquallyFrequent) {
  std::map<std::array<int, 4>, int> counts;
  for (std::uint64_t i = 0; i < 24000; ++i) {
    const Jitter jitter = draw_jitter(draws_of(i), {0.4f, 0.4f, 2.0f, 0.1f});
    std::array<int, 4> order;
    for (int k = 0; k < 4; ++k) order[std::size_t(k)] = int(jitter.order[k]);
    ++counts[order];
    ASSERT_GE(jitter.factor[0], to_factor(0.6f) - 1);
    ASSERT_LE(jitter.factor[0], to_factor(1.4f) + 1);
    ASSERT_GE(jitter.factor[2], 0);
    ASSERT_LE(jitter.factor[2], 3 * kFactorOne);
    ASSERT_GE(jitter.factor[3], 0);
    const int turn =
        jitter.factor[3] > kHueTurn / 2 ? jitter.factor[3] - kHueTurn : jitter.factor[3];
    ASSERT_LE(std::abs(turn), int(0.1 * kHueTurn) + 1);
  }
  EXPECT_EQ(counts.size(), 24u);
  for (const auto& [order, count] : counts) EXPECT_NEAR(count, 1000, six_sigma(24000, 1 / 24.0));
}

TEST(DrawTest, AffineStaysInItsRanges) {
  const AffineRange range{20, 0.1f, 0.2f, 0.8f, 1.25f, -5, 10, 0, 0};
  double degrees = 0, scale = 0;
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const AffineParameters p = draw_affine(draws_of(i), 100, 200, range);
    ASSERT_LE(std::abs(p.degrees), 20);
    ASSERT_LE(std::abs(p.shift_x), 20);
    ASSERT_LE(std::abs(p.shift_y), 20);
    ASSERT_GE(p.shear_x, -5);
    ASSERT_LE(p.shear_x, 10);
    ASSERT_EQ(p.shear_y, 0);
    degrees += p.degrees;
    scale += p.scale;
  }
  EXPECT_NEAR(degrees / 20000, 0, 6 * 11.55 / std::sqrt(20000.0));
  EXPECT_NEAR(scale / 20000, 1.025, 6 * 0.13 / std::sqrt(20000.0));
}

TEST(DrawTest, NoiseIsNormal) {
  const NoiseLevels levels{0, 40 << kDeviationBits};
  std::int16_t sizes[kNoiseSizes];
  for (int i = 0; i < kNoiseSizes; ++i) {
    sizes[i] = noise_size(i);
    ASSERT_TRUE(i == 0 || sizes[i] >= sizes[i - 1]) << i;
  }
  constexpr int kBlocks = 20000;
  double sum = 0, squares = 0, beyond = 0;
  for (std::uint32_t k = 0; k < kBlocks; ++k) {
    for (const std::uint32_t word : noise_block(draws_of(4), k).v) {
      for (const std::uint32_t bits : {word & 0xffffu, word >> 16}) {
        const double noise = noise_of(bits, sizes[(bits >> 3) & 4095u], levels);
        sum += noise;
        squares += noise * noise;
        beyond += std::abs(noise) > 78.5;  // 1.96 deviations
      }
    }
  }
  const double n = 8.0 * kBlocks;
  EXPECT_NEAR(sum / n, 0, 6 * 40 / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), 40, 6 * 40 / std::sqrt(2 * n));
  EXPECT_NEAR(beyond / n, 0.0497, six_sigma(n, 0.05) / n);
}

TEST(DrawTest, AugmentationsAreEquallyFrequentAndOfBothSigns) {
  int counts[kNumAugmentOps] = {}, negative = 0, with_sign = 0;
  for (std::uint64_t i = 0; i < 14000; ++i) {
    const AugmentChoice choice = draw_augment(draws_of(i), 0, 100, 100, {});
    ++counts[int(choice.op)];
    with_sign += is_signed(choice.op);
    negative += choice.strength < 0;
  }
  for (const int count : counts) EXPECT_NEAR(count, 1000, six_sigma(14000, 1 / 14.0));
  EXPECT_NEAR(negative, with_sign / 2, six_sigma(with_sign, 0.5));
}

// Mean 1/2, variance 1 / (4 (2 alpha + 1)).
TEST(DrawTest, MixingIsBetaDistributed) {
  for (const float alpha : {0.1f, 0.2f, 1.0f, 2.5f, 40.0f}) {
    double sum = 0, squares = 0;
    for (std::int64_t i = 0; i < 20000; ++i) {
      const double x = draw_beta(batch_address(7, 1, i), alpha);
      ASSERT_GE(x, 0);
      ASSERT_LE(x, 1);
      sum += x;
      squares += (x - 0.5) * (x - 0.5);
    }
    const double variance = 1 / (4 * (2 * double(alpha) + 1));
    EXPECT_NEAR(sum / 20000, 0.5, 6 * std::sqrt(variance / 20000)) << alpha;
    EXPECT_NEAR(squares / 20000, variance, 0.05 * variance) << alpha;
  }
}

TEST(DrawTest, CutsKeepTheRestOfTheArea) {
  double kept = 0;
  for (std::int64_t i = 0; i < 5000; ++i) {
    const CutRect rect = draw_cut(batch_address(7, 1, i), 40, 60, 0.75f);
    ASSERT_GE(rect.left, 0);
    ASSERT_LE(rect.right, 60);
    ASSERT_LE(rect.bottom, 40);
    ASSERT_LE((rect.bottom - rect.top) * (rect.right - rect.left), 600);
    ASSERT_NEAR(rect.kept, 1 - (rect.bottom - rect.top) * (rect.right - rect.left) / 2400.0, 1e-6);
    kept += rect.kept;
  }
  EXPECT_GT(kept / 5000, 0.75);
  EXPECT_LT(kept / 5000, 0.9);
}

TEST(DrawTest, BlurWeightsSumToOneAndFollowTheGaussian) {
  for (const float sigma : {0.1f, 0.7f, 2.0f, 30.0f}) {
    const BlurWeights weights = blur_weights(sigma, 9);
    double total = 0;
    for (int k = -9; k <= 9; ++k) total += std::exp(-0.5 * k * k / (sigma * sigma));
    std::uint32_t sum = weights.weight[0];
    for (int k = 1; k <= 9; ++k) {
      sum += 2 * weights.weight[k];
      const double expected = 65536 * std::exp(-0.5 * k * k / (sigma * sigma)) / total;
      EXPECT_NEAR(weights.weight[k], expected, 0.51) << sigma << ' ' << k;
    }
    EXPECT_NEAR(weights.weight[0], 65536 / total, 9.5) << sigma;  // takes the rounding of all
    EXPECT_EQ(sum, 65536u);
  }
  constexpr int kMirrored[] = {0, 1, 2, 3, 4, 3, 2, 1};
  for (int i = -9; i < 14; ++i) EXPECT_EQ(mirrored_index(i, 5), kMirrored[(i + 16) % 8]) << i;
}

}  // namespace
}  // namespace tr::pixel

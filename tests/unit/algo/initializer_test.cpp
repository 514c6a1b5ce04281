// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/initializer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "algo/fill_param.h"
#include "renaissance/core/error.h"
#include "support/near.h"
#include "support/throws.h"

namespace tr::test {
namespace {

const ParamSpec kFc{.name = "weight", .type = {Shape{200, 500}}, .fan_in = 500, .fan_out = 200};
const ParamSpec kConv{
    .name = "weight", .type = {Shape{64, 3, 3, 32}}, .fan_in = 288, .fan_out = 576};

std::vector<float> values(const ParamSpec& spec, const Initializer& init,
                          const std::string& name = "0.weight", std::uint64_t seed = 7) {
  Tensor out(spec.type.shape, DType::FP32);
  fill_param(spec, name, init, seed, out);
  return {out.values<float>().begin(), out.values<float>().end()};
}

struct Moments {
  double mean = 0, std = 0, kurtosis = 0, largest = 0;
};

Moments moments_of(const std::vector<float>& x) {
  Moments m;
  for (const float v : x)
    m.mean += v / double(x.size()), m.largest = std::max(m.largest, double(std::abs(v)));
  double second = 0, fourth = 0;
  for (const float v : x) {
    const double d = v - m.mean;
    second += d * d / double(x.size()), fourth += d * d * d * d / double(x.size());
  }
  m.std = std::sqrt(second);
  m.kurtosis = fourth / (second * second);
  return m;
}

/// Mean 0 and the standard deviation to five standard errors; the kurtosis tells the distributions
/// apart (uniform 1.8, normal 3, normal cut at 2 standard deviations 2.36).
void expect_distribution(const std::vector<float>& x, double std, double kurtosis) {
  const Moments m = moments_of(x);
  const double n = double(x.size());
  EXPECT_NEAR(m.mean, 0, 5 * std / std::sqrt(n));
  EXPECT_NEAR(m.std / std, 1, 5 * std::sqrt((kurtosis - 1) / (4 * n)));
  EXPECT_NEAR(m.kurtosis, kurtosis, 5 * std::sqrt(96 / n));
}

TEST(InitializerTest, DefaultIsKaimingUniformWithoutSlope) {
  for (const ParamSpec* spec : {&kFc, &kConv}) {
    const std::vector<float> x = values(*spec, Initializer());
    const double bound = std::sqrt(2.0) * std::sqrt(3.0 / double(spec->fan_in));
    expect_distribution(x, bound / std::sqrt(3.0), 1.8);
    EXPECT_LE(moments_of(x).largest, bound * (1 + test::tolerance(DType::FP32).rtol));
    EXPECT_GT(moments_of(x).largest, bound * 0.999);
  }
}

TEST(InitializerTest, KindsHaveTheirDistributions) {
  const double fan_in = 500, fan_out = 200;
  expect_distribution(values(kFc, Initializer().fc(InitKind::KAIMING_NORMAL)),
                      std::sqrt(2 / fan_in), 3);
  expect_distribution(values(kFc, Initializer().fc(InitKind::XAVIER_NORMAL)),
                      std::sqrt(2 / (fan_in + fan_out)), 3);
  expect_distribution(values(kFc, Initializer().fc(InitKind::XAVIER_UNIFORM)),
                      std::sqrt(2 / (fan_in + fan_out)), 1.8);
  expect_distribution(values(kFc, Initializer().fc(InitKind::FIXED_NORMAL, 0.3f)), 0.3, 3);
  // A normal cut at two standard deviations has 0.87963 of its standard deviation.
  const std::vector<float> cut = values(kFc, Initializer().fc(InitKind::TRUNC_NORMAL));
  expect_distribution(cut, 0.87962566103423978 / std::sqrt(fan_in), 2.36);
  EXPECT_LE(moments_of(cut).largest,
            2 / std::sqrt(fan_in) * (1 + test::tolerance(DType::FP32).rtol));
}

TEST(InitializerTest, FanScaleAndSlopeChangeTheSize) {
  const auto std_of = [](const Initializer& init) { return moments_of(values(kFc, init)).std; };
  const double base = std_of(Initializer());
  const auto is_times = [&](const Initializer& init, double factor) {
    return test::is_near(std_of(init) / base, factor, test::tolerance(DType::FP32));
  };
  EXPECT_TRUE(is_times(Initializer().fan(FanMode::FAN_OUT), std::sqrt(500.0 / 200)));
  EXPECT_TRUE(is_times(Initializer().fan(FanMode::FAN_AVG), std::sqrt(500.0 / 350)));
  EXPECT_TRUE(is_times(Initializer().scale(0.5f), 0.5));
  EXPECT_TRUE(is_times(Initializer().nonlinearity(std::sqrt(5.0f)), std::sqrt(1.0 / 6)));
}

TEST(InitializerTest, ConstantsAreConstant) {
  EXPECT_EQ(moments_of(values(kFc, Initializer().fc(InitKind::ZEROS))).largest, 0);
  EXPECT_EQ(moments_of(values(kFc, Initializer().fc(InitKind::NONE))).largest, 0);
  const std::vector<float> x = values(kConv, Initializer().conv(InitKind::CONSTANTS, 0.25f));
  EXPECT_EQ(x, std::vector<float>(x.size(), 0.25f));
}

TEST(InitializerTest, FcAndConvHaveTheirOwnKinds) {
  const Initializer init = Initializer().conv(InitKind::CONSTANTS, 1).fc(InitKind::CONSTANTS, 2);
  EXPECT_EQ(values(kConv, init).front(), 1);
  EXPECT_EQ(values(kFc, init).front(), 2);
}

TEST(InitializerTest, OtherParametersTakeTheirFillValue) {
  ParamSpec norm{.name = "weight",
                 .type = {Shape{8}},
                 .kind = ParamKind::NORM_WEIGHT,
                 .fill = 1,
                 .branch_end = true};
  EXPECT_EQ(values(norm, Initializer()), std::vector<float>(8, 1));
  EXPECT_EQ(values(norm, Initializer().zero_gamma(true)), std::vector<float>(8, 0));
  EXPECT_EQ(values(norm, Initializer().bn(InitKind::ZERO_GAMMA)), std::vector<float>(8, 0));
  norm.branch_end = false;
  EXPECT_EQ(values(norm, Initializer().zero_gamma(true)), std::vector<float>(8, 1));
  const ParamSpec bias{.name = "bias", .type = {Shape{3}}, .kind = ParamKind::BIAS};
  EXPECT_EQ(values(bias, Initializer()), std::vector<float>(3, 0));
  const ParamSpec var{
      .name = "running_var", .type = {Shape{3}}, .kind = ParamKind::BUFFER, .fill = 1};
  EXPECT_EQ(values(var, Initializer()), std::vector<float>(3, 1));
}

TEST(InitializerTest, DrawsDependOnSeedAndNameAlone) {
  const std::vector<float> x = values(kFc, Initializer());
  EXPECT_EQ(values(kFc, Initializer()), x);
  EXPECT_NE(values(kFc, Initializer(), "0.weight", 8), x);
  EXPECT_NE(values(kFc, Initializer(), "1.weight"), x);
  // Element i does not depend on how many follow it.
  ParamSpec shorter = kFc;
  shorter.type.shape = Shape{1, 499};
  for (const InitKind kind : {InitKind::KAIMING_UNIFORM, InitKind::TRUNC_NORMAL}) {
    const Initializer init = Initializer().fc(kind);
    const std::vector<float> all = values(kFc, init), part = values(shorter, init);
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin()));
  }
}

/// Frozen: what a seed means must not change (docs/determinism.md). The numbers come from a second,
/// independent implementation of Philox, FNV-1a and Box-Muller.
TEST(InitializerTest, GoldenDraws) {
  const auto bits = [](InitKind kind) {
    std::vector<std::uint32_t> out;
    for (const float v : values(kFc, Initializer().fc(kind), "0.weight", 123)) {
      out.push_back(std::bit_cast<std::uint32_t>(v));
      if (out.size() == 5) break;
    }
    return out;
  };
  using Bits = std::vector<std::uint32_t>;
  EXPECT_EQ(bits(InitKind::KAIMING_UNIFORM),
            (Bits{0x3da9c39fu, 0xbce22a37u, 0x3d7662a2u, 0xbd80f215u, 0x3c772832u}));
  EXPECT_EQ(bits(InitKind::KAIMING_NORMAL),
            (Bits{0xbcb967d0u, 0xbd819d91u, 0xbc8271b8u, 0xbd8c3a82u, 0xbdafdcddu}));
  EXPECT_EQ(bits(InitKind::TRUNC_NORMAL),
            (Bits{0xbc8319fdu, 0xbd374dd4u, 0xbc3879dau, 0xbd465029u, 0xbd78b51fu}));
}

TEST(InitializerTest, NewerKindsHaveTheirDistributions) {
  const double fan_in = 500;
  expect_distribution(values(kFc, Initializer().fc(init::kLecunNormal)), std::sqrt(1 / fan_in), 3);
  expect_distribution(values(kFc, Initializer().fc(init::kLecunUniform)), std::sqrt(1 / fan_in),
                      1.8);
  expect_distribution(values(kFc, Initializer().fc(init::kFixedUniform, 0.3f)),
                      0.3 / std::sqrt(3.0), 1.8);
  const std::vector<float> cut = values(kFc, Initializer().fc(init::kFixedTruncNormal, 0.02f));
  expect_distribution(cut, 0.87962566103423978 * 0.02, 2.36);
  EXPECT_LE(moments_of(cut).largest, 0.04 * (1 + test::tolerance(DType::FP32).rtol));
}

/// Largest distance of the rows' (or columns') products from those of an orthonormal set.
double distance_from_orthonormal(const std::vector<float>& x, std::int64_t rows,
                                 std::int64_t columns) {
  const bool wide = rows < columns;
  const std::int64_t count = std::min(rows, columns), length = std::max(rows, columns);
  const auto at = [&](std::int64_t v, std::int64_t i) {
    return double(x[std::size_t(wide ? v * columns + i : i * columns + v)]);
  };
  double worst = 0;
  for (std::int64_t a = 0; a < count; ++a) {
    for (std::int64_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::int64_t i = 0; i < length; ++i) sum += at(a, i) * at(b, i);
      worst = std::max(worst, std::abs(sum - (a == b ? 1 : 0)));
    }
  }
  return worst;
}

TEST(InitializerTest, OrthogonalIsTheQOfItsNormalMatrix) {
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 1},   {1, 7},   {5, 1},
                                                         {40, 40}, {30, 70}, {70, 30}};
  for (const auto& [rows, columns] : sizes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    ParamSpec spec = kFc;
    spec.type.shape = Shape{rows, columns};
    const std::vector<float> q = values(spec, Initializer().fc(init::kOrthogonal));
    EXPECT_LT(distance_from_orthonormal(q, rows, columns), 1e-6);
    // R = Q^T A is upper triangular with a positive diagonal: that makes Q unique.
    const std::vector<float> a = values(spec, Initializer().fc(InitKind::FIXED_NORMAL, 1));
    const bool wide = rows < columns;
    const std::int64_t count = std::min(rows, columns), length = std::max(rows, columns);
    const auto at = [&](const std::vector<float>& x, std::int64_t v, std::int64_t i) {
      return double(x[std::size_t(wide ? v * columns + i : i * columns + v)]);
    };
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        double r = 0;
        for (std::int64_t k = 0; k < length; ++k) r += at(q, i, k) * at(a, j, k);
        if (i == j) {
          EXPECT_GT(r, 0);
        } else {
          EXPECT_NEAR(r, 0, 1e-5) << i << ", " << j;
        }
      }
    }
  }
  std::vector<float> scaled = values(kFc, Initializer().fc(init::kOrthogonal).scale(2));
  for (float& v : scaled) v /= 2;
  EXPECT_LT(distance_from_orthonormal(scaled, 200, 500), 1e-6);
}

TEST(InitializerTest, SparseHasSoManyZerosInEachColumn) {
  const std::vector<float> x = values(kFc, Initializer().fc(init::kSparse, 0.333f));
  std::vector<float> others;
  std::vector<int> zeros_of_row(200, 0);
  for (std::size_t column = 0; column < 500; ++column) {
    int zeros = 0;
    for (std::size_t row = 0; row < 200; ++row) {
      const float v = x[row * 500 + column];
      zeros += v == 0;
      zeros_of_row[row] += v == 0;
      if (v != 0) others.push_back(v);
    }
    EXPECT_EQ(zeros, 67);  // ceil(0.333 * 200)
  }
  expect_distribution(others, 0.01, 3);
  // No row is favoured: 500 draws of 0.335 each, five standard deviations.
  for (const int zeros : zeros_of_row) EXPECT_NEAR(zeros, 500 * 0.335, 5 * std::sqrt(500 * 0.223));
}

TEST(InitializerTest, TheLastRuleThatMatchesHolds) {
  const Initializer init = Initializer()
                               .layer("", InitKind::CONSTANTS, 1)
                               .layer("head.", InitKind::CONSTANTS, 2)
                               .layer("head.bias", InitKind::CONSTANTS, -4);
  EXPECT_EQ(values(kFc, init, "0.weight").front(), 1);
  EXPECT_EQ(values(kFc, init, "head.weight").front(), 2);
  const ParamSpec bias{.name = "bias", .type = {Shape{3}}, .kind = ParamKind::BIAS};
  EXPECT_EQ(values(bias, init, "head.bias"), std::vector<float>(3, -4));
  EXPECT_EQ(values(bias, init, "0.bias"), std::vector<float>(3, 1));
  const ParamSpec mean{.name = "running_mean", .type = {Shape{3}}, .kind = ParamKind::BUFFER};
  EXPECT_EQ(values(mean, init, "1.running_mean"), std::vector<float>(3, 0)) << "no parameter";
  EXPECT_EQ(rule_of(Initializer(), "0.weight"), nullptr);
}

TEST(InitializerTest, KindsAreNamed) {
  for (int kind = 0; kind <= int(init::kSparse); ++kind) {
    EXPECT_EQ(init_kind_from_name(name_of(InitKind(kind))), InitKind(kind));
  }
  EXPECT_EQ(init_kind_from_name("orthogonal"), init::kOrthogonal);
  EXPECT_EQ(init_kind_from_name("lecun_normal"), init::kLecunNormal);
  EXPECT_EQ(fan_mode_from_name("fan_out"), FanMode::FAN_OUT);
  EXPECT_TRUE(throws<InvalidArgument>([] { init_kind_from_name("orthogonl"); }, "orthogonal"));
}

TEST(InitializerTest, RefusesInWords) {
  EXPECT_TRUE(throws<InvalidArgument>([] { Initializer().fc(init::kSparse, 2); },
                                      "Initializer::fc: param is 2, expected 0 to 1"));
  const ParamSpec bias{.name = "bias", .type = {Shape{3}}, .kind = ParamKind::BIAS};
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { values(bias, Initializer().layer("0.", InitKind::XAVIER_NORMAL), "0.bias"); },
      "0.bias: it has no fans, which xavier_normal needs"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { values(bias, Initializer().layer("0.", init::kOrthogonal), "0.bias"); },
      "0.bias: it has shape [3], expected two axes or more for orthogonal"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Initializer().from_file(""); }, "path is empty"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { Initializer().fc(InitKind::ZERO_GAMMA); },
                              "Initializer::fc: the kind is ZERO_GAMMA, which is one of bn()"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Initializer().conv(InitKind::STANDARD); }, "STANDARD"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Initializer().bn(InitKind::ZEROS); },
                                      "expected STANDARD or ZERO_GAMMA"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { Initializer().scale(0); }, "Initializer::scale: it is 0"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { Initializer().nonlinearity(NAN); }, "nonlinearity: a is nan"));
  Tensor wrong(Shape{3}, DType::FP32);
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { fill_param(kFc, "0.weight", {}, 0, wrong); },
                              "0.weight: the tensor is fp32 [3], expected fp32 [200, 500]"));
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#include "renaissance/tensor/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/half.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr DType kAllDTypes[] = {DType::FP32, DType::FP16,  DType::BF16,  DType::UINT8,
                                DType::INT8, DType::INT32, DType::INT64, DType::BOOL};

Tensor floats(const std::vector<float>& values) {
  return Tensor::from({std::int64_t(values.size())}, std::span<const float>(values));
}

std::vector<double> numbers(const Tensor& t) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < t.num_elements(); ++i) all.push_back(t.at(i));
  return all;
}

TEST(TensorTest, ADefaultTensorIsEmpty) {
  const Tensor t;
  EXPECT_TRUE(t.empty());
  EXPECT_EQ(t.shape(), Shape({0}));
  EXPECT_EQ(t.num_bytes(), 0u);
  EXPECT_TRUE(t.clone().empty());
  EXPECT_EQ(t.summary(), "fp32 [0] {}");
}

TEST(TensorTest, OneThatWasMovedFromIsEmpty) {
  Tensor from = Tensor::full({2, 3}, 7, DType::INT32);
  Tensor to = std::move(from);
  EXPECT_EQ(numbers(to), std::vector<double>(6, 7));
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(from.summary(), "fp32 [0] {}");
  EXPECT_TRUE(throws<InvalidArgument>([&] { from.at(0); }, "out of range"));
  from = std::move(to);
  EXPECT_EQ(from.shape(), Shape({2, 3}));
  EXPECT_EQ(to.num_elements(), 0);
  Tensor& self = from;
  from = std::move(self);
  EXPECT_EQ(from.at(5), 7);
}

TEST(TensorTest, BytesAreAligned) {
  for (int n = 0; n < 20; ++n) {
    const Tensor t({n}, DType::UINT8);
    EXPECT_FALSE(t.empty());
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.raw()) % 64, 0u);
  }
}

TEST(TensorTest, FillsEveryDType) {
  for (const DType d : kAllDTypes) {
    EXPECT_EQ(numbers(Tensor::full({3}, 1, d)), (std::vector<double>{1, 1, 1})) << name_of(d);
    EXPECT_EQ(numbers(Tensor::zeros({2}, d)), (std::vector<double>{0, 0})) << name_of(d);
  }
  EXPECT_EQ(Tensor::full({1}, 2.75, DType::INT32).item(), 2);
  EXPECT_EQ(Tensor::full({1}, 1e9, DType::UINT8).item(), 255);
  EXPECT_EQ(Tensor::full({1}, 65520, DType::FP16).item(), kInfinity);
}

TEST(TensorTest, CopiesShareBytesAndClonesDoNot) {
  Tensor a = Tensor::zeros({2, 2});
  Tensor b = a;
  const Tensor c = a.clone();
  b.data<float>()[3] = 5;
  EXPECT_EQ(a.at(3), 5);
  EXPECT_EQ(c.at(3), 0);
  EXPECT_EQ(a.reshape({4}).at(3), 5);
  EXPECT_EQ(a.reshape({4, 1}).shape(), Shape({4, 1}));
}

TEST(TensorTest, RefusesWrongUse) {
  const Tensor t = Tensor::zeros({2, 3});
  EXPECT_TRUE(throws<InvalidArgument>([&] { t.at(6); }, "element 6 is out of range, it has 6"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { t.at(-1); }, "element -1"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { t.item(); }, "has 6 elements, expected one"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { t.reshape({4}); }, "has 6 elements, shape [4] has 4"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { t.data<std::uint8_t>(); }, "elements of 1 bytes"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Tensor::from({3}, std::span<const float>(std::vector<float>{1, 2}));
      },
      "2 values were given, shape [3] has 3"));
}

TEST(TensorTest, AnAbsurdSizeIsOutOfMemory) {
  EXPECT_TRUE(throws<OutOfMemory>([] { Tensor({std::int64_t{1} << 47}, DType::INT64); },
                                  "int64 [140737488355328]: it has more than the 128 TiB"));
  EXPECT_TRUE(throws<OutOfMemory>([] { Tensor({(std::int64_t{1} << 45) + 1}, DType::FP32); },
                                  "128 TiB that can be addressed"));
}

TEST(TensorConversionTest, FloatToIntegerTruncatesAndSaturates) {
  const Tensor x = floats({1.9f, -1.9f, 127.99f, 128, -128.5f, -129, 300, 3e9f, -3e9f, 1e19f,
                           -1e19f, NAN, kInfinity, -kInfinity, -0.9f});
  EXPECT_EQ(numbers(x.to(DType::INT8)), (std::vector<double>{1, -1, 127, 127, -128, -128, 127, 127,
                                                             -128, 127, -128, 0, 127, -128, 0}));
  EXPECT_EQ(numbers(x.to(DType::UINT8)),
            (std::vector<double>{1, 0, 127, 128, 0, 0, 255, 255, 0, 255, 0, 0, 255, 0, 0}));
  const Tensor i32 = x.to(DType::INT32);
  EXPECT_EQ(i32.data<std::int32_t>()[7], INT32_MAX);
  EXPECT_EQ(i32.data<std::int32_t>()[8], INT32_MIN);
  const Tensor i64 = x.to(DType::INT64);
  EXPECT_EQ(i64.data<std::int64_t>()[7], 3000000000);
  EXPECT_EQ(i64.data<std::int64_t>()[9], INT64_MAX);
  EXPECT_EQ(i64.data<std::int64_t>()[10], INT64_MIN);
  EXPECT_EQ(numbers(x.to(DType::BOOL)), std::vector<double>(15, 1));
  EXPECT_EQ(numbers(floats({0, -0.0f, 1e-45f}).to(DType::BOOL)), (std::vector<double>{0, 0, 1}));
}

TEST(TensorConversionTest, FloatBoundsOfIntegersAreExact) {
  const float below_2_31 = std::nextafterf(0x1p31f, 0), below_2_63 = std::nextafterf(0x1p63f, 0);
  const Tensor x = floats({below_2_31, 0x1p31f, -0x1p31f, below_2_63, 0x1p63f, -0x1p63f});
  const Tensor i32 = x.to(DType::INT32), i64 = x.to(DType::INT64);
  EXPECT_EQ(i32.data<std::int32_t>()[0], 2147483520);
  EXPECT_EQ(i32.data<std::int32_t>()[1], INT32_MAX);
  EXPECT_EQ(i32.data<std::int32_t>()[2], INT32_MIN);
  EXPECT_EQ(i64.data<std::int64_t>()[3], std::int64_t(below_2_63));
  EXPECT_EQ(i64.data<std::int64_t>()[4], INT64_MAX);
  EXPECT_EQ(i64.data<std::int64_t>()[5], INT64_MIN);
}

TEST(TensorConversionTest, IntegersSaturateAndFloatsRound) {
  const std::vector<std::int64_t> values{
      -300,     -1,      0, 200, 1 << 20, INT64_MAX, INT64_MIN, (std::int64_t{1} << 53) + 1,
      16777217, 16777219};
  const Tensor x =
      Tensor::from({std::int64_t(values.size())}, std::span<const std::int64_t>(values));
  EXPECT_EQ(numbers(x.to(DType::INT8)),
            (std::vector<double>{-128, -1, 0, 127, 127, 127, -128, 127, 127, 127}));
  EXPECT_EQ(numbers(x.to(DType::UINT8)),
            (std::vector<double>{0, 0, 0, 200, 255, 255, 0, 255, 255, 255}));
  EXPECT_EQ(x.to(DType::INT32).at(5), INT32_MAX);
  const Tensor f = x.to(DType::FP32);
  EXPECT_EQ(f.at(7), 0x1p53);
  EXPECT_EQ(f.at(8), 16777216);  // ties to even
  EXPECT_EQ(f.at(9), 16777220);
  EXPECT_EQ(x.to(DType::BF16).at(3), 200);
  EXPECT_EQ(x.to(DType::FP16).at(4), kInfinity);
}

TEST(TensorConversionTest, SixteenBitFloatsRoundToNearestEven) {
  const Tensor x = floats({1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 65519.99f, 65520, 0x1p-25f, NAN});
  const Tensor h = x.to(DType::FP16);
  EXPECT_EQ(h.at(0), 1.0);
  EXPECT_EQ(h.at(1), 1.0 + 0x1p-9);
  EXPECT_EQ(h.at(2), 65504);
  EXPECT_EQ(h.at(3), kInfinity);
  EXPECT_EQ(h.at(4), 0);
  EXPECT_TRUE(std::isnan(h.at(5)));
  const Tensor b = floats({1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f}).to(DType::BF16);
  EXPECT_EQ(b.at(0), 1.0);
  EXPECT_EQ(b.at(1), 1.0 + 0x1p-6);
  EXPECT_EQ(b.to(DType::FP16).at(1), 1.0 + 0x1p-6);
}

TEST(TensorConversionTest, EveryPairKeepsSmallNumbers) {
  for (const DType from : kAllDTypes) {
    for (const DType to : kAllDTypes) {
      const Tensor t = floats({0, 1}).to(from).to(to);
      EXPECT_EQ(t.dtype(), to);
      EXPECT_EQ(numbers(t), (std::vector<double>{0, 1})) << name_of(from) << " to " << name_of(to);
    }
  }
}

TEST(TensorTest, PermuteMovesAxes) {
  const Shape shape{2, 3, 4, 5};
  const Tensor x = Tensor::uniform(shape, 0, 1, 1);
  const std::vector<int> order{2, 0, 3, 1};
  const Tensor y = x.permute(order);
  ASSERT_EQ(y.shape(), Shape({4, 2, 5, 3}));
  std::int64_t at = 0;
  for (int a = 0; a < 4; ++a) {
    for (int b = 0; b < 2; ++b) {
      for (int c = 0; c < 5; ++c) {
        for (int d = 0; d < 3; ++d) ASSERT_EQ(y.at(at++), x.at(((b * 3 + d) * 4 + a) * 5 + c));
      }
    }
  }
  const Tensor bytes = x.to(DType::UINT8).permute(order);
  EXPECT_EQ(bytes.shape(), y.shape());
  EXPECT_EQ(Tensor::zeros({0, 4}).permute(std::vector<int>{1, 0}).shape(), Shape({4, 0}));
  EXPECT_EQ(Tensor::full({}, 3).permute({}).item(), 3);
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        x.permute(std::vector<int>{0, 1, 1, 2});
      },
      "[0, 1, 1, 2] is no permutation"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { x.permute(std::vector<int>{0, 1}); }, "2 axes"));
}

TEST(TensorTest, IsCloseComparesElementByElement) {
  const Tensor a = floats({1, 100, NAN, kInfinity});
  EXPECT_TRUE(is_close(a, a.clone(), 0, 0));
  EXPECT_TRUE(is_close(a, floats({1.001f, 100.1f, NAN, kInfinity}), 2e-3, 0));
  EXPECT_FALSE(is_close(a, floats({1.001f, 100.3f, NAN, kInfinity}), 2e-3, 0));
  EXPECT_TRUE(is_close(floats({0}), floats({1e-6f}), 0, 1e-5));
  EXPECT_FALSE(is_close(a, floats({1, 100, 0, kInfinity}), 1, 1e30));
  EXPECT_FALSE(is_close(a, floats({1, 100, NAN, -kInfinity}), 1, kInfinity));
  EXPECT_FALSE(is_close(a, floats({1, 100, NAN, 3e38f}), 1, 1e30));
  EXPECT_FALSE(is_close(a, a.reshape({2, 2}), 1, 1));
  EXPECT_FALSE(is_close(a, a.to(DType::BF16), 1, 1));
}

TEST(TensorTest, SummaryShowsTheBeginning) {
  EXPECT_EQ(floats({1, 2.5f}).summary(), "fp32 [2] {1, 2.5}");
  EXPECT_EQ(Tensor::zeros({3, 5}, DType::UINT8).summary(),
            "uint8 [3, 5] {0, 0, 0, 0, 0, 0, 0, 0, ...}");
}

// Golden: the same on every machine.
TEST(RandomTensorTest, UniformIsAddressed) {
  const Tensor t = Tensor::uniform({5}, 0, 1, 0);
  // Upper 24 bits of the golden draws of DrawAddress{} in core's philox_test.
  EXPECT_EQ(t.at(0), double(0xc1df66) * 0x1p-24);
  EXPECT_EQ(t.at(1), double(0x41304b) * 0x1p-24);
  EXPECT_EQ(t.at(2), double(0x30e846) * 0x1p-24);
  EXPECT_EQ(t.at(3), double(0x6e2ad9) * 0x1p-24);
  // An element does not depend on the size.
  EXPECT_EQ(Tensor::uniform({1000}, 0, 1, 0).at(4), t.at(4));
  EXPECT_NE(Tensor::uniform({5}, 0, 1, 1).at(0), t.at(0));
}

TEST(RandomTensorTest, UniformStaysInItsRange) {
  const Tensor t = Tensor::uniform({100000}, -3, 5, 7);
  double sum = 0;
  for (const float x : t.values<float>()) {
    ASSERT_GE(x, -3.0f);
    ASSERT_LT(x, 5.0f);
    sum += x;
  }
  EXPECT_NEAR(sum / 1e5, 1.0, 0.03);  // 4 standard deviations of the mean
  // A range of one spacing: rounding must not reach its upper end.
  const float high = std::nextafterf(1.0f, 2.0f);
  const Tensor narrow = Tensor::uniform({1000}, 1.0f, high, 7);
  for (const float x : narrow.values<float>()) ASSERT_EQ(x, 1.0f);
  EXPECT_EQ(Tensor::uniform({3}, 2, 2, 1).at(0), 2);
  EXPECT_TRUE(throws<InvalidArgument>([] { Tensor::uniform({1}, 1, 0, 0); }, "[1, 0)"));
}

TEST(RandomTensorTest, NormalHasItsMoments) {
  const Tensor t = Tensor::normal({100000}, 2, 3, 5);
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  for (const float x : t.values<float>()) {
    const double z = (double(x) - 2) / 3;
    m1 += z, m2 += z * z, m3 += z * z * z, m4 += z * z * z * z;
  }
  // Four standard deviations of each sample moment.
  EXPECT_NEAR(m1 / 1e5, 0, 4 * std::sqrt(1 / 1e5));
  EXPECT_NEAR(m2 / 1e5, 1, 4 * std::sqrt(2 / 1e5));
  EXPECT_NEAR(m3 / 1e5, 0, 4 * std::sqrt(15 / 1e5));
  EXPECT_NEAR(m4 / 1e5, 3, 4 * std::sqrt(96 / 1e5));
  EXPECT_EQ(Tensor::normal({7}, 2, 3, 5).at(6), t.at(6));
  EXPECT_EQ(Tensor::normal({2}, 2, 0, 5).at(1), 2);
}

// Neighbours come from one pair of the transform; they must not be correlated.
TEST(RandomTensorTest, NormalNeighboursAreIndependent) {
  const Tensor t = Tensor::normal({100001}, 0, 1, 9);
  const float* x = t.data<float>();
  for (const int lag : {1, 2, 3}) {
    double sum = 0;
    for (int i = 0; i + lag < 100001; ++i) sum += double(x[i]) * double(x[i + lag]);
    EXPECT_NEAR(sum / 1e5, 0, 4 * std::sqrt(1 / 1e5)) << lag;
  }
}

}  // namespace
}  // namespace tr

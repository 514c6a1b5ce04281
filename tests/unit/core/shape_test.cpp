// SPDX-License-Identifier: Apache-2.0
#include "renaissance/core/shape.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

TEST(ShapeTest, KnowsItsDimensions) {
  const Shape s{200, 28, 28, 1};
  EXPECT_EQ(s.rank(), 4);
  EXPECT_EQ(s[0], 200);
  EXPECT_EQ(s.dim(-2), 28);
  EXPECT_EQ(s.back(), 1);
  EXPECT_EQ(s.num_elements(), 156800);
  EXPECT_EQ(s.str(), "[200, 28, 28, 1]");
  EXPECT_EQ(Shape{}.num_elements(), 1);
  EXPECT_EQ(Shape{}.str(), "[]");
}

TEST(ShapeTest, ChangesMakeNewShapes) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.with_dim(-1, 9), (Shape{2, 3, 9}));
  EXPECT_EQ(s.drop_first(), (Shape{3, 4}));
  EXPECT_EQ(s.drop_last(), (Shape{2, 3}));
  EXPECT_EQ(s.prepend(7), (Shape{7, 2, 3, 4}));
  EXPECT_EQ(s, (Shape{2, 3, 4}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({2, 3, 1}));
}

TEST(ShapeTest, EqualityIgnoresDroppedDimensions) {
  EXPECT_EQ(Shape({2, 3}).drop_last(), Shape({2}));
}

TEST(ShapeTest, AnEmptyAxisMakesNoElements) {
  EXPECT_EQ((Shape{std::int64_t{1} << 40, 0, std::int64_t{1} << 40}).num_elements(), 0);
}

TEST(ShapeTest, RejectsBadDimensions) {
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({2, -3});
      },
      "[2, -3] has the negative dimension -3"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({1, 1, 1, 1, 1, 1, 1, 1, 1});
      },
      "rank 9, at most 8"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({std::int64_t{1} << 23, (std::int64_t{1} << 24) + 1});
      },
      "[8388608, 16777217] has more than 2^47 elements"));
  EXPECT_NO_THROW(Shape({std::int64_t{1} << 23, std::int64_t{1} << 24}));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({0, (std::int64_t{1} << 47) + 1});
      },
      "more than 2^47"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({std::int64_t{1} << 40, 2}).prepend(std::int64_t{1} << 40);
      },
      "2^47"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({2, 3}).with_dim(0, std::numeric_limits<std::int64_t>::max());
      },
      "2^47"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        Shape({2, 3}).dim(2);
      },
      "axis 2 is out of range for rank 2"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Shape({2, 3}).dim(-3); }, "axis -3"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Shape{}.drop_last(); }, "scalar"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { Shape({2}).prepend(-1); }, "negative"));
}

TEST(TensorTypeTest, HasBytesAndText) {
  const TensorType type{{256, 112, 112, 64}, DType::FP16};
  EXPECT_EQ(bytes_of(type), 411041792);
  EXPECT_EQ(to_string(type), "fp16 [256, 112, 112, 64]");
}

TEST(DTypeTest, NamesAreUniqueAndInvertible) {
  for (const DType d : {DType::FP32, DType::FP16, DType::BF16, DType::UINT8, DType::INT8,
                        DType::INT32, DType::INT64, DType::BOOL}) {
    EXPECT_EQ(dtype_from_name(name_of(d)), d);
    EXPECT_GE(size_of(d), 1u);
  }
  EXPECT_EQ(name_of(DType::BF16), "bf16");
  EXPECT_TRUE(is_floating(DType::BF16));
  EXPECT_FALSE(is_floating(DType::BOOL));
}

TEST(DTypeTest, AnUnknownNameSuggestsTheNearest) {
  EXPECT_TRUE(throws<InvalidArgument>([&] { dtype_from_name("fp23"); }, "did you mean \"fp32\"?"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { dtype_from_name(""); }, "unknown name \"\""));
}

}  // namespace
}  // namespace tr

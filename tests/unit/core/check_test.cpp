// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"

#include <gtest/gtest.h>

#include "core/format.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

TEST(CheckTest, ThrowsTheCallersFaultWithItsValue) {
  EXPECT_TRUE(
      throws<InvalidArgument>([&] { TR_CHECK(1 == 2, "fc: K is {}, expected {}", 3, Shape({4})); },
                              "fc: K is 3, expected [4]"));
  EXPECT_NO_THROW(TR_CHECK(true, "never"));
}

TEST(CheckTest, AssertionNamesExpressionAndPlace) {
  EXPECT_TRUE(throws<InternalError>([&] { TR_ASSERT(2 + 2 == 5); }, "check_test.cpp:"));
  EXPECT_TRUE(throws<InternalError>([&] { TR_ASSERT(2 + 2 == 5); }, "\"2 + 2 == 5\""));
}

TEST(CheckTest, EveryLeafIsAnError) {
  EXPECT_THROW(throw_as<Unsupported>("{}", 1), Error);
  EXPECT_THROW(throw_as<OutOfMemory>("{}", 1), Error);
  EXPECT_THROW(throw_as<DataError>("{}", 1), Error);
  EXPECT_THROW(throw_as<DeviceError>("{}", 1), Error);
}

TEST(WhereTest, KeepsTheFileNameOnly) {
  const Where here = std::source_location::current();
  EXPECT_EQ(here.file, "check_test.cpp");
  EXPECT_EQ(here.str(), "check_test.cpp:" + std::to_string(here.line));
  EXPECT_TRUE(Where{}.empty());
  EXPECT_EQ(Where{}.str(), "");
}

}  // namespace
}  // namespace tr

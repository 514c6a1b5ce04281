// SPDX-License-Identifier: Apache-2.0
#include "zoo/parse_transforms.h"

#include <gtest/gtest.h>

#include <set>
#include <variant>

#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::zoo {
namespace {

using test::throws;

// A transform that recipes and `renaissance preview` cannot name fails here.
TEST(ParseTransforms, KnowsEveryTransform) {
  const std::vector<Transform> all = parse_transforms(
      "Pad(2), RandomCrop(28), CenterCrop, Resize, RandomResizedCrop, FastRandomResizedCrop, "
      "RandomHorizontalFlip, RandomVerticalFlip, ColorJitter, RandomGrayscale, RandomAutocontrast, "
      "RandomRotation, RandomScale(0.8, 1.2), RandomAffine(10), GaussianBlur, GaussianNoise, "
      "RandAugment, TrivialAugment, RandomErasing, Mixup, CutMix");
  std::set<std::size_t> kinds;
  for (const Transform& transform : all) kinds.insert(transform.index());
  EXPECT_EQ(kinds.size(), std::variant_size_v<Transform>);
}

TEST(ParseTransforms, NumbersAreThoseOfTheConstructors) {
  EXPECT_EQ(to_string(parse_transforms("RandomErasing(0.25, 0.02, 0.4, 0.3, 3)").front()),
            to_string(RandomErasing(0.25f, {0.02f, 0.4f}, {0.3f, 3})));
  EXPECT_EQ(to_string(parse_transforms(" Resize( 40 ) ").front()), to_string(Resize(40)));
  EXPECT_TRUE(parse_transforms("  ").empty());
}

TEST(ParseTransforms, FaultsAreToldInWords) {
  const auto fails = [](const char* text, const char* words) {
    return throws<InvalidArgument>([&] { parse_transforms(text); }, words);
  };
  EXPECT_TRUE(fails("Resize(22.7)", "Resize: number 1 is 22.7, expected a whole number"));
  EXPECT_TRUE(fails("RandAugment(2, 9.5)", "RandAugment: number 2 is 9.5"));
  EXPECT_TRUE(fails("RandomCrp(3)", "did you mean \"RandomCrop\""));
  EXPECT_TRUE(fails("RandomCrop", "0 numbers are given, expected at least 1"));
  EXPECT_TRUE(fails("RandomCrop(1, 2)", "2 numbers are given, expected at most 1"));
  EXPECT_TRUE(fails("Resize(nan)", "\"nan\" is no number"));
  EXPECT_TRUE(fails("Resize(1e9)", "\"1e9\" is no number within 1e6"));
  EXPECT_TRUE(fails("Resize(3", "parentheses without their partners"));
  EXPECT_TRUE(fails("Resize)3(", "unknown name \"Resize)3\""));
  EXPECT_TRUE(fails("Resize(3),,", "unknown name \"\""));
}

}  // namespace
}  // namespace tr::zoo

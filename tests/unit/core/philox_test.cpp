// SPDX-License-Identifier: Apache-2.0
#include "core/philox.h"

#include <gtest/gtest.h>

#include "core/fnv.h"

namespace tr {
namespace {

using Words = std::array<std::uint32_t, 4>;

// Random123, tests/kat_vectors, "philox4x32 10".
TEST(PhiloxTest, AgreesWithRandom123) {
  const std::uint32_t f = 0xffffffffu;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}).v,
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({f, f, f, f}, {f, f}).v,
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}).v,
      (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Golden draws of every purpose. They never change: old runs and checkpoints rest on them.
TEST(PhiloxTest, DrawAddressesAreFrozen) {
  const std::array<std::pair<DrawPurpose, Words>, 8> golden{{
      {DrawPurpose::INIT, {0xe37d4e7b, 0xe624375f, 0x07acd26c, 0xdfe23050}},
      {DrawPurpose::SHUFFLE, {0x968188ac, 0xaa86f022, 0x419865f7, 0x83df8874}},
      {DrawPurpose::AUGMENT, {0xb9709ffc, 0x1c9a580c, 0x03d52fe2, 0x90ba8a44}},
      {DrawPurpose::DROPOUT, {0x843f1ef0, 0x2dff11eb, 0x0a170e5e, 0x02f6c7ea}},
      {DrawPurpose::PROCEDURAL, {0x1550b879, 0x788808ef, 0xf7b79291, 0x9325f2e1}},
      {DrawPurpose::TEST, {0x5d1481aa, 0x33f09a13, 0x2dcc46b3, 0x49e51109}},
      {DrawPurpose::SPLIT, {0xc9d5062c, 0x8cfa4153, 0x4825fc88, 0x62636002}},
      {DrawPurpose::REPLACE, {0xf6e16a79, 0xed3622c6, 0x646310bf, 0x29a9e80a}},
  }};
  for (const auto& [purpose, words] : golden) {
    const DrawAddress address{0x0123456789abcdefu, purpose, 0xfedcba9876543210u,
                              0x1122334455667788u};
    EXPECT_EQ(address.block(7).v, words) << "purpose " << int(purpose);
  }
  EXPECT_EQ((DrawAddress{}.block(0).v), (Words{0xc1df6628, 0x41304b08, 0x30e846ad, 0x6e2ad92e}));
}

TEST(PhiloxTest, EveryPartOfAnAddressMatters) {
  const DrawAddress base{5, DrawPurpose::TEST, 3, 9};
  const Words words = base.block(2).v;
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t flip = std::uint64_t{1} << bit;
    EXPECT_NE((DrawAddress{5 ^ flip, DrawPurpose::TEST, 3, 9}.block(2).v), words) << bit;
    EXPECT_NE((DrawAddress{5, DrawPurpose::TEST, 3 ^ flip, 9}.block(2).v), words) << bit;
    EXPECT_NE((DrawAddress{5, DrawPurpose::TEST, 3, 9 ^ flip}.block(2).v), words) << bit;
  }
  EXPECT_NE(base.block(3).v, words);
}

TEST(PhiloxTest, UniformIsExactAndBelowOne) {
  EXPECT_EQ(uniform01(0), 0.0f);
  EXPECT_EQ(uniform01(0xffffffffu), 1.0f - 0x1p-24f);
  EXPECT_EQ(uniform01(0x80000000u), 0.5f);
}

TEST(PhiloxTest, UniformBelowReachesBothEnds) {
  EXPECT_EQ(uniform_below(0, 10), 0u);
  EXPECT_EQ(uniform_below(0xffffffffu, 10), 9u);
  EXPECT_EQ(uniform_below(0xffffffffu, 1), 0u);
  EXPECT_EQ(uniform_below(0xffffffffu, 0xffffffffu), 0xfffffffeu);
}

TEST(PhiloxTest, WordsLookUniform) {
  std::array<int, 16> count{};
  for (std::uint32_t i = 0; i < 25000; ++i) {
    for (const std::uint32_t w : DrawAddress{1, DrawPurpose::TEST, 2, 3}.block(i).v)
      ++count[w >> 28];
  }
  double chi2 = 0;
  for (const int c : count) chi2 += (c - 6250.0) * (c - 6250.0) / 6250.0;
  EXPECT_LT(chi2, 37.7);  // 15 degrees of freedom, p = 0.001
}

// Vectors of the FNV authors' test suite (test_fnv.c).
TEST(FnvTest, IsFrozen) {
  EXPECT_EQ(fnv1a64(""), 0xcbf29ce484222325u);
  EXPECT_EQ(fnv1a64("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(fnv1a64("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace tr

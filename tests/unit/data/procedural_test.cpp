// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/sha256.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

struct Digits {
  std::vector<std::uint8_t> pixels;  // [n, 784]
  std::vector<std::int32_t> labels;
  std::size_t size() const { return labels.size(); }
};

Digits read_all(const Dataset& set) {
  Digits d;
  d.pixels.resize(std::size_t(set.num_samples()) * 784);
  d.labels.resize(std::size_t(set.num_samples()));
  for (std::int64_t i = 0; i < set.num_samples(); ++i) {
    std::byte* out[] = {reinterpret_cast<std::byte*>(d.pixels.data() + i * 784),
                        reinterpret_cast<std::byte*>(d.labels.data() + i)};
    set.read(i, out);
  }
  return d;
}

TEST(ProceduralDigitsTest, ASampleDependsOnItsAddressAlone) {
  const Digits all = read_all(*make_procedural_digits("train", 2000, 3));
  const Digits few = read_all(*make_procedural_digits("train", 37, 3));
  EXPECT_EQ(std::memcmp(all.pixels.data(), few.pixels.data(), few.pixels.size()), 0);
  EXPECT_EQ(std::memcmp(all.labels.data(), few.labels.data(), 37 * 4), 0);
  EXPECT_NE(read_all(*make_procedural_digits("val", 37, 3)).pixels, few.pixels);
  EXPECT_NE(read_all(*make_procedural_digits("train", 37, 4)).pixels, few.pixels);
}

// Frozen (docs/determinism.md).
TEST(ProceduralDigitsTest, GoldenBytes) {
  const Digits d = read_all(*make_procedural_digits("train", 200, 0));
  EXPECT_EQ(sha256_hex(std::as_bytes(std::span(d.pixels))),
            "965f2c23eec2e4f291b72e6df135d09856e9a2d0a5a4c1a112a9b99758ac725e");
  const std::vector<std::int32_t> first(d.labels.begin(), d.labels.begin() + 10);
  EXPECT_EQ(first, (std::vector<std::int32_t>{1, 0, 3, 4, 8, 9, 6, 2, 5, 7}));
}

TEST(ProceduralDigitsTest, EveryRunOfTenHasEveryDigit) {
  const Digits d = read_all(*make_procedural_digits("val", 1000, 0));
  for (std::size_t start = 0; start < d.size(); start += 10) {
    int seen = 0;
    for (std::size_t i = start; i < start + 10; ++i) seen |= 1 << d.labels[i];
    ASSERT_EQ(seen, 1023);
  }
}

TEST(ProceduralDigitsTest, RefusesBadArguments) {
  EXPECT_TRUE(
      throws<InvalidArgument>([] { make_procedural_digits("test", 10); }, "split is \"test\""));
  EXPECT_TRUE(throws<InvalidArgument>([] { make_procedural_digits("train", 0); }, "n is 0"));
}

/// Softmax regression by plain gradient descent.
class LinearModel {
 public:
  double accuracy(const Digits& d) const {
    int correct = 0;
    for (std::size_t i = 0; i < d.size(); ++i) {
      float z[10];
      scores(d.pixels.data() + 784 * i, z);
      correct += int(std::max_element(z, z + 10) - z) == d.labels[i];
    }
    return double(correct) / double(d.size());
  }
  void pass(const Digits& d, float lr) {
    for (std::size_t i = 0; i < d.size(); ++i) {
      const std::uint8_t* x = d.pixels.data() + 784 * i;
      float z[10], sum = 0;
      scores(x, z);
      const float top = *std::max_element(z, z + 10);
      for (float& v : z) sum += v = std::exp(v - top);
      for (int c = 0; c < 10; ++c) {
        const float g = lr * (z[c] / sum - (c == d.labels[i] ? 1.0f : 0.0f));
        for (int k = 0; k < 784; ++k) weight_[c][k] -= g * (float(x[k]) / 255.0f);
        bias_[c] -= g;
      }
    }
  }

 private:
  void scores(const std::uint8_t* x, float* z) const {
    for (int c = 0; c < 10; ++c) {
      z[c] = bias_[c];
      for (int k = 0; k < 784; ++k) z[c] += weight_[c][k] * (float(x[k]) / 255.0f);
    }
  }
  float weight_[10][784] = {};
  float bias_[10] = {};
};

// The set is worth a network: what is linear in the pixels does not solve it, yet learns much.
TEST(ProceduralDigitsTest, ALinearModelStaysFarBelowANetwork) {
  const Digits train = read_all(*make_procedural_digits("train", 8000, 0));
  const Digits val = read_all(*make_procedural_digits("val", 2000, 0));
  LinearModel model;
  for (const float lr : {0.01f, 0.003f, 0.001f}) model.pass(train, lr);
  EXPECT_GT(model.accuracy(val), 0.40);
  EXPECT_LT(model.accuracy(val), 0.93);
}

}  // namespace
}  // namespace tr

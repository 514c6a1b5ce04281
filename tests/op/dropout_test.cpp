// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "graph/step_tables.h"
#include "renaissance/task/simple_task.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr double kP = 0.3;

struct Draws {
  std::int64_t step = 5, offset = 0, seed = 1, id = 11;
};

std::vector<Tensor> inputs_of(const Tensor& x, const Draws& draws) {
  std::vector<std::int64_t> counters(kNumCounters, 0), ints(2 * kStepInts, 0);
  counters[kCounterRow] = 3;  // row 3 % 2 = 1 of the table
  counters[kCounterStep] = draws.step;
  ints[kStepInts + kIntSampleOffset] = draws.offset;
  ints[kStepInts + kIntSeed] = draws.seed;
  return {x, Tensor::from({kNumCounters}, counters), Tensor::from({2, kStepInts}, ints)};
}

Attrs attrs_of(const Draws& draws, double p = kP) { return {{"p", p}, {"draw_id", draws.id}}; }

Tensor dropped(const Tensor& x, const Draws& draws, int threads = 0) {
  return run_op("dropout", inputs_of(x, draws), attrs_of(draws), {DeviceKind::CPU, threads})
      .front();
}

Tensor mask(const Draws& draws, const Shape& shape = {64, 33}) {
  return dropped(Tensor::full(shape, 1), draws);
}

bool equal(const Tensor& a, const Tensor& b) { return bool(same_bytes(a, b)); }

TEST(DropoutTest, KeptElementsAreScaledAndTheOthersAreZero) {
  for (DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    const Tensor x = Tensor::uniform({64, 33}, 1, 2, 1, dtype);
    const Tensor y = dropped(x, {});
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      if (y.at(i) == 0) continue;
      ++kept;
      const double want = x.at(i) / (1 - kP);
      ASSERT_NEAR(y.at(i), want, want * 3 * unit_roundoff(dtype)) << i;
    }
    const double n = double(x.num_elements());
    EXPECT_NEAR(double(kept), n * (1 - kP), 5 * std::sqrt(n * kP * (1 - kP)));
  }
}

TEST(DropoutTest, TheBackwardPassDrawsTheSameMask) {
  const Draws draws;
  const Tensor x = Tensor::uniform({64, 33}, 1, 2, 1), dy = Tensor::uniform({64, 33}, 1, 2, 2);
  const Tensor y = dropped(x, draws);
  const Tensor dx = grad_op("dropout", inputs_of(x, draws), attrs_of(draws), {dy}).front();
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    ASSERT_EQ(y.at(i) == 0, dx.at(i) == 0) << i;
    ASSERT_NEAR(dx.at(i) * x.at(i), y.at(i) * dy.at(i), 1e-5) << i;
  }
}

TEST(DropoutTest, DrawsDependOnStepSeedAndLayerAlone) {
  const Tensor base = mask({});
  EXPECT_TRUE(equal(mask({}), base));
  EXPECT_FALSE(equal(mask({.step = 6}), base));
  EXPECT_FALSE(equal(mask({.seed = 2}), base));
  EXPECT_FALSE(equal(mask({.id = 12}), base));
}

// A rank or micro-batch that holds samples 16..31 of the global batch draws what one rank would.
TEST(DropoutTest, ASampleIsAddressedByItsPlaceInTheGlobalBatch) {
  const Tensor whole = mask({}), part = mask({.offset = 16}, {16, 33});
  for (std::int64_t i = 0; i < part.num_elements(); ++i) {
    ASSERT_EQ(part.at(i), whole.at(16 * 33 + i)) << i;
  }
}

TEST(DropoutTest, ThreadCountsGiveTheSameBytes) {
  const Tensor x = Tensor::uniform({64, 33}, 1, 2, 1);
  for (int threads : {2, 3}) EXPECT_TRUE(same_bytes(dropped(x, {}, threads), dropped(x, {}, 1)));
}

TEST(DropoutTest, WithoutProbabilityNothingChanges) {
  const Tensor x = Tensor::uniform({5, 7}, 1, 2, 1);
  EXPECT_TRUE(same_bytes(run_op("dropout", inputs_of(x, {}), attrs_of({}, 0.0)).front(), x));
}

TEST(DropoutTest, WholeChannelsAndWholeSamplesAreDropped) {
  const Tensor x = Tensor::full({40, 5, 6}, 1);
  for (const std::string per : {"channel", "sample"}) {
    Attrs attrs = attrs_of({});
    attrs.set("per", per);
    const Tensor y = run_op("dropout", inputs_of(x, {}), attrs).front();
    int kept = 0;
    for (std::int64_t n = 0; n < 40; ++n) {
      for (std::int64_t i = 0; i < 30; ++i) {
        const std::int64_t first = per == "sample" ? 0 : i % 6;
        ASSERT_EQ(y.at(n * 30 + i), y.at(n * 30 + first)) << per << ", sample " << n;
        kept += y.at(n * 30 + i) != 0;
      }
    }
    EXPECT_NEAR(kept, 1200 * (1 - kP), per == "sample" ? 5 * 30 * 2.9 : 5 * 5 * 7.1) << per;
    const Tensor dx = grad_op("dropout", inputs_of(x, {}), attrs, {x}).front();
    EXPECT_TRUE(same_bytes(dx, y)) << per;
  }
}

TEST(DropoutTest, RefusesAProbabilityOfOne) {
  const Tensor x = Tensor::uniform({5, 7}, 1, 2, 1);
  EXPECT_TRUE(refuses([&] { run_op("dropout", inputs_of(x, {}), attrs_of({}, 1.0)); }, {"p is 1"}));
  EXPECT_TRUE(
      refuses([&] { run_op("dropout", inputs_of(x, {}), attrs_of({}, -0.1)); }, {"p is -0.1"}));
}

}  // namespace
}  // namespace tr::test

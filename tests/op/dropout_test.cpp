// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "graph/step_tables.h"
#include "op/op_harness.h"
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

Attrs rrelu_attrs(double lower, double upper) {
  return {{"lower", lower}, {"upper", upper}, {"draw_id", std::int64_t{11}}};
}

TEST(RreluTest, SlopesBelowZeroAreDrawnFromTheirRange) {
  constexpr double kLower = 0.1, kUpper = 0.4;
  for (DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    const Tensor x = Tensor::uniform({64, 33}, -2, 2, 1, dtype);
    const Tensor y =
        run_op("rrelu", inputs_of(x, {}), rrelu_attrs(kLower, kUpper), {DeviceKind::CPU, 3})
            .front();
    double sum = 0, smallest = 1, largest = 0;
    std::int64_t below = 0;
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      if (x.at(i) > 0) {
        ASSERT_EQ(y.at(i), x.at(i)) << i;
      } else if (x.at(i) < -0.01) {
        const double slope = y.at(i) / x.at(i);
        ASSERT_GE(slope, kLower * (1 - 2 * unit_roundoff(dtype))) << i;
        ASSERT_LE(slope, kUpper * (1 + 2 * unit_roundoff(dtype))) << i;
        sum += slope, ++below;
        smallest = std::min(smallest, slope), largest = std::max(largest, slope);
      }
    }
    EXPECT_NEAR(sum / double(below), 0.25, 5 * 0.3 / std::sqrt(12.0 * double(below)));
    EXPECT_LT(smallest, 0.11);
    EXPECT_GT(largest, 0.39);
    EXPECT_TRUE(same_bytes(
        run_op("rrelu", inputs_of(x, {}), rrelu_attrs(kLower, kUpper), {DeviceKind::CPU, 1})
            .front(),
        y));
  }
}

TEST(RreluTest, TheBackwardPassDrawsTheSameSlopes) {
  const Tensor x = Tensor::uniform({64, 33}, -2, 2, 1), dy = Tensor::uniform({64, 33}, 1, 2, 2);
  const Attrs attrs = rrelu_attrs(0.1, 0.4);
  const Tensor y = run_op("rrelu", inputs_of(x, {}), attrs).front();
  const Tensor dx = grad_op("rrelu", inputs_of(x, {}), attrs, {dy}).front();
  for (std::int64_t i = 0; i < x.num_elements(); ++i)
    ASSERT_NEAR(dx.at(i) * x.at(i), y.at(i) * dy.at(i), 1e-5) << i;
  const Tensor other = run_op("rrelu", inputs_of(x, {.step = 6}), attrs).front();
  EXPECT_FALSE(same_bytes(other, y));
}

TEST(RreluTest, RefusesARangeTurnedRound) {
  const Tensor x = Tensor::uniform({5, 7}, 1, 2, 1);
  EXPECT_TRUE(refuses([&] { run_op("rrelu", inputs_of(x, {}), rrelu_attrs(0.4, 0.1)); },
                      {"the slopes are 0.4 to 0.1"}));
  EXPECT_TRUE(refuses([&] { run_op("rrelu", {x}, rrelu_attrs(0.1, 0.4)); }, {"no address"}));
}

TEST(AlphaDropoutTest, MeanAndVarianceStay) {
  const Tensor x = Tensor::normal({500, 100}, 0, 1, 3);
  for (const double p : {0.1, 0.5}) {
    const Tensor y = run_op("alpha_dropout", inputs_of(x, {}), attrs_of({}, p)).front();
    double sum = 0, squares = 0, in = 0, in_squares = 0;
    const auto n = double(x.num_elements());
    for (std::int64_t i = 0; i < x.num_elements(); ++i) {
      sum += y.at(i) / n, squares += y.at(i) * y.at(i) / n;
      in += x.at(i) / n, in_squares += x.at(i) * x.at(i) / n;
    }
    EXPECT_NEAR(sum, in, 0.02) << p;
    EXPECT_NEAR(squares, in_squares, 0.03) << p;
  }
}

TEST(AlphaDropoutTest, KeepsWhatDropoutKeeps) {
  const Tensor x = Tensor::uniform({64, 33}, 1, 2, 1), dy = Tensor::uniform({64, 33}, 1, 2, 2);
  constexpr double kLimit = -1.7580993408473766;
  const double scale = 1 / std::sqrt((1 - kP) * (1 + kP * kLimit * kLimit));
  const Tensor kept = dropped(x, {});
  const Tensor y = run_op("alpha_dropout", inputs_of(x, {}), attrs_of({})).front();
  const Tensor dx = grad_op("alpha_dropout", inputs_of(x, {}), attrs_of({}), {dy}).front();
  for (std::int64_t i = 0; i < x.num_elements(); ++i) {
    const double from = kept.at(i) != 0 ? x.at(i) : kLimit;
    ASSERT_NEAR(y.at(i), scale * (from - kP * kLimit), 1e-6) << i;
    ASSERT_NEAR(dx.at(i), kept.at(i) != 0 ? scale * dy.at(i) : 0, 1e-6) << i;
  }
}

TEST(AlphaDropoutTest, WholeChannelsAreDropped) {
  const Tensor x = Tensor::full({40, 5, 6}, 1);
  Attrs attrs = attrs_of({});
  attrs.set("per", std::string("channel"));
  const Tensor y = run_op("alpha_dropout", inputs_of(x, {}), attrs).front();
  Attrs zeros = attrs_of({});
  zeros.set("per", std::string("channel"));
  const Tensor kept = run_op("dropout", inputs_of(x, {}), zeros).front();
  for (std::int64_t i = 0; i < x.num_elements(); ++i) ASSERT_EQ(y.at(i) > 0, kept.at(i) > 0) << i;
  attrs.set("per", std::string("sample"));
  EXPECT_TRUE(refuses([&] { run_op("alpha_dropout", inputs_of(x, {}), attrs); },
                      {"per is 'sample', expected element or channel"}));
}

TEST(DropoutTest, RefusesAProbabilityOfOne) {
  const Tensor x = Tensor::uniform({5, 7}, 1, 2, 1);
  EXPECT_TRUE(refuses([&] { run_op("dropout", inputs_of(x, {}), attrs_of({}, 1.0)); }, {"p is 1"}));
  EXPECT_TRUE(
      refuses([&] { run_op("dropout", inputs_of(x, {}), attrs_of({}, -0.1)); }, {"p is -0.1"}));
  EXPECT_TRUE(
      refuses([&] { run_op("alpha_dropout", inputs_of(x, {}), attrs_of({}, 1.0)); }, {"p is 1"}));
  for (const char* op : {"dropout", "alpha_dropout"}) {
    EXPECT_TRUE(refuses([&] { run_op(op, inputs_of(Tensor::full({}, 1), {}), attrs_of({})); },
                        {"x has shape [], expected [N, ...]"}));
  }
}

/// What the op of one launch makes of x, each element by itself: at 0 and beyond on each side.
Function drawn(const std::string& op, const Attrs& attrs, const Shape& shape) {
  const auto at = [&](double x) {
    return array_of(run_op(op, inputs_of(Tensor::full(shape, x), {}), attrs).front());
  };
  return [zero = at(0), one = at(1), minus = at(-1)](const std::vector<Array>& in) {
    Array y = in[0];
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      const double slope = y[i] > 0 ? one[i] - zero[i] : zero[i] - minus[i];
      y[i] = zero[i] + slope * y[i];
    }
    return y;
  };
}

}  // namespace

std::vector<OpCase> drawn_cases() {
  std::vector<OpCase> cases;
  const auto add = [&](const std::string& op, const std::string& name, const Attrs& attrs) {
    OpCase c{.name = op + "_" + name, .op = op, .attrs = attrs};
    const Shape shape{4, 3, 5};
    Tensor x = Tensor::uniform(shape, 0.1f, 2, 1);
    for (std::int64_t i = 0; i < x.num_elements(); i += 2) x.data<float>()[i] *= -1;
    c.inputs = inputs_of(x, {});
    c.forward = drawn(op, attrs, shape);
    c.differentiable = {0};
    c.scale = 4;
    cases.push_back(std::move(c));
  };
  for (const std::string per : {"element", "channel", "sample"}) {
    Attrs attrs = attrs_of({});
    attrs.set("per", per);
    add("dropout", per, attrs);
    if (per != "sample") add("alpha_dropout", per, attrs);
  }
  add("rrelu", "slopes", rrelu_attrs(0.1, 0.4));
  return cases;
}

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
// What the op and golden tests do not see: same bytes for every number of threads, memory around
// buffers, sums by a fixed partition, states of a step, and the edges of each kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "backend/dropout_draw.h"
#include "graph/memory_plan.h"
#include "graph/step_tables.h"
#include "kernel_harness.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Tensor counters(std::int64_t row = 0, std::int64_t step = 0, std::int64_t updates = 0) {
  Tensor tensor = Tensor::zeros({kNumCounters}, DType::INT64);
  tensor.data<std::int64_t>()[kCounterRow] = row;
  tensor.data<std::int64_t>()[kCounterStep] = step;
  tensor.data<std::int64_t>()[kCounterUpdates] = updates;
  return tensor;
}
Tensor scalar(float value) {
  return Tensor::full({}, value);
}
Tensor flag(int value) {
  return Tensor::full({}, value, DType::INT32);
}
Tensor step_ints(std::int64_t seed, std::int64_t first_sample) {
  Tensor tensor = Tensor::zeros({4, kStepInts}, DType::INT64);
  for (int row = 0; row < 4; ++row) {
    tensor.data<std::int64_t>()[row * kStepInts + kIntSeed] = seed;
    tensor.data<std::int64_t>()[row * kStepInts + kIntSampleOffset] = first_sample;
  }
  return tensor;
}
Tensor random(const Shape& shape, std::uint64_t seed, DType dtype = DType::FP32) {
  return Tensor::uniform(shape, -2, 2, seed, dtype);
}
Tensor classes(std::int64_t n, std::int64_t num_classes, DType dtype) {
  return Tensor::uniform({n}, 0, float(num_classes), 77).to(dtype);
}

class ThreadCountTest : public testing::TestWithParam<DType> {};

TEST_P(ThreadCountTest, EveryFamilyGivesTheSameBytes) {
  const DType t = GetParam();
  for (const std::int64_t rows : {1, 7, 33, 200, 1000}) {
    SCOPED_TRACE(rows);
    const Shape shape{rows, 131};
    const Tensor x = random(shape, 1, t), y = random(shape, 2, t);
    const Tensor target = Tensor::uniform(shape, 0, 1, 3);
    EXPECT_TRUE(same_bytes_for_threads({"gelu", {}, {x}}));
    EXPECT_TRUE(same_bytes_for_threads({"gelu_backward", {}, {x, y}}));
    EXPECT_TRUE(same_bytes_for_threads({"add", {}, {x, y}}));
    EXPECT_TRUE(same_bytes_for_threads({"add", {}, {x, random({131}, 4, t)}}));
    EXPECT_TRUE(same_bytes_for_threads({"add", {}, {x, random({rows, 1}, 5, t)}}));
    EXPECT_TRUE(same_bytes_for_threads({"reduce_to", {}, {x, Tensor::zeros({131}, t)}}));
    EXPECT_TRUE(same_bytes_for_threads({"reduce_to", {}, {x, Tensor::zeros({rows, 1})}}));
    EXPECT_TRUE(same_bytes_for_threads({"cast", {{"dtype", std::string("fp16")}}, {x}}));
    EXPECT_TRUE(same_bytes_for_threads({"concat", {{"axis", std::int64_t(1)}}, {x, y, x}}));
    EXPECT_TRUE(same_bytes_for_threads(
        {"dropout", {{"p", 0.3}, {"draw_id", std::int64_t(9)}}, {x, counters(), step_ints(1, 0)}}));
    for (const DType label : {DType::INT32, DType::INT64}) {
      const Tensor labels = classes(rows, 131, label);
      EXPECT_TRUE(same_bytes_for_threads(
          {"softmax_cross_entropy", {{"label_smoothing", 0.1}}, {x, labels}}));
      EXPECT_TRUE(same_bytes_for_threads({"topk_correct", {}, {x, labels}}));
      EXPECT_TRUE(same_bytes_for_threads({"softmax_cross_entropy_backward",
                                          {{"label_smoothing", 0.1}},
                                          {scalar(0.5f), random(shape, 6), labels, x}}));
    }
    EXPECT_TRUE(same_bytes_for_threads({"mse", {}, {x, target}}));
    EXPECT_TRUE(same_bytes_for_threads({"bce_with_logits", {}, {x, target}}));
    EXPECT_TRUE(same_bytes_for_threads({"mse_backward", {}, {scalar(2), x, target}}));
    EXPECT_TRUE(same_bytes_for_threads({"finite_check", {}, {random({rows * 131}, 7)}}));
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, ThreadCountTest,
                         testing::Values(DType::FP32, DType::FP16, DType::BF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(DropoutKernelTest, IsTheAddressedDraw) {
  const std::int64_t samples = 5, elements = 75, first = 40;
  const double p = 0.4;
  const Tensor x = Tensor::full({samples, elements}, 1);
  const Attrs attrs = {{"p", p}, {"draw_id", std::int64_t(123456789)}};
  const KernelCall call{"dropout", attrs, {x, counters(6, 3), step_ints(-5, first)}};
  const Tensor y = run_kernel(call).outputs[0];
  for (std::int64_t n = 0; n < samples; ++n) {
    const DrawAddress address =
        dropout_address(std::uint64_t(-5), 3, 123456789, std::uint64_t(first + n));
    for (std::int64_t e = 0; e < elements; ++e) {
      const float u = uniform01(address.block(std::uint32_t(e / 4)).v[std::size_t(e % 4)]);
      EXPECT_EQ(y.at(n * elements + e), double(u) >= p ? double(float(1 / (1 - p))) : 0.0);
    }
  }
  EXPECT_TRUE(same_bytes(run_kernel({"dropout_backward", attrs, call.inputs}).outputs[0], y));
  KernelCall next_step = call;
  next_step.inputs[1] = counters(6, 4);
  EXPECT_FALSE(same_bytes(run_kernel(next_step).outputs[0], y));
}

TEST(LossKernelTest, LabelOutsideTheClassesGivesNan) {
  const Tensor logits = random({2, 3}, 1);
  for (const std::int32_t wrong : {-1, 3, 1 << 30}) {
    const std::int32_t labels[] = {0, wrong};
    const Tensor y = Tensor::from({2}, labels);
    EXPECT_TRUE(
        std::isnan(run_kernel({"softmax_cross_entropy", {}, {logits, y}}).outputs[0].item()));
    const Tensor dx =
        run_kernel({"softmax_cross_entropy_backward", {}, {scalar(1), logits, y, logits}})
            .outputs[0];
    EXPECT_FALSE(std::isnan(dx.at(0)));
    EXPECT_TRUE(std::isnan(dx.at(3)));
  }
}

TEST(TopkKernelTest, TiesGoToTheLowerClassAndNanIsNeverCorrect) {
  const float scores[] = {1, 1, 0, 0, 0, 0, kNan, 0, 0, 0, 0, 0, 5, kNan, 1, 1, 1, 1};
  const std::int32_t labels[] = {1, 0, 0};
  const Tensor correct =
      run_kernel({"topk_correct", {}, {Tensor::from({3, 6}, scores), Tensor::from({3}, labels)}})
          .outputs[0];
  EXPECT_EQ(correct.at(0), 0);  // class 0 stands before, NaN is wrong, NaN stands before
  EXPECT_EQ(correct.at(1), 2);
}

struct Finding {
  double found_inf;
  double sumsq;
};
Finding check(const Tensor& gradients) {
  const KernelResult result = run_kernel({"finite_check", {}, {gradients}});
  return {result.outputs[0].item(), result.outputs[1].item()};
}

TEST(FiniteCheckTest, FindsOneBadElementAnywhere) {
  for (const std::int64_t n : {1, 15, 4096, 4097, 100003}) {
    for (const float bad : {kInf, -kInf, kNan}) {
      for (const std::int64_t place : {std::int64_t{0}, n / 2, n - 1}) {
        Tensor g = random({n}, 3);
        EXPECT_EQ(check(g).found_inf, 0);
        g.data<float>()[place] = bad;
        EXPECT_EQ(check(g).found_inf, 1) << n << " " << bad << " " << place;
      }
    }
  }
}

TEST(FiniteCheckTest, LargeFiniteGradientsAreFinite) {
  const Finding finding = check(Tensor::full({100}, 1e30));
  EXPECT_EQ(finding.found_inf, 0);  // though the sum of squares overflows
  EXPECT_TRUE(std::isinf(finding.sumsq));
}

TEST(FiniteCheckTest, SumOfSquaresMatchesDouble) {
  const Tensor g = random({1000003}, 5);
  double want = 0;
  for (const float v : g.values<float>()) want += double(v) * double(v);
  EXPECT_NEAR(check(g).sumsq / want, 1, 1e-6);
}

/// Three segments with gaps between them, the second frozen, the third with other rates.
struct Ranges {
  std::int64_t count = 40000;
  Tensor segments = Tensor::zeros({std::int64_t(3 * sizeof(Segment))}, DType::UINT8);
  Tensor floats = Tensor::zeros({4, step_floats_columns(2)});

  Ranges() {
    auto* rows = static_cast<Segment*>(segments.raw());
    rows[0] = {0, 17000, 0, 0, 1, 1, 0};
    rows[1] = {17024, 100, 1, 0, 1, 1, 1};
    rows[2] = {17152, 22801, 2, 1, 0.5f, 0, 0};
    for (int row = 0; row < 4; ++row) {
      float* f = floats.data<float>() + row * step_floats_columns(2) + kFloatHeader;
      f[kGroupLr] = 0.01f * float(row + 1);
      f[kGroupDecay] = 0.1f;
      f[kGroupColumns + kGroupLr] = 0.5f;
      f[kGroupColumns + kGroupDecay] = 0.3f;
    }
  }
  bool moves(std::int64_t i) const { return i < 17000 || (i >= 17152 && i < 17152 + 22801); }
};

KernelCall adam_call(const Ranges& r, int found_inf) {
  return {"adam",
          {{"decoupled", true}, {"clip_norm", 1.0}},
          {random({r.count}, 1), random({r.count}, 2), r.segments, r.floats, counters(1, 1, 2),
           scalar(4), flag(found_inf), scalar(6400), random({r.count}, 3),
           Tensor::uniform({r.count}, 0, 1, 4), Tensor::zeros({r.count}, DType::FP16)}};
}

TEST(OptimizerKernelTest, AdamMatchesItsFormulaAndLeavesTheRest) {
  const Ranges r;
  const KernelCall call = adam_call(r, 0);
  const std::vector<Tensor> after = run_kernel(call).inputs;
  const double clip = std::min(1.0, 1.0 / (20.0 + 1e-6));  // norm = sqrt(6400) / 4
  for (std::int64_t i = 0; i < r.count; ++i) {
    const double w = call.inputs[0].at(i), m = call.inputs[8].at(i), v = call.inputs[9].at(i);
    if (!r.moves(i)) {
      ASSERT_EQ(after[0].at(i), w);
      ASSERT_EQ(after[8].at(i), m);
      ASSERT_EQ(after[10].at(i), 0);
      continue;
    }
    const bool third = i >= 17152;
    const double lr = third ? 0.25 : 0.02, decay = third ? 0 : 0.1;
    const double g = call.inputs[1].at(i) / 4 * clip;
    const double m1 = 0.9 * m + 0.1 * g, v1 = 0.999 * v + 0.001 * g * g;
    const double step =
        m1 / (1 - std::pow(0.9, 3)) / (std::sqrt(v1 / (1 - std::pow(0.999, 3))) + 1e-8);
    const double want = w * (1 - lr * decay) - lr * step;
    ASSERT_NEAR(after[0].at(i), want, 4e-6 * (1 + std::abs(lr * step))) << i;
    ASSERT_EQ(after[10].at(i), Tensor::full({1}, after[0].at(i), DType::FP16).at(0));
  }
  EXPECT_TRUE(same_bytes_for_threads(call));
}

TEST(OptimizerKernelTest, BadStepChangesNothing) {
  const KernelCall call = adam_call(Ranges{}, 1);
  const std::vector<Tensor> after = run_kernel(call).inputs;
  for (std::size_t i = 0; i < after.size(); ++i) EXPECT_TRUE(same_bytes(after[i], call.inputs[i]));
}

TEST(OptimizerKernelTest, SgdClipsByValueAndIsThreadIndependent) {
  const Ranges r;
  const KernelCall call = {"sgd",
                           {{"momentum", 0.9}, {"nesterov", true}, {"clip_value", 0.25}},
                           {random({r.count}, 1), random({r.count}, 2), r.segments, r.floats,
                            counters(), scalar(1), flag(0), scalar(1), random({r.count}, 3)}};
  const std::vector<Tensor> after = run_kernel(call).inputs;
  for (std::int64_t i = 0; i < 17000; ++i) {
    const double w = call.inputs[0].at(i);
    const double g = std::clamp(call.inputs[1].at(i), -0.25, 0.25) + 0.1 * w;
    const double m = 0.9 * call.inputs[8].at(i) + g;
    ASSERT_NEAR(after[8].at(i), m, 1e-6);
    ASSERT_NEAR(after[0].at(i), w - 0.01 * (g + 0.9 * m), 1e-6);
  }
  EXPECT_TRUE(same_bytes_for_threads(call));
}

TEST(StepStateTest, AccumulationOverThreeMicroBatches) {
  const Tensor g = random({50000}, 1), sum = random({50000}, 2);
  const auto run = [&](bool first, bool last) {
    return run_kernel({"accumulate_grads", {{"first", first}, {"last", last}}, {g, sum}}).inputs;
  };
  EXPECT_TRUE(same_bytes(run(true, false)[1], g));
  EXPECT_EQ(run(false, false)[1].at(7), double(float(sum.at(7) + g.at(7))));
  EXPECT_EQ(run(false, true)[0].at(49999), double(float(sum.at(49999) + g.at(49999))));
  EXPECT_TRUE(same_bytes(run(true, true)[0], g));
}

TEST(StepStateTest, CountersOfGoodBadAndMicroSteps) {
  const auto advance = [](Tensor before, bool last, bool training, int bad) {
    return run_kernel({"advance_counters",
                       {{"last_micro", last}, {"training", training}},
                       {before, flag(bad)}})
        .inputs[0];
  };
  Tensor c = advance(counters(), false, true, 0);
  EXPECT_EQ(c.at(kCounterRow), 1);
  EXPECT_EQ(c.at(kCounterStep), 0);
  c = advance(c, true, true, 0);
  c = advance(c, true, true, 1);
  c = advance(c, true, true, 1);
  EXPECT_EQ(c.at(kCounterRow), 4);
  EXPECT_EQ(c.at(kCounterStep), 3);
  EXPECT_EQ(c.at(kCounterUpdates), 1);
  EXPECT_EQ(c.at(kCounterSkipped), 2);
  EXPECT_EQ(c.at(kCounterSkippedInRow), 2);
  EXPECT_EQ(c.at(kCounterGoodInRow), 0);
  c = advance(c, true, true, 0);
  EXPECT_EQ(c.at(kCounterSkippedInRow), 0);
  EXPECT_EQ(c.at(kCounterGoodInRow), 1);
}

TEST(StepStateTest, LossScaleHalvesGrowsAndHasAFloor) {
  const auto update = [](float scale, int bad, std::int64_t good) {
    Tensor c = counters();
    c.data<std::int64_t>()[kCounterGoodInRow] = good;
    return run_kernel({"update_loss_scale",
                       {{"growth_interval", std::int64_t(10)}},
                       {scalar(scale), flag(bad), c}})
        .inputs[0]
        .item();
  };
  EXPECT_EQ(update(8192, 1, 9), 4096);
  EXPECT_EQ(update(1, 1, 0), 1);
  EXPECT_EQ(update(8192, 0, 8), 8192);
  EXPECT_EQ(update(8192, 0, 9), 16384);
  EXPECT_EQ(update(8192, 0, 19), 16384);
}

TEST(StepStateTest, RecordsIntoTheRowOfTheStep) {
  const std::int32_t correct[] = {3, 5};
  const Tensor results =
      run_kernel({"record_step",
                  {},
                  {Tensor::full({4, kResultColumns}, 9), counters(6), scalar(12.5f),
                   Tensor::from({2}, correct), flag(1), scalar(64), scalar(4)}})
          .inputs[0];
  const float* row = results.data<float>() + 2 * kResultColumns;
  EXPECT_EQ(row[kResultLossSum], 12.5f);
  EXPECT_EQ(row[kResultTop1], 3);
  EXPECT_EQ(row[kResultTop5], 5);
  EXPECT_EQ(row[kResultFoundInf], 1);
  EXPECT_EQ(row[kResultGradNorm], 2);
  EXPECT_EQ(row[kResultLossScale], 4);
  EXPECT_EQ(results.at(kResultColumns), 9);  // other rows stay
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
// Learning rates of every step against the tables that PyTorch's schedulers gave.
#include "algo/plateau.h"
#include "algo/schedule.h"
#include "support/compare.h"
#include "support/golden.h"

namespace tr::test {
namespace {

struct Row {
  std::string name;
  Scheduler scheduler;
  int epochs;
  std::int64_t steps;  // an epoch
};

template <typename Builder>
Builder of(int warmup = 0, double start = 0) {
  return Builder().base_lr(0.1).warmup(warmup).warmup_start_lr(start);
}

std::vector<Row> rows() {
  using Cosine = CosineAnnealingLR;
  using Restarts = CosineAnnealingWithWarmRestartsLR;
  const std::vector<int> milestones = {2, 5};
  const auto one_over = [](std::int64_t unit) { return 1 / (1 + double(unit)); };
  return {
      {"constant", of<ConstantLR>(), 4, 3},
      {"constant_warmup", of<ConstantLR>(2, 0.01), 6, 3},
      {"cosine", of<Cosine>().eta_min(0), 7, 3},
      {"cosine_one_epoch", of<Cosine>().eta_min(0), 1, 4},
      {"cosine_warmup", of<Cosine>(3).eta_min(0.001), 9, 2},
      {"cosine_by_step", of<Cosine>().eta_min(0).step_by_batch(), 5, 4},
      {"cosine_warmup_by_step", of<Cosine>(2, 0.005).eta_min(0.002).step_by_batch(), 5, 4},
      {"warmup_longer_than_run", of<Cosine>(5).eta_min(0), 3, 2},
      {"step", of<StepLR>().step_size(3).gamma(0.3), 9, 2},
      {"step_warmup", of<StepLR>(2).step_size(2).gamma(0.5), 9, 2},
      {"multi_step", of<MultiStepLR>().milestones(milestones).gamma(0.2), 9, 2},
      {"multi_step_warmup", of<MultiStepLR>(2).milestones(milestones).gamma(0.2), 9, 2},
      {"exponential", of<ExponentialLR>().gamma(0.8), 6, 2},
      {"polynomial", of<PolynomialLR>(1).end_lr(1e-4).power(2), 6, 3},
      {"polynomial_by_step", of<PolynomialLR>(1).end_lr(1e-4).power(0.9).step_by_batch(), 4, 3},
      {"wsd_by_step", of<WSDLR>(1).decay_start(0.6).end_lr(0.001).step_by_batch(), 5, 4},
      {"warm_restarts", of<Restarts>().T_0(3).T_mult(2).eta_min(1e-3), 10, 2},
      {"linear", of<LinearLR>().start_factor(0.25).total_iters(5), 8, 2},
      {"linear_down_by_step",
       of<LinearLR>(1).start_factor(1).end_factor(0.1).total_iters(2).step_by_batch(), 4, 3},
      {"one_cycle", of<OneCycleLR>(), 5, 6},
      {"one_cycle_three_phase",
       of<OneCycleLR>()
           .pct_start(0.4)
           .three_phase()
           .linear_anneal()
           .div_factor(10)
           .final_div_factor(100),
       5, 6},
      {"one_cycle_warmup_by_epoch", of<OneCycleLR>(2, 0.01).linear_anneal().step_by_epoch(), 12, 2},
      {"one_cycle_short", of<OneCycleLR>(), 1, 3},
      {"lambda", LambdaLR(one_over).base_lr(0.1), 5, 2},
      {"lambda_warmup_by_step", LambdaLR(one_over).base_lr(0.1).warmup(1).step_by_batch(), 5, 2},
      {"constant_warmup_by_step", of<ConstantLR>(2, 0.01).step_by_batch(), 4, 3},
      {"step_warmup_by_step", of<StepLR>(2).step_size(2).gamma(0.5).step_by_batch(), 7, 3},
      {"multi_step_warmup_by_step",
       of<MultiStepLR>(1).milestones(milestones).gamma(0.2).step_by_batch(), 7, 3},
      {"exponential_warmup", of<ExponentialLR>(2, 0.02).gamma(0.8), 6, 2},
      {"exponential_warmup_by_step", of<ExponentialLR>(1).gamma(0.8).step_by_batch(), 5, 3},
      {"wsd_warmup", of<WSDLR>(2).decay_start(0.5).end_lr(0.001), 9, 2},
      {"warm_restarts_warmup", of<Restarts>(2).T_0(2).T_mult(2).eta_min(0), 9, 2},
      {"linear_warmup", of<LinearLR>(2).start_factor(0.25).total_iters(5), 9, 2},
      {"warm_restarts_by_step", of<Restarts>(1).T_0(2).T_mult(1).eta_min(0).step_by_batch(), 6, 3},
  };
}

TEST(ScheduleGolden, EveryTableIsReproduced) {
  const SafetensorsFile file = golden("schedules");
  EXPECT_EQ(file.tensors.size(), rows().size());
  for (const Row& row : rows()) {
    Array want = array_of(file.at(row.name));
    ASSERT_EQ(want.shape, Shape{row.epochs * row.steps}) << row.name;
    Array got(want.shape);
    for (std::int64_t i = 0; i < row.epochs * row.steps; ++i) {
      got[i] = lr_at(row.scheduler, i, row.steps, row.epochs);
      EXPECT_GT(got[i] + 1e-9, 0) << row.name << " step " << i;
    }
    EXPECT_TRUE(is_close(tensor_of(got), want, tolerance(DType::FP32), row.name));
  }
}

TEST(ScheduleGolden, AnotherScheduleFailsTheComparison) {
  const SafetensorsFile file = golden("schedules");
  Array got(Shape{7 * 3});
  for (std::int64_t i = 0; i < 21; ++i) {
    got[i] = lr_at(of<CosineAnnealingLR>().eta_min(1e-5), i, 3, 7);
  }
  EXPECT_FALSE(is_close(tensor_of(got), array_of(file.at("cosine")), tolerance(DType::FP32)));
}

TEST(ScheduleGolden, PlateausFallWhereTheyDoInPyTorch) {
  using Mode = Plateau::Mode;
  const auto plateau = [] { return ReduceLROnPlateau().base_lr(0.1); };
  const std::map<std::string, Scheduler> cases = {
      {"min_rel", plateau().patience(2).factor(0.5)},
      {"max_abs", plateau().metric("top1", Mode::MAX).patience(1).threshold(0.02, false)},
      {"cooldown", plateau().patience(1).factor(0.3).cooldown(3).min_lr(0.004)},
      {"max_rel", plateau().metric("top1").patience(0).factor(0.9).threshold(0.05)}};
  const SafetensorsFile file = golden("plateaus");
  for (const auto& [name, scheduler] : cases) {
    const Tensor metric = file.at(name + ".metric");
    Array got(metric.shape());
    PlateauState state;
    for (std::int64_t i = 0; i < got.shape[0]; ++i) {
      const double value = double(metric.values<float>()[std::size_t(i)]);
      plateau_step(scheduler, name.starts_with("max"), value, state);
      got[i] = lr_at(scheduler, i, 1, 40) * state.factor;
    }
    EXPECT_TRUE(
        is_close(tensor_of(got), array_of(file.at(name + ".rates")), tolerance(DType::FP32), name));
  }
}

}  // namespace
}  // namespace tr::test

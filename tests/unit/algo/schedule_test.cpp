// SPDX-License-Identifier: Apache-2.0
#include "algo/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "algo/plateau.h"
#include "renaissance/core/error.h"
#include "support/golden.h"
#include "support/near.h"
#include "support/throws.h"

namespace tr::test {
namespace {

std::vector<double> rates(const Scheduler& scheduler, int epochs, std::int64_t steps_per_epoch) {
  std::vector<double> all;
  for (std::int64_t step = 0; step < epochs * steps_per_epoch; ++step) {
    all.push_back(lr_at(scheduler, step, steps_per_epoch, epochs));
  }
  return all;
}

std::vector<double> epoch_rates(const Scheduler& scheduler, int epochs) {
  return rates(scheduler, epochs, 1);
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(test::is_near(got[i], want[i], test::kDoubleTolerance)) << "position " << i;
}

TEST(Schedule, ConstantIsTheDefaultAfterWarmup) {
  expect_near(epoch_rates(ConstantLR().base_lr(0.4), 3), {0.4, 0.4, 0.4});
  expect_near(epoch_rates(ConstantLR().base_lr(0.4).warmup(2), 4), {0.2, 0.4, 0.4, 0.4});
}

// By hand: warm-up 0.001 * (e + 1) / 5, then d = 0 .. 4 over D' = 4.
TEST(Schedule, CosineByEpochEndsExactlyAtItsMinimum) {
  const std::vector<double> got =
      epoch_rates(CosineAnnealingLR().base_lr(0.001).warmup(5).eta_min(0.0002), 10);
  const double half_root = std::sqrt(0.5);
  expect_near(got, {0.0002, 0.0004, 0.0006, 0.0008, 0.001, 0.001, 0.0006 + 0.0004 * half_root,
                    0.0006, 0.0006 - 0.0004 * half_root, 0.0002});
  EXPECT_EQ(got.back(), 0.0002);
  EXPECT_EQ(got[4], 0.001) << "the last step of warm-up has base_lr to the bit";
}

TEST(Schedule, CosineDefaultMinimumIsTheArticles) {
  EXPECT_EQ(epoch_rates(CosineAnnealingLR().base_lr(0.1), 3).back(), 1e-6);
}

// The second article: 0.36 after a warm-up of ten epochs from 0.01.
TEST(Schedule, ArticleProgram) {
  const Scheduler s = CosineAnnealingLR()
                          .base_lr(0.36)
                          .warmup_start_lr(0.01)
                          .warmup(10)
                          .eta_min(1e-6)
                          .step_by_epoch();
  EXPECT_TRUE(test::is_near(lr_at(s, 0, 5, 100), 0.045, test::kDoubleTolerance));
  EXPECT_TRUE(test::is_near(lr_at(s, 4, 5, 100), 0.045, test::kDoubleTolerance))
      << "one rate an epoch";
  EXPECT_TRUE(test::is_near(lr_at(s, 5, 5, 100), 0.08, test::kDoubleTolerance));
  EXPECT_EQ(lr_at(s, 9 * 5, 5, 100), 0.36);
  EXPECT_EQ(lr_at(s, 499, 5, 100), 1e-6);
}

TEST(Schedule, ByBatchRisesEveryStep) {
  expect_near(rates(ConstantLR().base_lr(0.8).warmup(2).step_by_batch(), 3, 2),
              {0.2, 0.4, 0.6, 0.8, 0.8, 0.8});
  expect_near(rates(ConstantLR().base_lr(0.8).warmup(2).step_by_batch().step_by_epoch(), 3, 2),
              {0.4, 0.4, 0.8, 0.8, 0.8, 0.8});
}

TEST(Schedule, StepCountsFromTheEndOfWarmup) {
  expect_near(epoch_rates(StepLR().base_lr(1).step_size(2).gamma(0.5).warmup(1), 6),
              {1, 1, 1, 0.5, 0.5, 0.25});
  expect_near(rates(StepLR().base_lr(1).step_size(1).gamma(0.5).step_by_batch(), 2, 3),
              {1, 1, 1, 0.5, 0.5, 0.5});
}

TEST(Schedule, MilestonesCountFromTheStartOfTheRun) {
  expect_near(epoch_rates(MultiStepLR().base_lr(1).milestones({1, 3}).gamma(0.1).warmup(2), 5),
              {0.5, 1, 0.1, 0.01, 0.01});
}

TEST(Schedule, WarmupStartIsAbsoluteOrAFactor) {
  expect_near(epoch_rates(ConstantLR().base_lr(0.4).warmup(2).warmup_start_lr(0.2), 2), {0.3, 0.4});
  expect_near(epoch_rates(ConstantLR().warmup_start_factor(0.5).base_lr(0.4).warmup(2), 2),
              {0.3, 0.4});
  expect_near(
      epoch_rates(ConstantLR().base_lr(0.4).warmup(2).warmup_start_factor(0.5).warmup_start_lr(0),
                  2),
      {0.2, 0.4});
}

TEST(Schedule, WarmupLongerThanTheRunIsCutAndAnnounced) {
  const Scheduler s = CosineAnnealingLR().base_lr(0.3).warmup(5);
  expect_near(epoch_rates(s, 3), {0.1, 0.2, 0.3});
  EXPECT_EQ(schedule_notice(s, 3),
            "scheduler: warm-up of 5 epochs is longer than the run, cut to its 3");
  EXPECT_EQ(schedule_notice(s, 5), "");
}

TEST(Schedule, OneEpochTrainsAtBase) {
  for (const Scheduler& s :
       {Scheduler(CosineAnnealingLR().base_lr(0.3)), Scheduler(WSDLR().base_lr(0.3)),
        Scheduler(PolynomialLR().base_lr(0.3)), Scheduler(StepLR().base_lr(0.3))}) {
    EXPECT_EQ(lr_at(s, 0, 7, 1), 0.3) << name_of(s.kind);
  }
}

TEST(Schedule, TheCosineEndsAtAMillionthUnlessSaid) {
  EXPECT_EQ(Scheduler(CosineAnnealingLR()).lowest_rate(), 1e-6);
  EXPECT_EQ(Scheduler(CosineAnnealingLR().base_lr(1e-8)).lowest_rate(), 1e-8);
  EXPECT_EQ(Scheduler(CosineAnnealingLR().eta_min(0)).lowest_rate(), 0);
  EXPECT_EQ(Scheduler(CosineAnnealingWithWarmRestartsLR()).lowest_rate(), 0);
  EXPECT_EQ(epoch_rates(CosineAnnealingLR().base_lr(0.1), 10).back(), 1e-6);
}

TEST(Schedule, NoTrainedStepHasRateZeroByDefault) {
  for (const bool by_batch : {false, true}) {
    for (const int warmup : {0, 1, 4, 20}) {
      for (int kind = 0; kind < 8; ++kind) {
        Scheduler s;
        s.kind = Scheduler::Kind(kind);
        s.by_batch = by_batch;
        s.warmup_epochs = warmup;
        s.milestones = {3, 5};
        for (const double rate : rates(s, 12, 3)) {
          EXPECT_GT(rate, 0) << name_of(s.kind);
          EXPECT_LE(rate, s.base_lr) << name_of(s.kind);
        }
      }
    }
  }
}

TEST(Schedule, RefusesWrongOptions) {
  const auto refused = [](Scheduler s) { return [s] { s.validate(); }; };
  Scheduler s;
  s.base_lr = -0.1;
  EXPECT_TRUE(throws<InvalidArgument>(refused(s), "base_lr is -0.1, expected a positive number"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(ConstantLR().base_lr(0)); }, "base_lr is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(ConstantLR().base_lr(std::nan(""))); },
                                      "base_lr is nan"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(ConstantLR().warmup(-1)); }, "warmup is -1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(ConstantLR().warmup_start_lr(0.2)); },
                                      "warmup_start_lr is 0.2, expected 0 to base_lr 0.1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(ConstantLR().warmup_start_factor(2)); },
                                      "warmup_start_factor is 2, expected 0 to 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(CosineAnnealingLR().eta_min(0.5)); },
                                      "eta_min is 0.5"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(StepLR().step_size(0)); }, "step_size is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(StepLR().gamma(0)); }, "gamma is 0"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Scheduler(MultiStepLR().milestones({5, 2}));
      },
      "milestones are [5, 2]"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(PolynomialLR().power(0)); }, "power is 0"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { Scheduler(WSDLR().decay_start(1)); }, "decay_start is 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Scheduler(CosineAnnealingWithWarmRestartsLR().T_0(0)); },
                                      "T_0 is 0"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { Scheduler(CosineAnnealingWithWarmRestartsLR().T_mult(0)); }, "T_mult is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { lr_at({}, 6, 2, 3); }, "step is 6, expected 0 to 5"));
  EXPECT_TRUE(throws<InvalidArgument>([] { lr_at({}, 0, 0, 3); }, "steps_per_epoch is 0"));
}

TEST(Schedule, NamesGoBothWays) {
  for (int kind = 0; kind < 8; ++kind) {
    EXPECT_EQ(scheduler_kind_from_name(name_of(Scheduler::Kind(kind))), Scheduler::Kind(kind));
  }
  EXPECT_TRUE(throws<InvalidArgument>([] { scheduler_kind_from_name("cosin"); }, "cosine"));
}

TEST(Schedule, NewKindsRefuseInWords) {
  const auto refused = [](const auto& builder, const char* words) {
    return throws<InvalidArgument>([&] { const Scheduler s = builder; }, words);
  };
  EXPECT_TRUE(refused(LinearLR().total_iters(0), "total_iters is 0, expected at least 1"));
  EXPECT_TRUE(refused(LinearLR().start_factor(-1), "start_factor is -1"));
  EXPECT_TRUE(refused(OneCycleLR().pct_start(0), "pct_start is 0, expected above 0, up to 1"));
  EXPECT_TRUE(refused(OneCycleLR().three_phase().pct_start(0.6), "up to 0.5 (three_phase is on)"));
  EXPECT_TRUE(refused(OneCycleLR().div_factor(0.5), "div_factor is 0.5"));
  EXPECT_TRUE(refused(OneCycleLR().cycle_momentum(0.85, 1), "max_momentum is 1, expected between"));
  EXPECT_TRUE(refused(OneCycleLR().cycle_momentum(0.9, 0.8), "up to max_momentum 0.8"));
  EXPECT_TRUE(refused(ReduceLROnPlateau().factor(1), "plateau.factor is 1, expected between"));
  EXPECT_TRUE(refused(ReduceLROnPlateau().patience(-1), "plateau.patience is -1"));
  EXPECT_TRUE(refused(ReduceLROnPlateau().base_lr(0.1).min_lr(0.2), "plateau.min_lr is 0.2"));
  EXPECT_TRUE(refused(LambdaLR(nullptr), "lambda has no function"));
}

TEST(Schedule, MomentumGoesAgainstTheRateOfOneCycleAlone) {
  const Scheduler cycle = OneCycleLR().base_lr(1).warmup(1).pct_start(0.5).cycle_momentum(0.5, 0.9);
  EXPECT_EQ(momentum_at(OneCycleLR(), 0, 10, 3), std::nullopt);
  EXPECT_EQ(momentum_at(ConstantLR(), 0, 10, 3), std::nullopt);
  EXPECT_EQ(momentum_at(cycle, 5, 10, 3), 0.9) << "warm-up";
  EXPECT_EQ(momentum_at(cycle, 10, 10, 3), 0.9);
  EXPECT_NEAR(momentum_at(cycle, 19, 10, 3).value(), 0.5, 1e-15) << "the rate is highest";
  EXPECT_NEAR(lr_at(cycle, 19, 10, 3), 1, 1e-15);
  EXPECT_NEAR(momentum_at(cycle, 29, 10, 3).value(), 0.9, 1e-15);
}

TEST(Schedule, FunctionsAreAskedForEveryUnit) {
  const Scheduler falls_below = LambdaLR([](std::int64_t unit) { return 3 - double(unit); });
  EXPECT_NO_THROW(check_rates(falls_below, 10, 4));
  EXPECT_TRUE(throws<InvalidArgument>([&] { check_rates(falls_below, 10, 5); },
                                      "gives -1 at epoch 4 after warm-up"));
  const Scheduler warm = LambdaLR([](std::int64_t unit) { return 3 - double(unit); }).warmup(1);
  EXPECT_NO_THROW(check_rates(warm, 10, 5));
}

TEST(Schedule, RatesThatFp32DoesNotHoldAreRefused) {
  const Scheduler grows = ExponentialLR().base_lr(0.001).gamma(1e10);
  EXPECT_NO_THROW(check_rates(grows, 10, 5));
  EXPECT_TRUE(throws<InvalidArgument>([&] { check_rates(grows, 10, 6); },
                                      "exponential gives the learning rate"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { check_rates(LambdaLR([](std::int64_t) { return 1e300; }), 10, 5); }, "gives 1e+300"));
  EXPECT_THROW(Scheduler(ConstantLR().base_lr(1e-50)).validate(), InvalidArgument) << "0 as fp32";
}

TEST(Watch, CountsEpochsWithoutImprovement) {
  WatchState state;
  EXPECT_TRUE(watch(state, 1.0, false, 0.1)) << "the first value is the best so far";
  EXPECT_FALSE(watch(state, 0.95, false, 0.1)) << "better, but by less than the margin";
  EXPECT_FALSE(watch(state, std::nan(""), false, 0.1));
  EXPECT_EQ(state.waited, 2);
  EXPECT_TRUE(watch(state, 0.85, false, 0.1));
  EXPECT_EQ(state.waited, 0);
  EXPECT_EQ(state.best, 0.85);
  WatchState rising;
  EXPECT_TRUE(watch(rising, 0.5, true, 0));
  EXPECT_FALSE(watch(rising, 0.5, true, 0));
  EXPECT_TRUE(watch(rising, 0.6, true, 0));
}

}  // namespace
}  // namespace tr::test

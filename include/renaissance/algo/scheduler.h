// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

/// When a number that is watched has got better, and what follows if it does not.
struct TR_API Plateau {
  std::string metric = "val_loss";                       // of EpochRecord: epoch_metric_names()
  enum class Mode { AUTO, MIN, MAX } mode = Mode::AUTO;  // AUTO: losses fall, all else rises
  double factor = 0.1;                                   // of the rate, in (0, 1)
  int patience = 10;        // epochs without improvement that are let pass
  double threshold = 1e-4;  // least improvement
  bool relative = true;     // threshold is a fraction of the best value
  int cooldown = 0;         // epochs after a fall that do not count
  double min_lr = 0;        // the rate falls no further
};

/// A learning-rate schedule as plain data; every builder below converts to it. Formulas:
/// docs/numerics.md and lr_at().
struct TR_API Scheduler {
  enum class Kind {
    COSINE,
    CONSTANT,
    STEP,
    MULTI_STEP,
    EXPONENTIAL,
    POLYNOMIAL,
    WSD,
    COSINE_WARM_RESTARTS,
    LINEAR,
    ONE_CYCLE,
    PLATEAU,
    LAMBDA
  };
  /// A place in the run: epochs (by epoch) or steps (by batch) since warm-up ended.
  using Factor = std::function<double(std::int64_t unit)>;

  Kind kind = Kind::CONSTANT;
  double base_lr = 0.1;
  int warmup_epochs = 0;
  double warmup_start_lr = 0;       // where warm-up comes from; its first step lies above
  double warmup_start_factor = -1;  // >= 0: warmup_start_lr is this times base_lr
  bool by_batch = false;            // false: one rate an epoch
  std::optional<double> eta_min;    // COSINE: 1e-6, at most base_lr; COSINE_WARM_RESTARTS: 0
  double end_lr = 0;                // POLYNOMIAL, WSD
  double power = 2;                 // POLYNOMIAL
  int step_size = 10;               // STEP, epochs
  double gamma = 0.1;               // STEP, MULTI_STEP, EXPONENTIAL
  std::vector<int> milestones;      // MULTI_STEP, epochs from the start of the run, ascending
  double decay_start = 0.8;         // WSD, fraction of the epochs after warm-up
  int t_0 = 10;                     // COSINE_WARM_RESTARTS, epochs of the first cycle
  int t_mult = 1;                   // COSINE_WARM_RESTARTS, growth of the cycles
  double start_factor = 1.0 / 3;    // LINEAR
  double end_factor = 1;            // LINEAR
  int total_iters = 5;              // LINEAR, epochs
  double pct_start = 0.3;           // ONE_CYCLE, fraction of the units in which the rate rises
  double div_factor = 25;           // ONE_CYCLE, base over the first rate
  double final_div_factor = 1e4;    // ONE_CYCLE, first rate over the last
  bool three_phase = false;         // ONE_CYCLE
  bool linear_anneal = false;       // ONE_CYCLE, else by a cosine
  bool cycle_momentum = false;      // ONE_CYCLE, the momentum or beta1 falls while the rate rises
  double base_momentum = 0.85;      // ONE_CYCLE, where the rate is highest
  double max_momentum = 0.95;       // ONE_CYCLE, at the beginning, in warm-up and at the end
  Plateau plateau;                  // PLATEAU
  Factor factor;                    // LAMBDA

  /// eta_min, or the kind's default of it.
  double lowest_rate() const;
  /// @throws InvalidArgument  naming the field, its value and its range.
  void validate() const;
};
/// "cosine", "constant", "step", "multi_step", "exponential", "polynomial", "wsd",
/// "cosine_warm_restarts", "linear", "one_cycle", "plateau", "lambda"
TR_API std::string_view name_of(Scheduler::Kind kind);
/// The inverse. @throws InvalidArgument  an unknown name.
TR_API Scheduler::Kind scheduler_kind_from_name(std::string_view name);

/// Options that all schedules share. Calls may stand in any order; the last one of a kind wins.
template <typename Derived>
class SchedulerBuilder {
 public:
  Derived& base_lr(double value) {
    return set([&] { options_.base_lr = value; });
  }
  /// Epochs over which the rate rises linearly to base_lr.
  Derived& warmup(int epochs) {
    return set([&] { options_.warmup_epochs = epochs; });
  }
  Derived& warmup_start_lr(double value) {
    return set([&] { options_.warmup_start_lr = value, options_.warmup_start_factor = -1; });
  }
  Derived& warmup_start_factor(double value) {
    return set([&] { options_.warmup_start_factor = value; });
  }
  Derived& step_by_batch(bool on = true) {
    return set([&] { options_.by_batch = on; });
  }
  Derived& step_by_epoch(bool on = true) {
    return set([&] { options_.by_batch = !on; });
  }

  /// @throws InvalidArgument  an option is out of range.
  operator Scheduler() const {  // NOLINT: implicit by design
    options_.validate();
    return options_;
  }

 protected:
  explicit SchedulerBuilder(Scheduler::Kind kind) { options_.kind = kind; }
  template <typename F>
  Derived& set(F change) {
    change();
    return static_cast<Derived&>(*this);
  }
  Scheduler options_;
};

/// eta_min + (base - eta_min) (1 + cos(pi d / D)) / 2; by epoch the last epoch has exactly eta_min.
class CosineAnnealingLR : public SchedulerBuilder<CosineAnnealingLR> {
 public:
  CosineAnnealingLR() : SchedulerBuilder(Scheduler::Kind::COSINE) {}
  CosineAnnealingLR& eta_min(double value) {
    return set([&] { options_.eta_min = value; });
  }
};

/// base_lr after warm-up.
class ConstantLR : public SchedulerBuilder<ConstantLR> {
 public:
  ConstantLR() : SchedulerBuilder(Scheduler::Kind::CONSTANT) {}
};

/// base * gamma^floor(d / step_size), d in epochs after warm-up.
class StepLR : public SchedulerBuilder<StepLR> {
 public:
  StepLR() : SchedulerBuilder(Scheduler::Kind::STEP) {}
  StepLR& step_size(int epochs) {
    return set([&] { options_.step_size = epochs; });
  }
  StepLR& gamma(double value) {
    return set([&] { options_.gamma = value; });
  }
};

/// base * gamma^(number of milestones reached), in epochs from the start of the run.
class MultiStepLR : public SchedulerBuilder<MultiStepLR> {
 public:
  MultiStepLR() : SchedulerBuilder(Scheduler::Kind::MULTI_STEP) {}
  MultiStepLR& milestones(std::vector<int> epochs) {
    return set([&] { options_.milestones = std::move(epochs); });
  }
  MultiStepLR& gamma(double value) {
    return set([&] { options_.gamma = value; });
  }
};

/// base * gamma^d, d in whole epochs after warm-up.
class ExponentialLR : public SchedulerBuilder<ExponentialLR> {
 public:
  ExponentialLR() : SchedulerBuilder(Scheduler::Kind::EXPONENTIAL) { options_.gamma = 0.95; }
  ExponentialLR& gamma(double value) {
    return set([&] { options_.gamma = value; });
  }
};

/// end + (base - end) (1 - d / (D + 1))^power
class PolynomialLR : public SchedulerBuilder<PolynomialLR> {
 public:
  PolynomialLR() : SchedulerBuilder(Scheduler::Kind::POLYNOMIAL) { options_.end_lr = 1e-4; }
  PolynomialLR& power(double value) {
    return set([&] { options_.power = value; });
  }
  PolynomialLR& end_lr(double value) {
    return set([&] { options_.end_lr = value; });
  }
};

/// Warm-up, stable, decay: base until floor(D * decay_start), then linearly to end_lr.
class WSDLR : public SchedulerBuilder<WSDLR> {
 public:
  WSDLR() : SchedulerBuilder(Scheduler::Kind::WSD) {}
  WSDLR& decay_start(double fraction) {
    return set([&] { options_.decay_start = fraction; });
  }
  WSDLR& end_lr(double value) {
    return set([&] { options_.end_lr = value; });
  }
};

/// Cosine within cycles of T_0, T_0 T_mult, T_0 T_mult^2 ... epochs. Source: arXiv:1608.03983.
class CosineAnnealingWithWarmRestartsLR
    : public SchedulerBuilder<CosineAnnealingWithWarmRestartsLR> {
 public:
  CosineAnnealingWithWarmRestartsLR() : SchedulerBuilder(Scheduler::Kind::COSINE_WARM_RESTARTS) {}
  CosineAnnealingWithWarmRestartsLR& T_0(int epochs) {  // NOLINT: PyTorch's
    return set([&] { options_.t_0 = epochs; });
  }
  CosineAnnealingWithWarmRestartsLR& T_mult(int value) {  // NOLINT: PyTorch's
    return set([&] { options_.t_mult = value; });
  }
  CosineAnnealingWithWarmRestartsLR& eta_min(double value) {
    return set([&] { options_.eta_min = value; });
  }
};

/// base (start + (end - start) min(d, T) / T), T = total_iters epochs. Agrees with
/// torch.optim.lr_scheduler.LinearLR.
class LinearLR : public SchedulerBuilder<LinearLR> {
 public:
  LinearLR() : SchedulerBuilder(Scheduler::Kind::LINEAR) {}
  LinearLR& start_factor(double value) {
    return set([&] { options_.start_factor = value; });
  }
  LinearLR& end_factor(double value) {
    return set([&] { options_.end_factor = value; });
  }
  LinearLR& total_iters(int epochs) {
    return set([&] { options_.total_iters = epochs; });
  }
};

/// From base / div_factor up to base, then down to base / (div_factor final_div_factor), by a
/// cosine or a line; by step unless step_by_epoch(). Source: arXiv:1708.07120. Agrees with
/// torch.optim.lr_scheduler.OneCycleLR, where cycle_momentum is on by default.
class OneCycleLR : public SchedulerBuilder<OneCycleLR> {
 public:
  OneCycleLR() : SchedulerBuilder(Scheduler::Kind::ONE_CYCLE) { options_.by_batch = true; }
  OneCycleLR& pct_start(double fraction) {
    return set([&] { options_.pct_start = fraction; });
  }
  OneCycleLR& div_factor(double value) {
    return set([&] { options_.div_factor = value; });
  }
  OneCycleLR& final_div_factor(double value) {
    return set([&] { options_.final_div_factor = value; });
  }
  /// Down to the first rate as long as it rose, then down to the last one.
  OneCycleLR& three_phase(bool on = true) {
    return set([&] { options_.three_phase = on; });
  }
  OneCycleLR& linear_anneal(bool on = true) {
    return set([&] { options_.linear_anneal = on; });
  }
  /// The momentum of SGD, or beta1 of Adam and AdamW, goes from `most` to `base` and back.
  /// @throws InvalidArgument  not 0 < base <= most < 1; at compile(): another optimizer.
  OneCycleLR& cycle_momentum(double base = 0.85, double most = 0.95) {
    return set([&] {
      options_.cycle_momentum = true, options_.base_momentum = base, options_.max_momentum = most;
    });
  }
};

/// base after warm-up; times `factor` whenever the metric has not got better for more than
/// `patience` epochs. Only epochs after warm-up that have the metric count. A checkpoint holds its
/// state. Agrees with torch.optim.lr_scheduler.ReduceLROnPlateau.
class ReduceLROnPlateau : public SchedulerBuilder<ReduceLROnPlateau> {
 public:
  ReduceLROnPlateau() : SchedulerBuilder(Scheduler::Kind::PLATEAU) {}
  ReduceLROnPlateau& metric(std::string name, Plateau::Mode mode = Plateau::Mode::AUTO) {
    return set([&] { options_.plateau.metric = std::move(name), options_.plateau.mode = mode; });
  }
  ReduceLROnPlateau& factor(double value) {
    return set([&] { options_.plateau.factor = value; });
  }
  ReduceLROnPlateau& patience(int epochs) {
    return set([&] { options_.plateau.patience = epochs; });
  }
  ReduceLROnPlateau& threshold(double value, bool relative = true) {
    return set([&] { options_.plateau.threshold = value, options_.plateau.relative = relative; });
  }
  ReduceLROnPlateau& cooldown(int epochs) {
    return set([&] { options_.plateau.cooldown = epochs; });
  }
  ReduceLROnPlateau& min_lr(double value) {
    return set([&] { options_.plateau.min_lr = value; });
  }
};

/// base * factor(d), d in epochs after warm-up, or in steps if step_by_batch(). compile() asks for
/// every factor of the run: each must be finite and at least 0. A run can be resumed only with the
/// same function, which nothing checks. Agrees with torch.optim.lr_scheduler.LambdaLR.
class LambdaLR : public SchedulerBuilder<LambdaLR> {
 public:
  explicit LambdaLR(Scheduler::Factor factor) : SchedulerBuilder(Scheduler::Kind::LAMBDA) {
    options_.factor = std::move(factor);
  }
};

}  // namespace tr

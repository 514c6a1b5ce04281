// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

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
    COSINE_WARM_RESTARTS
  };

  Kind kind = Kind::CONSTANT;
  double base_lr = 0.1;
  int warmup_epochs = 0;
  double warmup_start_lr = 0;       // where warm-up comes from; its first step lies above
  double warmup_start_factor = -1;  // >= 0: warmup_start_lr is this times base_lr
  bool by_batch = false;            // false: one rate an epoch
  double eta_min = 0;               // COSINE, COSINE_WARM_RESTARTS
  double end_lr = 0;                // POLYNOMIAL, WSD
  double power = 2;                 // POLYNOMIAL
  int step_size = 10;               // STEP, epochs
  double gamma = 0.1;               // STEP, MULTI_STEP, EXPONENTIAL
  std::vector<int> milestones;      // MULTI_STEP, epochs from the start of the run, ascending
  double decay_start = 0.8;         // WSD, fraction of the epochs after warm-up
  int t_0 = 10;                     // COSINE_WARM_RESTARTS, epochs of the first cycle
  int t_mult = 1;                   // COSINE_WARM_RESTARTS, growth of the cycles

  /// @throws InvalidArgument  naming the field, its value and its range.
  void validate() const;
};
/// "cosine", "constant", "step", "multi_step", "exponential", "polynomial", "wsd",
/// "cosine_warm_restarts"
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
  CosineAnnealingLR() : SchedulerBuilder(Scheduler::Kind::COSINE) { options_.eta_min = 1e-6; }
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

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "algo/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/check.h"

namespace tr {
namespace {

using Kind = Scheduler::Kind;

/// A place in the run after warm-up, in units (epochs or steps).
struct Position {
  std::int64_t done = 0;    // units since warm-up ended; negative: in it
  std::int64_t length = 0;  // units after warm-up
  std::int64_t unit = 1;    // units an epoch
  std::int64_t epoch = 0;   // from the start of the run
};

double cosine(double base, double end, std::int64_t done, std::int64_t divisor) {
  return end + (base - end) * (1 + std::cos(std::numbers::pi * double(done) / double(divisor))) / 2;
}

double warm_restarts(const Scheduler& s, const Position& p) {
  std::int64_t done = p.done, cycle = s.t_0 * p.unit;
  while (done >= cycle) {
    done -= cycle;
    cycle *= s.t_mult;
  }
  return cosine(s.base_lr, s.lowest_rate(), done, cycle);
}

double stable_then_decay(const Scheduler& s, const Position& p) {
  const auto begin = std::int64_t(std::floor(double(p.length) * s.decay_start));
  if (p.done < begin) return s.base_lr;
  return s.base_lr + (s.end_lr - s.base_lr) * double(p.done - begin) / double(p.length - begin);
}

/// A value that goes from one value to another between two positions.
struct Stretch {
  double from, to, begin, end;

  /// `to` where there is nothing between begin and end.
  double at(double position, bool by_line) const {
    const double part = end > begin ? (position - begin) / (end - begin) : 1;
    if (by_line) return from + (to - from) * part;
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
  }
};

/// A value of ONE_CYCLE that begins at `first`, is `peak` where the rate is highest, ends at
/// `last`.
double one_cycle(const Scheduler& s, const Position& p, double first, double peak_value,
                 double last) {
  const double at = double(p.done), end = double(p.length - 1);
  const double peak = s.pct_start * double(p.length) - 1;
  if (at <= peak) return Stretch{first, peak_value, 0, peak}.at(at, s.linear_anneal);
  if (!s.three_phase) return Stretch{peak_value, last, peak, end}.at(at, s.linear_anneal);
  const double down = 2 * s.pct_start * double(p.length) - 2;
  if (at <= down) return Stretch{peak_value, first, peak, down}.at(at, s.linear_anneal);
  return Stretch{first, last, down, end}.at(at, s.linear_anneal);
}

double one_cycle_rate(const Scheduler& s, const Position& p) {
  const double first = s.base_lr / s.div_factor;
  return one_cycle(s, p, first, s.base_lr, first / s.final_div_factor);
}

double linear(const Scheduler& s, const Position& p) {
  const std::int64_t length = s.total_iters * p.unit;
  const double part = double(std::min(p.done, length)) / double(length);
  return s.base_lr * (s.start_factor + (s.end_factor - s.start_factor) * part);
}

double after_warmup(const Scheduler& s, const Position& p) {
  switch (s.kind) {
    case Kind::COSINE: {
      const std::int64_t divisor = s.by_batch ? p.length : p.length - 1;
      return cosine(s.base_lr, s.lowest_rate(), p.done, std::max<std::int64_t>(1, divisor));
    }
    case Kind::CONSTANT: return s.base_lr;
    case Kind::STEP: return s.base_lr * std::pow(s.gamma, double(p.done / (s.step_size * p.unit)));
    case Kind::MULTI_STEP: {
      const auto reached = std::count_if(s.milestones.begin(), s.milestones.end(),
                                         [&](int milestone) { return milestone <= p.epoch; });
      return s.base_lr * std::pow(s.gamma, double(reached));
    }
    case Kind::EXPONENTIAL: return s.base_lr * std::pow(s.gamma, double(p.done / p.unit));
    case Kind::POLYNOMIAL: {
      const double left = 1 - double(p.done) / double(p.length + 1);
      return s.end_lr + (s.base_lr - s.end_lr) * std::pow(left, s.power);
    }
    case Kind::WSD: return stable_then_decay(s, p);
    case Kind::COSINE_WARM_RESTARTS: return warm_restarts(s, p);
    case Kind::LINEAR: return linear(s, p);
    case Kind::ONE_CYCLE: return one_cycle_rate(s, p);
    case Kind::PLATEAU: return s.base_lr;
    case Kind::LAMBDA: return s.base_lr * s.factor(p.done);
  }
  throw_as<InternalError>("Scheduler of unknown kind {}", int(s.kind));
}

double warmup_start(const Scheduler& s) {
  return s.warmup_start_factor >= 0 ? s.warmup_start_factor * s.base_lr : s.warmup_start_lr;
}

Position position_of(const Scheduler& s, std::int64_t step, std::int64_t steps_per_epoch,
                     int total_epochs) {
  TR_CHECK(steps_per_epoch >= 1, "schedule: steps_per_epoch is {}, expected at least 1",
           steps_per_epoch);
  TR_CHECK(total_epochs >= 1, "schedule: total_epochs is {}, expected at least 1", total_epochs);
  TR_CHECK(step >= 0 && step < steps_per_epoch * total_epochs,
           "schedule: step is {}, expected 0 to {} (the run's last)", step,
           steps_per_epoch * total_epochs - 1);
  const std::int64_t unit = s.by_batch ? steps_per_epoch : 1;
  const std::int64_t position = s.by_batch ? step : step / steps_per_epoch;
  const std::int64_t warmup = std::min(s.warmup_epochs, total_epochs) * unit;
  return {position - warmup, total_epochs * unit - warmup, unit, step / steps_per_epoch};
}

}  // namespace

double lr_at(const Scheduler& s, std::int64_t step, std::int64_t steps_per_epoch,
             int total_epochs) {
  const Position p = position_of(s, step, steps_per_epoch, total_epochs);
  if (p.done == -1) return s.base_lr;  // exactly, whatever rounding the line would bring
  if (p.done >= 0) return after_warmup(s, p);
  const std::int64_t warmup = total_epochs * p.unit - p.length;
  const double start = warmup_start(s);
  return start + (s.base_lr - start) * double(warmup + p.done + 1) / double(warmup);
}

std::optional<double> momentum_at(const Scheduler& s, std::int64_t step,
                                  std::int64_t steps_per_epoch, int total_epochs) {
  if (s.kind != Kind::ONE_CYCLE || !s.cycle_momentum) return std::nullopt;
  const Position p = position_of(s, step, steps_per_epoch, total_epochs);
  if (p.done < 0) return s.max_momentum;
  return one_cycle(s, p, s.max_momentum, s.base_momentum, s.max_momentum);
}

namespace {

/// All kinds but LAMBDA rise or fall without a turn between these two, or stay below base_lr.
void check_ends(const Scheduler& s, std::int64_t steps_per_epoch, int total_epochs) {
  const std::int64_t last = steps_per_epoch * total_epochs - 1;
  const std::int64_t warmup = std::min(s.warmup_epochs, total_epochs) * steps_per_epoch;
  for (const std::int64_t step : {std::min(warmup, last), last}) {
    const double rate = lr_at(s, step, steps_per_epoch, total_epochs);
    TR_CHECK(std::isfinite(float(rate)),
             "scheduler: {} gives the learning rate {} in epoch {}, expected one that fp32 holds",
             name_of(s.kind), rate, step / steps_per_epoch + 1);
  }
}

}  // namespace

void check_rates(const Scheduler& s, std::int64_t steps_per_epoch, int total_epochs) {
  if (s.kind != Kind::LAMBDA) return check_ends(s, steps_per_epoch, total_epochs);
  const std::int64_t unit = s.by_batch ? steps_per_epoch : 1;
  const std::int64_t units = (total_epochs - std::min(s.warmup_epochs, total_epochs)) * unit;
  for (std::int64_t i = 0; i < units; ++i) {
    const double factor = s.factor(i);
    TR_CHECK(factor >= 0 && std::isfinite(float(s.base_lr * factor)),
             "scheduler: the function gives {} at {} {} after warm-up, expected a factor of at "
             "least 0 and a rate that fp32 holds",
             factor, s.by_batch ? "step" : "epoch", i);
  }
}

std::string schedule_notice(const Scheduler& s, int total_epochs) {
  if (s.warmup_epochs <= total_epochs) return "";
  return fmt::format("scheduler: warm-up of {} epochs is longer than the run, cut to its {}",
                     s.warmup_epochs, total_epochs);
}

}  // namespace tr

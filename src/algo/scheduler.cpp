// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/scheduler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "core/check.h"
#include "core/nearest_name.h"

namespace tr {
namespace {

using Kind = Scheduler::Kind;

constexpr std::pair<Kind, std::string_view> kNames[] = {
    {Kind::COSINE, "cosine"},
    {Kind::CONSTANT, "constant"},
    {Kind::STEP, "step"},
    {Kind::MULTI_STEP, "multi_step"},
    {Kind::EXPONENTIAL, "exponential"},
    {Kind::POLYNOMIAL, "polynomial"},
    {Kind::WSD, "wsd"},
    {Kind::COSINE_WARM_RESTARTS, "cosine_warm_restarts"},
    {Kind::LINEAR, "linear"},
    {Kind::ONE_CYCLE, "one_cycle"},
    {Kind::PLATEAU, "plateau"},
    {Kind::LAMBDA, "lambda"}};

void check_at_most_base(const Scheduler& s, std::string_view name, double value) {
  TR_CHECK(value >= 0 && value <= s.base_lr, "scheduler: {} is {}, expected 0 to base_lr {}", name,
           value, s.base_lr);
}

void check_gamma(const Scheduler& s) {
  TR_CHECK(s.gamma > 0 && std::isfinite(s.gamma),
           "scheduler: gamma is {}, expected a positive number", s.gamma);
}

void check_epochs(std::string_view name, int value) {
  TR_CHECK(value >= 1, "scheduler: {} is {}, expected at least 1", name, value);
}

void check_at_least(std::string_view name, double value, double least) {
  TR_CHECK(value >= least && std::isfinite(value), "scheduler: {} is {}, expected at least {}",
           name, value, least);
}

void check_one_cycle(const Scheduler& s) {
  const double most = s.three_phase ? 0.5 : 1;
  TR_CHECK(s.pct_start > 0 && s.pct_start <= most,
           "scheduler: pct_start is {}, expected above 0, up to {}{}", s.pct_start, most,
           s.three_phase ? " (three_phase is on)" : "");
  check_at_least("div_factor", s.div_factor, 1);
  check_at_least("final_div_factor", s.final_div_factor, 1);
  TR_CHECK(s.max_momentum > 0 && s.max_momentum < 1,
           "scheduler: max_momentum is {}, expected between 0 and 1", s.max_momentum);
  TR_CHECK(s.base_momentum > 0 && s.base_momentum <= s.max_momentum,
           "scheduler: base_momentum is {}, expected above 0, up to max_momentum {}",
           s.base_momentum, s.max_momentum);
}

void check_plateau(const Scheduler& s) {
  const Plateau& p = s.plateau;
  TR_CHECK(!p.metric.empty(), "scheduler: plateau.metric is empty, expected a metric's name");
  TR_CHECK(p.factor > 0 && p.factor < 1,
           "scheduler: plateau.factor is {}, expected between 0 and 1", p.factor);
  check_at_least("plateau.patience", p.patience, 0);
  check_at_least("plateau.threshold", p.threshold, 0);
  check_at_least("plateau.cooldown", p.cooldown, 0);
  check_at_most_base(s, "plateau.min_lr", p.min_lr);
}

/// Options that only one kind reads.
void check_kind_options(const Scheduler& s) {
  switch (s.kind) {
    case Kind::COSINE: return check_at_most_base(s, "eta_min", s.lowest_rate());
    case Kind::CONSTANT: return;
    case Kind::STEP: check_epochs("step_size", s.step_size); return check_gamma(s);
    case Kind::MULTI_STEP:
      TR_CHECK(
          std::is_sorted(s.milestones.begin(), s.milestones.end()) &&
              std::all_of(s.milestones.begin(), s.milestones.end(), [](int m) { return m >= 0; }),
          "scheduler: milestones are [{}], expected epochs from 0 on in ascending order",
          fmt::join(s.milestones, ", "));
      return check_gamma(s);
    case Kind::EXPONENTIAL: return check_gamma(s);
    case Kind::POLYNOMIAL:
      TR_CHECK(s.power > 0 && std::isfinite(s.power),
               "scheduler: power is {}, expected a positive number", s.power);
      return check_at_most_base(s, "end_lr", s.end_lr);
    case Kind::WSD:
      TR_CHECK(s.decay_start >= 0 && s.decay_start < 1,
               "scheduler: decay_start is {}, expected 0 <= decay_start < 1", s.decay_start);
      return check_at_most_base(s, "end_lr", s.end_lr);
    case Kind::COSINE_WARM_RESTARTS:
      check_epochs("T_0", s.t_0);
      check_epochs("T_mult", s.t_mult);
      return check_at_most_base(s, "eta_min", s.lowest_rate());
    case Kind::LINEAR:
      check_at_least("start_factor", s.start_factor, 0);
      check_at_least("end_factor", s.end_factor, 0);
      return check_epochs("total_iters", s.total_iters);
    case Kind::ONE_CYCLE: return check_one_cycle(s);
    case Kind::PLATEAU: return check_plateau(s);
    case Kind::LAMBDA:
      TR_CHECK(s.factor, "scheduler: lambda has no function, expected LambdaLR(function)");
      return;
  }
}

}  // namespace

std::string_view name_of(Kind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  throw_as<InternalError>("Scheduler of unknown kind {}", int(kind));
}

Kind scheduler_kind_from_name(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [kind, text] : kNames) {
    if (text == name) return kind;
    known.emplace_back(text);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("scheduler", name, known));
}

double Scheduler::lowest_rate() const {
  constexpr double kCosineEnd = 1e-6;
  return eta_min.value_or(kind == Kind::COSINE ? std::min(kCosineEnd, base_lr) : 0);
}

void Scheduler::validate() const {
  TR_CHECK(
      base_lr > 0 && float(base_lr) > 0 && base_lr <= double(std::numeric_limits<float>::max()),
      "scheduler: base_lr is {}, expected a positive number that fp32 holds", base_lr);
  TR_CHECK(warmup_epochs >= 0, "scheduler: warmup is {}, expected at least 0 epochs",
           warmup_epochs);
  check_at_most_base(*this, "warmup_start_lr", warmup_start_lr);
  TR_CHECK(warmup_start_factor == -1 || (warmup_start_factor >= 0 && warmup_start_factor <= 1),
           "scheduler: warmup_start_factor is {}, expected 0 to 1 (a part of base_lr)",
           warmup_start_factor);
  check_kind_options(*this);
}

}  // namespace tr

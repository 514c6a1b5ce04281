// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/optimizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "algo/optimizer_spec.h"
#include "core/check.h"
#include "core/nearest_name.h"

namespace tr {
namespace {

using Kind = Optimizer::Kind;

constexpr std::pair<Kind, std::string_view> kNames[] = {
    {Kind::SGD, "sgd"}, {Kind::ADAM, "adam"}, {Kind::ADAMW, "adamw"}};

void check_weight_decay(std::string_view who, double value) {
  TR_CHECK(value >= 0 && std::isfinite(float(value)),
           "{}: weight_decay is {}, expected at least 0, as fp32", who, value);
}

/// A factor of a running mean.
void check_fraction(std::string_view who, std::string_view name, double value) {
  TR_CHECK(value >= 0 && value < 1, "{}: {} is {}, expected 0 <= {} < 1", who, name, value, name);
}

void check_eps(std::string_view who, double value) {
  TR_CHECK(float(value) > 0 && std::isfinite(float(value)),
           "{}: eps is {}, expected a positive number, as fp32", who, value);
}

}  // namespace

std::string_view name_of(Kind kind) {
  for (const auto& [known, name] : kNames) {
    if (known == kind) return name;
  }
  throw_as<InternalError>("Optimizer of unknown kind {}", int(kind));
}

Kind optimizer_kind_from_name(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& [kind, text] : kNames) {
    if (text == name) return kind;
    known.emplace_back(text);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("optimizer", name, known));
}

void Optimizer::validate() const {
  const std::string_view who = name_of(kind);
  check_weight_decay(who, weight_decay);
  if (kind == Kind::SGD) {
    check_fraction(who, "momentum", momentum);
    TR_CHECK(!nesterov || momentum > 0,
             "{}: nesterov is on and momentum 0, expected a momentum above 0", who);
  } else {
    check_fraction(who, "beta1", beta1);
    check_fraction(who, "beta2", beta2);
    check_eps(who, eps);
  }
}

SGD& SGD::momentum(double value) {
  check_fraction("sgd", "momentum", value);
  options_.momentum = value;
  return *this;
}
SGD& SGD::weight_decay(double value) {
  check_weight_decay("sgd", value);
  options_.weight_decay = value;
  return *this;
}
SGD& SGD::nesterov(bool on) {
  options_.nesterov = on;
  return *this;
}
SGD& SGD::decoupled_weight_decay(bool on) {
  options_.decoupled_weight_decay = on;
  return *this;
}
SGD::operator Optimizer() const {
  options_.validate();
  return options_;
}

template <typename Derived>
AdamBuilder<Derived>::AdamBuilder(Kind kind) {
  options_.kind = kind;
}
template <typename Derived>
Derived& AdamBuilder<Derived>::beta1(double value) {
  check_fraction(name_of(options_.kind), "beta1", value);
  options_.beta1 = value;
  return static_cast<Derived&>(*this);
}
template <typename Derived>
Derived& AdamBuilder<Derived>::beta2(double value) {
  check_fraction(name_of(options_.kind), "beta2", value);
  options_.beta2 = value;
  return static_cast<Derived&>(*this);
}
template <typename Derived>
Derived& AdamBuilder<Derived>::eps(double value) {
  check_eps(name_of(options_.kind), value);
  options_.eps = value;
  return static_cast<Derived&>(*this);
}
template <typename Derived>
Derived& AdamBuilder<Derived>::weight_decay(double value) {
  check_weight_decay(name_of(options_.kind), value);
  options_.weight_decay = value;
  return static_cast<Derived&>(*this);
}
template <typename Derived>
AdamBuilder<Derived>::operator Optimizer() const {
  options_.validate();
  return options_;
}

template class AdamBuilder<Adam>;
template class AdamBuilder<AdamW>;

OptimizerSpec optimizer_spec(const Optimizer& o) {
  o.validate();
  if (o.kind == Kind::SGD) {
    return {"sgd",
            {{"momentum", o.momentum},
             {"nesterov", o.nesterov},
             {"decoupled", o.decoupled_weight_decay}},
            o.momentum > 0 ? 1 : 0};
  }
  return {"adam",
          {{"beta1", o.beta1},
           {"beta2", o.beta2},
           {"eps", o.eps},
           {"decoupled", o.kind == Kind::ADAMW}},
          2};
}

}  // namespace tr

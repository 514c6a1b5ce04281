// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/optimizer.h"

#include <cmath>
#include <string>
#include <vector>

#include "algo/optimizer_spec.h"
#include "core/check.h"
#include "core/nearest_name.h"
#include "renaissance/algo/matrix_optimizers.h"

namespace tr {
namespace {

using Kind = Optimizer::Kind;

constexpr std::pair<Kind, std::string_view> kNames[] = {
    {Kind::SGD, "sgd"},         {Kind::ADAM, "adam"},       {Kind::ADAMW, "adamw"},
    {Kind::LION, "lion"},       {Kind::RMSPROP, "rmsprop"}, {Kind::ADAGRAD, "adagrad"},
    {Kind::LARS, "lars"},       {Kind::LAMB, "lamb"},       {Kind::MUON, "muon"},
    {Kind::SHAMPOO, "shampoo"}, {Kind::SOAP, "soap"}};

using Grafting = Optimizer::Grafting;
constexpr std::pair<Grafting, std::string_view> kGraftings[] = {
    {Grafting::NONE, "none"}, {Grafting::SGD, "sgd"}, {Grafting::ADAM, "adam"}};

void check_not_negative(std::string_view who, std::string_view name, double value) {
  TR_CHECK(value >= 0 && std::isfinite(float(value)), "{}: {} is {}, expected at least 0, as fp32",
           who, name, value);
}

void check_positive(std::string_view who, std::string_view name, double value) {
  TR_CHECK(float(value) > 0 && std::isfinite(float(value)),
           "{}: {} is {}, expected a positive number, as fp32", who, name, value);
}

/// A factor of a running mean.
void check_fraction(std::string_view who, std::string_view name, double value) {
  TR_CHECK(value >= 0 && float(value) < 1, "{}: {} is {}, expected 0 <= {} < 1, as fp32", who, name,
           value, name);
}

bool is_preconditioned(Kind kind) { return kind == Kind::SHAMPOO || kind == Kind::SOAP; }
bool has_betas(Kind kind) {
  return kind == Kind::ADAM || kind == Kind::ADAMW || kind == Kind::LION || kind == Kind::LAMB ||
         moves_matrices(kind);
}
bool has_eps(Kind kind) { return kind != Kind::SGD && kind != Kind::LION; }
bool has_momentum(Kind kind) {
  return kind == Kind::SGD || kind == Kind::RMSPROP || kind == Kind::LARS || kind == Kind::MUON;
}
bool has_nesterov(Kind kind) { return kind == Kind::SGD || kind == Kind::LARS; }

double default_eps(Kind kind) {
  if (kind == Kind::ADAGRAD) return 1e-10;
  return kind == Kind::LAMB ? 1e-6 : 1e-8;
}

void check_count(std::string_view who, std::string_view name, int value) {
  TR_CHECK(value >= 1, "{}: {} is {}, expected at least 1", who, name, value);
}

void check_preconditioned(std::string_view who, const Optimizer& o) {
  const double beta = *o.preconditioner_beta;
  if (o.kind == Kind::SOAP) check_fraction(who, "preconditioner_beta", beta);
  TR_CHECK(beta >= 0 && beta <= 1, "{}: preconditioner_beta is {}, expected 0 to 1", who, beta);
  check_positive(who, "ridge", o.ridge);
  check_count(who, "precondition_every", o.precondition_every);
  check_count(who, "block_size", o.block_size);
  check_count(who, "max_preconditioner_dim", o.max_preconditioner_dim);
}

/// Each field of a resolved optimizer by itself, where its kind reads it.
void check_fields(const Optimizer& o) {
  const std::string_view who = name_of(o.kind);
  check_not_negative(who, "weight_decay", o.weight_decay);
  if (has_momentum(o.kind)) check_fraction(who, "momentum", *o.momentum);
  if (has_betas(o.kind)) {
    check_fraction(who, "beta1", *o.beta1);
    check_fraction(who, "beta2", *o.beta2);
  }
  if (has_eps(o.kind)) check_positive(who, "eps", *o.eps);
  if (o.kind == Kind::RMSPROP) check_fraction(who, "alpha", o.alpha);
  if (o.kind == Kind::ADAGRAD) {
    check_not_negative(who, "lr_decay", o.lr_decay);
    check_not_negative(who, "initial_accumulator", o.initial_accumulator);
  }
  if (moves_matrices(o.kind)) check_positive(who, "adam_rate", o.adam_rate);
  if (is_preconditioned(o.kind)) check_preconditioned(who, o);
  if (o.kind == Kind::LARS) check_positive(who, "trust_coefficient", o.trust_coefficient);
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

std::string_view name_of(Grafting grafting) { return kGraftings[std::size_t(grafting)].second; }

Grafting grafting_from_name(std::string_view name) {
  for (const auto& [grafting, text] : kGraftings) {
    if (text == name) return grafting;
  }
  throw_as<InvalidArgument>("\"{}\" is unknown, expected none, sgd or adam", name);
}

Optimizer Optimizer::resolved() const {
  Optimizer o = *this;
  const bool muon = kind == Kind::MUON;
  o.momentum = momentum.value_or(muon ? 0.95 : 0);
  o.nesterov = nesterov.value_or(muon);
  const bool soap = kind == Kind::SOAP;
  o.beta1 = beta1.value_or(soap ? 0.95 : 0.9);
  o.beta2 = beta2.value_or(kind == Kind::LION ? 0.99 : soap ? 0.95 : 0.999);
  o.preconditioner_beta = preconditioner_beta.value_or(soap ? *o.beta2 : 1);
  o.eps = eps.value_or(default_eps(kind));
  return o;
}

void Optimizer::validate() const {
  const Optimizer o = resolved();
  const std::string_view who = name_of(kind);
  check_fields(o);
  if (!has_nesterov(kind)) return;
  TR_CHECK(!*o.nesterov || *o.momentum > 0,
           "{}: nesterov is on and momentum 0, expected a momentum above 0", who);
  if (kind != Kind::LARS || !rate_in_momentum) return;
  TR_CHECK(*o.momentum > 0,
           "{}: rate_in_momentum is on and momentum 0, expected a momentum above 0", who);
  TR_CHECK(!*o.nesterov, "{}: rate_in_momentum and nesterov are on, expected one of them", who);
}

template <typename Derived>
void OptimizerBuilder<Derived>::check_ranges() const {
  check_fields(options_.resolved());
}
template <typename Derived>
OptimizerBuilder<Derived>::operator Optimizer() const {
  options_.validate();
  return options_.resolved();
}

template class OptimizerBuilder<SGD>;
template class OptimizerBuilder<Adam>;
template class OptimizerBuilder<AdamW>;
template class OptimizerBuilder<Lion>;
template class OptimizerBuilder<RMSprop>;
template class OptimizerBuilder<Adagrad>;
template class OptimizerBuilder<LARS>;
template class OptimizerBuilder<LAMB>;
template class OptimizerBuilder<Muon>;
template class OptimizerBuilder<Shampoo>;
template class OptimizerBuilder<SOAP>;

bool moves_matrices(Kind kind) { return kind == Kind::MUON || is_preconditioned(kind); }

std::optional<std::vector<std::string>> matrices_except(const Optimizer& optimizer) {
  if (!moves_matrices(optimizer.kind)) return std::nullopt;
  return optimizer.not_matrices;
}

namespace {

/// What muon, shampoo and soap say beside the betas.
void set_matrix_attrs(const Optimizer& o, Attrs& attrs) {
  attrs.set("adam_eps", *o.eps).set("adam_rate", o.adam_rate);
  if (o.kind == Kind::MUON) {
    attrs.set("momentum", *o.momentum).set("nesterov", *o.nesterov).set("match_rms", o.match_rms);
    return;
  }
  attrs.set("preconditioner_beta", *o.preconditioner_beta)
      .set("every", std::int64_t(o.precondition_every))
      .set("ridge", o.ridge);
  if (o.kind == Kind::SOAP) {
    attrs.set("max_dim", std::int64_t(o.max_preconditioner_dim));
  } else {
    attrs.set("block_size", std::int64_t(o.block_size))
        .set("grafting", std::string(name_of(o.grafting)));
  }
}

}  // namespace

OptimizerSpec optimizer_spec(const Optimizer& optimizer) {
  optimizer.validate();
  const Optimizer o = optimizer.resolved();
  const Attrs betas = {{"beta1", *o.beta1}, {"beta2", *o.beta2}};
  OptimizerSpec spec{std::string(name_of(o.kind)), {}, 1};
  Attrs& attrs = spec.attrs;
  switch (o.kind) {
    case Kind::SGD:
      attrs = {{"momentum", *o.momentum},
               {"nesterov", *o.nesterov},
               {"decoupled", o.decoupled_weight_decay}};
      spec.num_moments = *o.momentum > 0 ? 1 : 0;
      break;
    case Kind::ADAM:
    case Kind::ADAMW:
      spec.op = "adam";
      attrs = betas;
      attrs.set("eps", *o.eps).set("decoupled", o.kind == Kind::ADAMW);
      spec.num_moments = 2;
      break;
    case Kind::LION: attrs = betas; break;
    case Kind::RMSPROP:
      attrs = {
          {"alpha", o.alpha}, {"eps", *o.eps}, {"momentum", *o.momentum}, {"centered", o.centered}};
      spec.num_moments = 1 + (o.centered ? 1 : 0) + (*o.momentum > 0 ? 1 : 0);
      break;
    case Kind::ADAGRAD:
      attrs = {{"lr_decay", o.lr_decay}, {"initial", o.initial_accumulator}, {"eps", *o.eps}};
      break;
    case Kind::LARS:
      attrs = {{"momentum", *o.momentum},
               {"nesterov", *o.nesterov},
               {"trust_coefficient", o.trust_coefficient},
               {"eps", *o.eps},
               {"trust_clip", o.trust_clip},
               {"always_adapt", o.always_adapt},
               {"rate_in_momentum", o.rate_in_momentum}};
      spec.num_moments = *o.momentum > 0 ? 1 : 0;
      break;
    case Kind::LAMB:
      attrs = betas;
      attrs.set("eps", *o.eps).set("trust_clip", o.trust_clip).set("always_adapt", o.always_adapt);
      spec.num_moments = 2;
      break;
    case Kind::MUON:
    case Kind::SHAMPOO:
    case Kind::SOAP:
      attrs = betas;
      set_matrix_attrs(o, attrs);
      spec.num_moments = 2;
      break;
  }
  return spec;
}

OptimizerSpec optimizer_spec(const Optimizer& optimizer, const Scheduler& scheduler, int group,
                             bool groups_set_momenta) {
  OptimizerSpec spec = optimizer_spec(optimizer);
  const bool cycles = scheduler.kind == Scheduler::Kind::ONE_CYCLE && scheduler.cycle_momentum;
  TR_CHECK(!cycles || !groups_set_momenta,
           "scheduler: cycle_momentum is on, and groups set a momentum or a beta: expected one of "
           "them");
  if (!cycles && !groups_set_momenta) return spec;
  TR_CHECK(spec.op == "sgd" || spec.op == "adam",
           "scheduler: cycle_momentum is on, which goes with sgd, adam and adamw, not with {}",
           name_of(optimizer.kind));
  Attrs attrs{{"decoupled", spec.attrs.flag("decoupled")}};
  if (spec.op == "sgd") {
    attrs.set("nesterov", spec.attrs.flag("nesterov"));
    spec.num_moments = 1;
  } else {
    attrs.set("group", std::int64_t(group)).set("eps", spec.attrs.f64("eps"));
  }
  return {spec.op + "_cycle", std::move(attrs), spec.num_moments};
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "algo/param_groups.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/format.h"

namespace tr {
namespace {

ParamKinds kind_of(const Param& param) {
  switch (param.spec.kind) {
    case ParamKind::BIAS: return ParamKinds::BIASES;
    case ParamKind::NORM_WEIGHT:
    case ParamKind::NORM_BIAS: return ParamKinds::NORMS;
    default: return ParamKinds::WEIGHTS;
  }
}

bool takes(const ParamGroup& group, const Param& param) {
  return param.spec.kind != ParamKind::BUFFER && has(group.kinds, kind_of(param)) &&
         matches(group.match, param.name);
}

void check_rate(const char* name, const std::optional<double>& value) {
  TR_CHECK(!value || (*value >= 0 && std::isfinite(float(*value))),
           "group: {} is {}, expected at least 0, as fp32", name, *value);
}

void check_momentum(const char* name, const std::optional<double>& value) {
  TR_CHECK(!value || (*value >= 0 && float(*value) < 1),
           "group: {} is {}, expected 0 <= {} < 1, as fp32", name, *value, name);
}

/// What of one parameter a group set, and which.
struct Setting {
  std::optional<double> value;
  const ParamGroup* by = nullptr;

  void set(const char* what, const std::string& param, const ParamGroup& group, double wanted) {
    TR_CHECK(std::isfinite(float(wanted)), "group \"{}\": the {} of {} would be {}, as fp32",
             group.match, what, param, float(wanted));
    TR_CHECK(!value || *value == wanted,
             "groups: \"{}\" gives {} the {} {}, \"{}\" gives it {}: expected one of them",
             by->match, param, what, *value, group.match, wanted);
    value = wanted;
    by = &group;
  }
};

struct Settings {
  Setting lr_scale, decay, momentum, beta2;  // momentum: of SGD; beta1 of Adam
};

Settings settings_of(const Param& param, std::span<const ParamGroup> groups, double base_lr,
                     double weight_decay) {
  Settings all;
  for (const ParamGroup& group : groups) {
    if (!takes(group, param)) continue;
    if (group.lr_scale) all.lr_scale.set("rate", param.name, group, *group.lr_scale);
    if (group.lr) {
      TR_CHECK(base_lr > 0, "group \"{}\": lr is {} and base_lr 0, expected a base_lr above 0",
               group.match, *group.lr);
      all.lr_scale.set("rate", param.name, group, *group.lr / base_lr);
    }
    if (group.weight_decay) all.decay.set("weight decay", param.name, group, *group.weight_decay);
    if (group.decay_scale)
      all.decay.set("weight decay", param.name, group, weight_decay * *group.decay_scale);
    if (group.momentum) all.momentum.set("momentum", param.name, group, *group.momentum);
    if (group.beta1) all.momentum.set("beta1", param.name, group, *group.beta1);
    if (group.beta2) all.beta2.set("beta2", param.name, group, *group.beta2);
  }
  return all;
}

void check_match(const ArchPlan& plan, const ParamGroup& group) {
  const bool any = std::any_of(plan.params.begin(), plan.params.end(),
                               [&](const Param& param) { return takes(group, param); });
  TR_CHECK(any,
           "group: no parameter of these kinds has a name that \"{}\" matches; the first is \"{}\"",
           group.match, plan.params.empty() ? "" : plan.params.front().name);
}

bool is_adam(const Optimizer& optimizer) {
  return optimizer.kind == Optimizer::Kind::ADAM || optimizer.kind == Optimizer::Kind::ADAMW;
}

/// What the group sets beside rates is something that the optimizer's op takes from the step table.
void check_momenta(const ParamGroup& group, const Optimizer& optimizer) {
  const bool sgd = optimizer.kind == Optimizer::Kind::SGD, betas = group.beta1 || group.beta2;
  if (!group.momentum && !betas) return;
  const std::string_view name = name_of(optimizer.kind);
  TR_CHECK(!sgd || !betas, "group \"{}\": it sets a beta, and {} has a momentum", group.match,
           name);
  TR_CHECK(!is_adam(optimizer) || !group.momentum,
           "group \"{}\": it sets a momentum, and {} has beta1 and beta2", group.match, name);
  if (sgd || is_adam(optimizer)) return;
  throw_as<Unsupported>(
      "group \"{}\": it sets a {}, which {} has for all parameters alone; those of a group go with "
      "sgd, adam and adamw",
      group.match, group.momentum ? "momentum" : "beta", name);
}

/// The number of `values` among the further columns, a new one at need.
int column_of(const GroupValues& values, std::vector<GroupValues>& columns) {
  const auto known = std::find(columns.begin(), columns.end(), values);
  if (known != columns.end()) return int(known - columns.begin());
  columns.push_back(values);
  return int(columns.size()) - 1;
}

/// Parameters with equal rates, for the table that is shown.
struct Row {
  double lr_scale;
  GroupValues values;
  std::int64_t params = 0, elements = 0;
  std::string first;
};

std::string momenta_text(const Optimizer& optimizer, const GroupValues& values) {
  const std::string second = is_adam(optimizer) ? fmt::format(", {:.4g}", values.beta2) : "";
  return fmt::format("{:.4g}{}", values.momentum, second);
}

std::string text_of(const std::vector<Row>& rows, const Optimizer& optimizer, bool momenta) {
  const auto line = [&](const std::string& rate, const std::string& decay, const std::string& own,
                        auto params, auto elements, const std::string& first) {
    const std::string middle = momenta ? fmt::format(" {:>14}", own) : "";
    return fmt::format("{:>8} {:>12}{} {:>7} {:>12}  {}", rate, decay, middle, params, elements,
                       first);
  };
  std::string text = line("rate", "weight decay", is_adam(optimizer) ? "betas" : "momentum",
                          "tensors", "parameters", "first");
  for (const Row& row : rows) {
    text +=
        "\n" + line(fmt::format("x {:.4g}", row.lr_scale), fmt::format("{:.4g}", row.values.decay),
                    momenta_text(optimizer, row.values), row.params, row.elements, row.first);
  }
  return text;
}

/// What the parameter's segment and the step table get. `shown` is what holds, decay included.
ParamRates rates_of(const Settings& own, double usual_decay, const GroupValues& usual,
                    GroupValues shown, std::vector<GroupValues>& columns) {
  ParamRates rates{.lr_scale = float(own.lr_scale.value.value_or(1))};
  if (own.decay.value) rates.decays = shown.decay != 0;
  const bool other = own.decay.value && shown.decay != usual_decay && shown.decay != 0;
  if (!other) shown.decay = usual.decay;  // what decays not at all may share the column
  if (shown != usual) rates.column = column_of(shown, columns);
  return rates;
}

}  // namespace

void ParamGroup::validate() const {
  check_rate("lr", lr);
  check_rate("lr_scale", lr_scale);
  check_rate("weight_decay", weight_decay);
  check_rate("decay_scale", decay_scale);
  check_momentum("momentum", momentum);
  check_momentum("beta1", beta1);
  check_momentum("beta2", beta2);
  TR_CHECK(!lr || !lr_scale, "group \"{}\": lr and lr_scale are given, expected one of them",
           match);
  TR_CHECK(!weight_decay || !decay_scale,
           "group \"{}\": weight_decay and decay_scale are given, expected one of them", match);
  TR_CHECK(lr || lr_scale || weight_decay || decay_scale || momentum || beta1 || beta2,
           "group \"{}\": it sets nothing, expected a rate, a weight decay, a momentum or a beta",
           match);
  TR_CHECK(has(ParamKinds::ALL, kinds), "group \"{}\": it has no kind of parameters", match);
}

std::vector<ParamGroup> layer_decay(double factor, const std::vector<std::string>& prefixes) {
  TR_CHECK(factor > 0 && factor <= 1, "layer_decay: factor is {}, expected 0 < factor <= 1",
           factor);
  TR_CHECK(!prefixes.empty(), "layer_decay: there is no prefix, expected at least one");
  std::vector<ParamGroup> groups;
  for (std::size_t i = 0; i < prefixes.size(); ++i) {
    for (std::size_t j = 0; j < prefixes.size(); ++j) {
      TR_CHECK(i == j || !prefixes[j].starts_with(prefixes[i]),
               "layer_decay: \"{}\" begins \"{}\", expected parts that share nothing", prefixes[i],
               prefixes[j]);
    }
    const double below = double(prefixes.size() - 1 - i);
    groups.push_back({.match = prefixes[i], .lr_scale = std::pow(factor, below)});
  }
  return groups;
}

bool matches(std::string_view match, std::string_view name) {
  std::size_t star = match.find('*');
  if (!name.starts_with(match.substr(0, star))) return false;
  name.remove_prefix(std::min(star, match.size()));
  while (star != std::string_view::npos) {  // each part where it comes first leaves most behind it
    match.remove_prefix(star + 1);
    star = match.find('*');
    const std::string_view part = match.substr(0, star);
    const std::size_t at = name.find(part);
    if (at == std::string_view::npos) return false;
    name.remove_prefix(at + part.size());
  }
  return true;
}

GroupValues values_of(const Optimizer& optimizer) {
  const Optimizer o = optimizer.resolved();
  return {o.weight_decay, is_adam(o) ? *o.beta1 : *o.momentum, *o.beta2};
}

ResolvedGroups resolve_groups(const ArchPlan& plan, std::span<const ParamGroup> groups,
                              double base_lr, const Optimizer& optimizer) {
  ResolvedGroups result;
  if (groups.empty()) return result;
  for (const ParamGroup& group : groups) {
    group.validate();
    check_match(plan, group);
    check_momenta(group, optimizer);
    result.momenta = result.momenta || group.momentum || group.beta1 || group.beta2;
  }
  const GroupValues usual = values_of(optimizer);
  std::vector<Row> rows;
  for (const Param& param : plan.params) {
    if (param.spec.kind == ParamKind::BUFFER) continue;
    const Settings own = settings_of(param, groups, base_lr, usual.decay);
    const double usual_decay = param.spec.kind == ParamKind::WEIGHT ? usual.decay : 0;
    const GroupValues shown = {own.decay.value.value_or(usual_decay),
                               own.momentum.value.value_or(usual.momentum),
                               own.beta2.value.value_or(usual.beta2)};
    const double scale = own.lr_scale.value.value_or(1);
    const ParamRates rates = rates_of(own, usual_decay, usual, shown, result.columns);
    if (own.lr_scale.value || own.decay.value || rates.column != ParamRates::kRuleColumn)
      result.rates.emplace(param.name, rates);
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& r) { return r.lr_scale == scale && r.values == shown; });
    if (row == rows.end()) row = rows.insert(row, {scale, shown, 0, 0, param.name});
    ++row->params;
    row->elements += param.spec.type.shape.num_elements();
  }
  result.text = text_of(rows, optimizer, result.momenta);
  return result;
}

}  // namespace tr

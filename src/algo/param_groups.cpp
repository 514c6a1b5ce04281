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

/// A rate or decay of one parameter, and the group that set it.
struct Setting {
  std::optional<double> value;
  const ParamGroup* by = nullptr;

  void set(const char* what, const std::string& param, const ParamGroup& group, double wanted) {
    TR_CHECK(!value || *value == wanted,
             "groups: \"{}\" gives {} the {} {}, \"{}\" gives it {}: expected one of them",
             by->match, param, what, *value, group.match, wanted);
    value = wanted;
    by = &group;
  }
};

struct Settings {
  Setting lr_scale, decay;
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

/// The number of `decay` among the further columns, a new one at need.
int column_of(double decay, std::vector<double>& decays) {
  const auto known = std::find(decays.begin(), decays.end(), decay);
  if (known != decays.end()) return int(known - decays.begin());
  decays.push_back(decay);
  return int(decays.size()) - 1;
}

/// Parameters with equal rates, for the table that is shown.
struct Row {
  double lr_scale, decay;
  std::int64_t params = 0, elements = 0;
  std::string first;
};

std::string text_of(const std::vector<Row>& rows) {
  std::string text = fmt::format("{:>8} {:>12} {:>7} {:>12}  {}", "rate", "weight decay", "tensors",
                                 "parameters", "first");
  for (const Row& row : rows) {
    text += fmt::format("\n{:>8} {:>12} {:>7} {:>12}  {}", fmt::format("x {:.4g}", row.lr_scale),
                        fmt::format("{:.4g}", row.decay), row.params, row.elements, row.first);
  }
  return text;
}

}  // namespace

void ParamGroup::validate() const {
  check_rate("lr", lr);
  check_rate("lr_scale", lr_scale);
  check_rate("weight_decay", weight_decay);
  check_rate("decay_scale", decay_scale);
  TR_CHECK(!lr || !lr_scale, "group \"{}\": lr and lr_scale are given, expected one of them",
           match);
  TR_CHECK(!weight_decay || !decay_scale,
           "group \"{}\": weight_decay and decay_scale are given, expected one of them", match);
  TR_CHECK(lr || lr_scale || weight_decay || decay_scale,
           "group \"{}\": it sets nothing, expected a rate or a weight decay", match);
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
  const std::size_t star = match.find('*');
  if (!name.starts_with(match.substr(0, star))) return false;
  if (star == std::string_view::npos) return true;
  const std::string_view rest = match.substr(star + 1);
  for (std::size_t at = star; at <= name.size(); ++at) {
    if (matches(rest, name.substr(at))) return true;
  }
  return false;
}

ResolvedGroups resolve_groups(const ArchPlan& plan, std::span<const ParamGroup> groups,
                              double base_lr, double weight_decay) {
  ResolvedGroups result;
  if (groups.empty()) return result;
  for (const ParamGroup& group : groups) {
    group.validate();
    check_match(plan, group);
  }
  std::vector<Row> rows;
  for (const Param& param : plan.params) {
    if (param.spec.kind == ParamKind::BUFFER) continue;
    const Settings own = settings_of(param, groups, base_lr, weight_decay);
    const double usual = param.spec.kind == ParamKind::WEIGHT ? weight_decay : 0;
    const double decay = own.decay.value.value_or(usual), scale = own.lr_scale.value.value_or(1);
    ParamRates rates{.lr_scale = float(scale)};
    if (own.decay.value && decay == 0) rates.decay_column = ParamRates::kNoDecay;
    if (decay != usual && decay != 0) rates.decay_column = column_of(decay, result.decays);
    if (own.lr_scale.value || own.decay.value) result.rates.emplace(param.name, rates);
    auto row = std::find_if(rows.begin(), rows.end(),
                            [&](const Row& r) { return r.lr_scale == scale && r.decay == decay; });
    if (row == rows.end()) row = rows.insert(row, {scale, decay, 0, 0, param.name});
    ++row->params;
    row->elements += param.spec.type.shape.num_elements();
  }
  result.text = text_of(rows);
  return result;
}

}  // namespace tr

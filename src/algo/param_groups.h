// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/compiler.h"
#include "renaissance/algo/param_group.h"

namespace tr {

/// What groups make of a model's parameters.
struct ResolvedGroups {
  std::map<std::string, ParamRates> rates;  // GraphOptions::rates
  std::vector<double> decays;               // of the step table's further columns, by ParamRates
  std::string text;                         // a line a set of equal rates; empty without groups
};

/// Names of `match` that a name begins with; * stands for any characters.
bool matches(std::string_view match, std::string_view name);

/// @throws InvalidArgument  a group that matches no parameter, or two that set a parameter's rate
/// or decay differently; both are named.
ResolvedGroups resolve_groups(const ArchPlan& plan, std::span<const ParamGroup> groups,
                              double base_lr, double weight_decay);

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/compiler.h"
#include "renaissance/algo/optimizer.h"
#include "renaissance/algo/param_group.h"

namespace tr {

/// What a column of the step table says beside the rate.
struct GroupValues {
  double decay = 0;
  double momentum = 0;  // of SGD; beta1 of Adam
  double beta2 = 0;     // of Adam
  friend bool operator==(const GroupValues&, const GroupValues&) = default;
};

/// Those of an optimizer.
GroupValues values_of(const Optimizer& optimizer);

/// What groups make of a model's parameters.
struct ResolvedGroups {
  std::map<std::string, ParamRates> rates;  // GraphOptions::rates
  std::vector<GroupValues> columns;         // the step table's further ones, by ParamRates
  bool momenta = false;                     // a group sets a momentum or a beta
  std::string text;                         // a line a set of equal rates; empty without groups
};

/// Names of `match` that a name begins with; * stands for any characters.
bool matches(std::string_view match, std::string_view name);

/// @throws InvalidArgument  a group that matches no parameter, two that set something of a
/// parameter differently (both are named), or a momentum or beta that the optimizer has not.
/// @throws Unsupported  one that it has for all parameters alone.
ResolvedGroups resolve_groups(const ArchPlan& plan, std::span<const ParamGroup> groups,
                              double base_lr, const Optimizer& optimizer);

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "renaissance/algo/param_group.h"

namespace tr {

/// Parameter groups as text, with commas between: SELECTOR: SETTING SETTING ...
///
///   SELECTOR   a beginning of names, * for any characters; behind @ kinds with + between:
///              "features.", "*.attn.@weight+bias", "@norm"
///   SETTING    lr=0.01, lr*0.1, weight_decay=0.05, weight_decay*0.5
///
/// @throws InvalidArgument  a part that is no group, naming it, or ParamGroup::validate().
std::vector<ParamGroup> parse_groups(std::string_view text);
std::string groups_text(const std::vector<ParamGroup>& groups);

}  // namespace tr

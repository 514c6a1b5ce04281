// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tr {

/// The message for a name that no op has: what PyTorch calls so, or the nearest of the ops that a
/// layer may be and of `others`.
std::string unknown_op_message(std::string_view name, std::vector<std::string> others = {});

}  // namespace tr

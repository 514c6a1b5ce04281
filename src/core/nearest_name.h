// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tr {

/// Edits (insertion, deletion, replacement, swap of neighbours) that turn `a` into `b`, case
/// ignored.
int edit_distance(std::string_view a, std::string_view b);

/// The known name closest to `name`, the first of equals; "" if `known` is empty or none is close,
/// that is, within a third of the longer name's length (and at least two edits).
std::string nearest_name(std::string_view name, std::span<const std::string> known);

/// The message of every "unknown name" error:
///   dtype: unknown name "fp23"; did you mean "fp32"? Known: fp32, fp16, ...
/// The list is cut after twelve names.
std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string> known);

}  // namespace tr

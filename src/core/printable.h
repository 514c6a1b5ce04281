// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace tr {

/// A name as it may stand in a message or in JSON: bytes that are not UTF-8, and control
/// characters, become \xNN. Names of files are bytes; nothing says that they are text.
std::string printable(std::string_view name);

}  // namespace tr

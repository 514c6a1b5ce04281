// SPDX-License-Identifier: Apache-2.0
#pragma once

// The TOML library behind its wall, and errors that say where in the file.

#include <toml++/toml.h>

#include <string>

#include "core/check.h"
#include "renaissance/core/types.h"

namespace tr::zoo {

/// "recipe.toml:12:3"
inline std::string place_of(const toml::source_region& region) {
  return fmt::format("{}:{}:{}", region.path ? *region.path : "text", region.begin.line,
                     region.begin.column);
}

/// File and line, as layers name them.
inline Where where_of(const toml::source_region& region) {
  Where where;
  where.file = region.path ? *region.path : "text";
  where.line = region.begin.line;
  return where;
}

/// The text of `message` behind its place in the file.
[[noreturn]] inline void fail_at(const toml::source_region& region, const std::string& message) {
  throw_as<InvalidArgument>("{}: {}", place_of(region), message);
}

/// Calls f(); what it refuses is told with the place in the file.
template <typename F>
decltype(auto) at(const toml::source_region& region, F&& f) {
  try {
    return f();
  } catch (const InvalidArgument& error) {
    fail_at(region, error.what());
  }
}

/// "a table", "a text" ...
inline const char* kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "a list";
    case toml::node_type::string: return "a text";
    case toml::node_type::integer: return "an integer";
    case toml::node_type::floating_point: return "a number";
    case toml::node_type::boolean: return "a bool";
    default: return "a date or time";
  }
}

/// The node's table, list (toml::array) or value (std::string, std::int64_t ...).
/// @throws InvalidArgument  it is of another kind; `expected` says what was wanted.
template <typename T>
const auto& as(const toml::node& node, std::string_view what, const char* expected) {
  const auto* found = node.as<T>();
  if (found == nullptr)
    fail_at(node.source(), fmt::format("{} is {}, expected {}", what, kind_of(node), expected));
  if constexpr (std::is_same_v<T, toml::table> || std::is_same_v<T, toml::array>) {
    return *found;
  } else {
    return found->get();
  }
}

}  // namespace tr::zoo

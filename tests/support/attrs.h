// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "renaissance/graph/attrs.h"

namespace tr::test {

/// An op's attributes from the object that a golden file holds: integers, numbers with a point,
/// lists of integers, text, true and false.
inline Attrs attrs_of(const nlohmann::json& values) {
  Attrs attrs;
  for (const auto& [name, value] : values.items()) {
    if (value.is_boolean()) {
      attrs.set(name, value.get<bool>());
    } else if (value.is_array()) {
      attrs.set(name, value.get<std::vector<std::int64_t>>());
    } else if (value.is_string()) {
      attrs.set(name, value.get<std::string>());
    } else if (value.is_number_float()) {
      attrs.set(name, value.get<double>());
    } else {
      attrs.set(name, value.get<std::int64_t>());
    }
  }
  return attrs;
}

}  // namespace tr::test

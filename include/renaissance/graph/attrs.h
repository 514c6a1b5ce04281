// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "renaissance/core/export.h"

namespace tr {

using AttrValue = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// Typed values by name: the settings of one op. Readers throw InternalError for a missing name or a
/// wrong type (the registry has checked both against the op's definition before any reader runs).
class TR_API Attrs {
 public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> values) : values_(values) {}

  Attrs& set(std::string name, AttrValue value);
  bool contains(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::int64_t i64(std::string_view name) const;
  double f64(std::string_view name) const;
  float f32(std::string_view name) const { return float(f64(name)); }
  const std::string& str(std::string_view name) const;
  const std::vector<std::int64_t>& ints(std::string_view name) const;

  const std::map<std::string, AttrValue, std::less<>>& values() const { return values_; }
  /// "{kernel: [3, 3], stride: [1, 1]}"
  std::string text() const;
  friend bool operator==(const Attrs&, const Attrs&) = default;

 private:
  const AttrValue& value(std::string_view name) const;
  std::map<std::string, AttrValue, std::less<>> values_;
};

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "renaissance/graph/attrs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/check.h"

namespace tr {
namespace {

template <typename T>
const T& typed(const AttrValue& value) {
  const T* held = std::get_if<T>(&value);
  TR_ASSERT(held != nullptr);
  return *held;
}

}  // namespace

Attrs& Attrs::set(std::string name, AttrValue value) {
  values_.insert_or_assign(std::move(name), std::move(value));
  return *this;
}

bool Attrs::contains(std::string_view name) const { return values_.find(name) != values_.end(); }

const AttrValue& Attrs::value(std::string_view name) const {
  const auto it = values_.find(name);
  if (it == values_.end())
    throw_as<InternalError>("attribute '{}' is read but was never set", name);
  return it->second;
}

bool Attrs::flag(std::string_view name) const { return typed<bool>(value(name)); }
std::int64_t Attrs::i64(std::string_view name) const { return typed<std::int64_t>(value(name)); }
double Attrs::f64(std::string_view name) const { return typed<double>(value(name)); }
const std::string& Attrs::str(std::string_view name) const {
  return typed<std::string>(value(name));
}
const std::vector<std::int64_t>& Attrs::ints(std::string_view name) const {
  return typed<std::vector<std::int64_t>>(value(name));
}

std::string Attrs::text() const {
  std::string out = "{";
  for (const auto& [name, value] : values_) {
    if (out.size() > 1) out += ", ";
    out += name + ": ";
    out += std::visit(
        [](const auto& held) {
          using T = std::decay_t<decltype(held)>;
          if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
            return fmt::format("[{}]", fmt::join(held, ", "));
          } else {
            return fmt::format("{}", held);
          }
        },
        value);
  }
  return out + "}";
}

}  // namespace tr

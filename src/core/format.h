// SPDX-License-Identifier: Apache-2.0
#pragma once

// fmt formatters of the core types, so that checks can print them: TR_CHECK(..., "x is {}", shape).

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "renaissance/core/dtype.h"
#include "renaissance/core/shape.h"
#include "renaissance/core/types.h"

template <>
struct fmt::formatter<tr::Shape> : fmt::formatter<std::string> {
  auto format(const tr::Shape& s, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(s.str(), ctx);
  }
};
template <>
struct fmt::formatter<tr::TensorType> : fmt::formatter<std::string> {
  auto format(const tr::TensorType& t, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(tr::to_string(t), ctx);
  }
};
template <>
struct fmt::formatter<tr::DType> : fmt::formatter<std::string_view> {
  auto format(tr::DType d, fmt::format_context& ctx) const {
    return fmt::formatter<std::string_view>::format(tr::name_of(d), ctx);
  }
};
template <>
struct fmt::formatter<tr::DeviceKind> : fmt::formatter<std::string_view> {
  auto format(tr::DeviceKind d, fmt::format_context& ctx) const {
    return fmt::formatter<std::string_view>::format(tr::name_of(d), ctx);
  }
};
template <>
struct fmt::formatter<tr::Where> : fmt::formatter<std::string> {
  auto format(const tr::Where& w, fmt::format_context& ctx) const {
    return fmt::formatter<std::string>::format(w.str(), ctx);
  }
};

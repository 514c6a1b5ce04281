// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/format.h"

namespace tr {

/// The whole of `text` as a number in decimal notation; nullopt for anything else: spaces, a sign
/// "+", a rest, overflow, infinities and NaN included.
template <typename T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || error != std::errc() || stop != end) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

/// True for the notation of a number that T does not hold: "1e308" for a float.
template <typename T>
bool is_out_of_range(std::string_view text) {
  if constexpr (std::is_floating_point_v<T>) {
    T value{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc::result_out_of_range && stop == end;
  } else {
    const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
    const bool whole =
        !digits.empty() && digits.find_first_not_of("0123456789") == std::string_view::npos;
    return whole && !parse_number<T>(text);
  }
}

/// What is wrong with a text that parse_number<T>() does not take: "\"x\" is not an integer",
/// "\"1e308\" is out of range, expected ...".
template <typename T>
std::string number_fault(std::string_view text) {
  using Limits = std::numeric_limits<T>;
  constexpr bool kWhole = std::is_integral_v<T>;
  if (!is_out_of_range<T>(text))
    return fmt::format("\"{}\" is not {}", text, kWhole ? "an integer" : "a number");
  if constexpr (kWhole) {
    return fmt::format("\"{}\" is out of range, expected an integer from {} to {}", text,
                       Limits::min(), Limits::max());
  } else {
    return fmt::format("\"{}\" is out of range, expected 0 or a number of {:.2g} to {:.2g} in size",
                       text, Limits::denorm_min(), Limits::max());
  }
}

/// "17179869184", "16GiB", "1.5 KiB": a number of bytes below 2^63, which may have a binary unit.
inline std::optional<std::int64_t> parse_bytes(std::string_view text) {
  constexpr std::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double unit = 1;
  for (const std::string_view name : kUnits) {
    unit *= 1024;
    if (!text.ends_with(name)) continue;
    text.remove_suffix(name.size());
    if (text.ends_with(' ')) text.remove_suffix(1);
    const auto count = parse_number<double>(text);
    if (!count || *count < 0 || *count * unit >= 0x1p63) return std::nullopt;
    return std::int64_t(*count * unit);
  }
  const auto bytes = parse_number<std::int64_t>(text);
  return bytes && *bytes >= 0 ? bytes : std::nullopt;
}

/// "true", "on", "1" and "false", "off", "0".
inline std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "on" || text == "1") return true;
  if (text == "false" || text == "off" || text == "0") return false;
  return std::nullopt;
}

/// The parts between separators, empty ones included; one empty part for an empty text.
inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// Without spaces and tabs at both ends.
inline std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "core/human.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace tr {
namespace {

// Three significant digits of a number below 1000 (1024 for bytes): 1.53, 15.3, 153.
std::string three_digits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

}  // namespace

std::string format_bytes(std::int64_t num_bytes) {
  constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (num_bytes < 0)
    return num_bytes == INT64_MIN ? "-8.00 EiB" : fmt::format("-{}", format_bytes(-num_bytes));
  if (num_bytes < 1024) return fmt::format("{} B", num_bytes);
  double value = double(num_bytes);
  std::size_t unit = 0;
  while (value >= 1023.5) {
    value /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", three_digits(value), kUnits[unit]);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 0) return fmt::format("-{}", format_duration(-seconds));
  if (seconds == 0) return "0 s";
  if (seconds < 999.5e-9) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 999.5e-6) return three_digits(seconds * 1e6) + " us";
  if (seconds < 999.5e-3) return three_digits(seconds * 1e3) + " ms";
  if (seconds < 99.95) return three_digits(seconds) + " s";
  const auto whole = std::int64_t(std::min(std::round(seconds), 9e15));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_clock(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 9e15) return "--:--";
  const auto whole = std::int64_t(std::round(seconds));
  if (whole < 3600) return fmt::format("{:02}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole % 3600 / 60, whole % 60);
}

std::string format_count(double count) {
  constexpr std::array kUnits{"", "k", "M", "G", "T", "P", "E"};
  if (!std::isfinite(count)) return "unknown";
  if (count < 0) return fmt::format("-{}", format_count(-count));
  if (count < 999.5) {
    return count == std::floor(count) ? fmt::format("{:.0f}", count) : three_digits(count);
  }
  std::size_t unit = 0;
  while (count >= 999.5 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  return three_digits(count) + kUnits[unit];
}

}  // namespace tr

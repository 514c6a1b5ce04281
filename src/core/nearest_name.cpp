// SPDX-License-Identifier: Apache-2.0
#include "core/nearest_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace tr {
namespace {

constexpr std::size_t kMaxListed = 12;

char lower(char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; }

}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  // Optimal string alignment: three rolling rows of the usual table.
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = int(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before, last);
    std::swap(last, row);
    row[0] = int(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = lower(a[i - 1]) == lower(b[j - 1]);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
          lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return row[b.size()];
}

std::string nearest_name(std::string_view name, std::span<const std::string> known) {
  constexpr std::size_t kMaxLength = 256;  // nobody mistypes more; bounds the quadratic table
  std::string best;
  int best_distance = -1;
  if (name.size() > kMaxLength) return best;
  for (const std::string& candidate : known) {
    if (candidate.size() > kMaxLength) continue;
    const int limit = std::max(2, int(std::max(name.size(), candidate.size()) / 3));
    const int distance = edit_distance(name, candidate);
    if (distance > limit || (best_distance >= 0 && distance >= best_distance)) continue;
    best = candidate;
    best_distance = distance;
  }
  return best;
}

std::string unknown_name_message(std::string_view what, std::string_view name,
                                 std::span<const std::string> known) {
  std::string message = fmt::format("{}: unknown name \"{}\"", what, name);
  const std::string nearest = nearest_name(name, known);
  if (!nearest.empty()) message += fmt::format("; did you mean \"{}\"?", nearest);
  if (known.empty()) return message + "; there is none to choose from";
  message += nearest.empty() ? "; known: " : " Known: ";
  const std::size_t listed = std::min(known.size(), kMaxListed);
  message +=
      fmt::format("{}", fmt::join(known.begin(), known.begin() + std::ptrdiff_t(listed), ", "));
  if (listed < known.size()) message += fmt::format(" and {} more", known.size() - listed);
  return message;
}

}  // namespace tr

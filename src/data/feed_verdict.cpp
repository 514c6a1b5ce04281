// SPDX-License-Identifier: Apache-2.0
#include "data/feed_verdict.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "core/format.h"

namespace tr::data {
namespace {

constexpr double kInputBound = 0.1;  // part of the time that is spent waiting

}  // namespace

std::string feed_verdict(const LoaderStats& stats, double seconds) {
  if (stats.wait_ms <= kInputBound * seconds * 1e3) return "compute bound";
  const auto& stages = stats.stage_ms;
  const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
  if (sum <= 0) return "input bound";
  const auto longest = std::max_element(stages.begin(), stages.end());
  return fmt::format("input bound: {} {:.0f} %", stage_name(Stage(longest - stages.begin())),
                     100 * *longest / sum);
}

std::string decode_shares(const DecodeCounts& decoded) {
  const std::int64_t all = std::accumulate(decoded.begin(), decoded.end(), std::int64_t{0});
  std::array<std::size_t, kNumDecodePaths> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](auto a, auto b) { return decoded[a] > decoded[b]; });
  std::string text;
  for (const std::size_t path : order) {
    if (decoded[path] == 0) break;
    text +=
        fmt::format("{}{} {:.3g} %", text.empty() ? "" : ", ", decode_path_name(DecodePath(path)),
                    100 * double(decoded[path]) / double(all));
  }
  return text;
}

}  // namespace tr::data

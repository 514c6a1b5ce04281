// SPDX-License-Identifier: Apache-2.0
#include "bench_report.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "core/check.h"

namespace tr::bench {
namespace {

// Linear interpolation between order statistics, as numpy's default.
double quantile(const std::vector<double>& sorted, double q) {
  const double place = q * double(sorted.size() - 1);
  const auto low = std::size_t(place);
  const std::size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (place - double(low)) * (sorted[high] - sorted[low]);
}

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  }
  return "unknown";
}

nlohmann::json number_or_null(const std::optional<double>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace

Summary summarize(std::vector<double> samples) {
  TR_CHECK(!samples.empty(), "bench: no samples, expected at least one");
  std::sort(samples.begin(), samples.end());
  const double iqr = quantile(samples, 0.75) - quantile(samples, 0.25);
  return {quantile(samples, 0.5), iqr, int(samples.size())};
}

Row make_row(std::string name, std::string unit, const Summary& ours) {
  Row row;
  row.name = std::move(name);
  row.value = ours.median;
  row.unit = std::move(unit);
  row.n = ours.n;
  row.spread = ours.spread;
  return row;
}

void set_peer(Row& row, std::string peer, const Summary& theirs, bool less_is_better) {
  row.peer = std::move(peer);
  row.peer_value = theirs.median;
  row.ratio = less_is_better ? theirs.median / row.value : row.value / theirs.median;
}

Report::Report(int argc, char** argv) {
  for (int i = 0; i < argc; ++i) command_ += (i ? " " : "") + std::string(argv[i]);
  env_["processor"] = processor_name();
  env_["cores"] = std::to_string(std::thread::hardware_concurrency());
  env_["compiler"] = "gcc-compatible " __VERSION__;
}

void Report::add(Row row) {
  std::cerr << fmt::format("{:<28} {:>12.4f} {:<14} n={:<4} spread={:.4f}", row.name, row.value,
                           row.unit, row.n, row.spread);
  if (row.peer_value) std::cerr << fmt::format("  {} {:.4f}", row.peer, *row.peer_value);
  if (row.ratio) std::cerr << fmt::format("  ratio {:.3f}", *row.ratio);
  if (row.error) std::cerr << fmt::format("  error {:.3g}", *row.error);
  std::cerr << std::endl;
  rows_.push_back(std::move(row));
}

std::string Report::json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& r : rows_) {
    rows.push_back({{"name", r.name},
                    {"value", r.value},
                    {"unit", r.unit},
                    {"n", r.n},
                    {"spread", r.spread},
                    {"peer", r.peer.empty() ? nlohmann::json(nullptr) : nlohmann::json(r.peer)},
                    {"peer_value", number_or_null(r.peer_value)},
                    {"ratio", number_or_null(r.ratio)},
                    {"error", number_or_null(r.error)}});
  }
  return nlohmann::json{{"env", env_}, {"command", command_}, {"rows", rows}}.dump(2);
}

void Report::write_json(const std::string& path) const {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << json() << std::endl;
    return;
  }
  std::ofstream file(path);
  file << json() << "\n";
  file.flush();
  if (!file) throw_as<DataError>("{}: the report cannot be written", path);
}

int run_main(int (*run)(int, char**), int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    const std::string path = argv[0];
    std::fprintf(stderr, "%s: %s\n", path.substr(path.rfind('/') + 1).c_str(), error.what());
    return 1;
  }
}

}  // namespace tr::bench

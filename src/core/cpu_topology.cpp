// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_topology.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tr {

std::vector<int> usable_cores() {
  cpu_set_t set;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

std::vector<int> parse_core_list(const std::string& text) {
  std::vector<int> cores;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int first = 0;
    const auto [behind_first, error] = std::from_chars(at, end, first);
    if (error != std::errc()) return cores;
    at = behind_first;
    int last = first;
    if (at != end && *at == '-') {
      const auto [behind_last, bad] = std::from_chars(at + 1, end, last);
      if (bad != std::errc() || last - first >= CPU_SETSIZE) return cores;
      at = behind_last;
    }
    for (int core = first; core <= last; ++core) cores.push_back(core);
    if (at == end || *at != ',') return cores;
    ++at;
  }
}

std::vector<int> nearest_first(std::vector<int> cores, int here, const std::string& nodes) {
  std::error_code none;  // a machine without memory nodes
  for (const auto& entry : std::filesystem::directory_iterator(nodes, none)) {
    std::ifstream file(entry.path() / "cpulist");
    std::string text;
    if (!std::getline(file, text)) continue;
    const std::vector<int> node = parse_core_list(text);
    const auto on_node = [&](int core) {
      return std::find(node.begin(), node.end(), core) != node.end();
    };
    if (!on_node(here)) continue;
    std::stable_partition(cores.begin(), cores.end(), on_node);
    break;
  }
  return cores;
}

}  // namespace tr

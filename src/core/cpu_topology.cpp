// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_topology.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
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

namespace {

struct MemoryNode {
  int number = -1;
  std::vector<int> cores;

  bool has(int core) const { return std::find(cores.begin(), cores.end(), core) != cores.end(); }
};

std::vector<MemoryNode> memory_nodes(const std::string& folder) {
  std::vector<MemoryNode> nodes;
  std::error_code none;  // a machine without memory nodes
  for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename();
    MemoryNode node;
    if (!name.starts_with("node")) continue;
    const char* const end = name.data() + name.size();
    const auto [behind, error] = std::from_chars(name.data() + 4, end, node.number);
    std::ifstream file(entry.path() / "cpulist");
    std::string text;
    if (error != std::errc() || behind != end || !std::getline(file, text)) continue;
    node.cores = parse_core_list(text);
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

std::vector<int> nearest_first(std::vector<int> cores, int here, const std::string& nodes) {
  for (const MemoryNode& node : memory_nodes(nodes)) {
    if (!node.has(here)) continue;
    std::stable_partition(cores.begin(), cores.end(), [&](int core) { return node.has(core); });
    break;
  }
  return cores;
}

int memory_node_of(int here, const std::string& nodes) {
  const std::vector<MemoryNode> all = memory_nodes(nodes);
  if (all.size() < 2) return -1;
  for (const MemoryNode& node : all) {
    if (node.has(here)) return node.number;
  }
  return -1;
}

bool prefer_memory_node(std::span<const std::byte> memory, int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  constexpr std::uintptr_t kPage = 4096;
  constexpr int kMostNodes = 64;
  if (node < 0 || node >= kMostNodes) return false;
  const std::uint64_t mask = std::uint64_t{1} << node;
  const auto at = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t first = (at + kPage - 1) / kPage * kPage,
                       last = (at + memory.size()) / kPage * kPage;
  if (last <= first) return true;
  return syscall(SYS_mbind, first, last - first, kPreferred, &mask, kMostNodes + 1, 0) == 0;
}

}  // namespace tr

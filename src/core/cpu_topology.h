// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace tr {

/// Processors that this thread may run on.
std::vector<int> usable_cores();

/// Numbers of a list as the kernel writes it, "0-3,8": 0 1 2 3 8; what is no number ends it.
std::vector<int> parse_core_list(const std::string& text);

/// Folder of node0/cpulist, node1/cpulist, ...: the machine's memory nodes (NUMA).
constexpr const char* kNodesFolder = "/sys/devices/system/node";

/// `cores` with those of the memory node of core `here` in front, else in their order. Without
/// nodes all cores are equally near.
std::vector<int> nearest_first(std::vector<int> cores, int here,
                               const std::string& nodes = kNodesFolder);

/// The memory node of core `here`; -1 if it has none, or if all memory is of one node.
int memory_node_of(int here, const std::string& nodes = kNodesFolder);

/// Asks that pages of this memory which nothing has touched come from `node`, as long as it has
/// some. False: the system refuses it.
bool prefer_memory_node(std::span<const std::byte> memory, int node);

}  // namespace tr

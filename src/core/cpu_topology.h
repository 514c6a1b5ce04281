// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tr {

/// Processors that this thread may run on.
std::vector<int> usable_cores();

/// Numbers of a list as the kernel writes it, "0-3,8": 0 1 2 3 8; what is no number ends it.
std::vector<int> parse_core_list(const std::string& text);

/// `cores` with those of the memory node (NUMA) of core `here` in front, else in their order.
/// `nodes`: folder of node0/cpulist, node1/cpulist, ...; without it all cores are equally near.
std::vector<int> nearest_first(std::vector<int> cores, int here,
                               const std::string& nodes = "/sys/devices/system/node");

}  // namespace tr

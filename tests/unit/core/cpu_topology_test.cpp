// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"

namespace tr {
namespace {

using Cores = std::vector<int>;

TEST(CpuTopologyTest, ReadsListsOfTheKernel) {
  EXPECT_EQ(parse_core_list("0-3,8"), (Cores{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_core_list("5"), (Cores{5}));
  EXPECT_EQ(parse_core_list(""), Cores{});
  EXPECT_EQ(parse_core_list("0-1,x"), (Cores{0, 1}));
  EXPECT_EQ(parse_core_list("0-2000000000"), Cores{});
}

TEST(CpuTopologyTest, CoresOfTheOwnNodeComeFirst) {
  const test::TempFolder folder;
  const auto write = [&](const std::string& node, const std::string& list) {
    std::filesystem::create_directories(folder.path() + "/" + node);
    std::ofstream(folder.path() + "/" + node + "/cpulist") << list << "\n";
  };
  write("node0", "0-3,8-11");
  write("node1", "4-7,12-15");
  std::filesystem::create_directories(folder.path() + "/power");
  EXPECT_EQ(nearest_first({1, 2, 4, 6, 9, 12}, 13, folder.path()), (Cores{4, 6, 12, 1, 2, 9}));
  EXPECT_EQ(nearest_first({1, 2, 4, 6, 9, 12}, 0, folder.path()), (Cores{1, 2, 9, 4, 6, 12}));
  EXPECT_EQ(nearest_first({3, 1}, 99, folder.path()), (Cores{3, 1}));
  EXPECT_EQ(nearest_first({3, 1}, 0, folder.path() + "/missing"), (Cores{3, 1}));
}

TEST(CpuTopologyTest, MemoryHasANodeWhereThereAreSeveral) {
  const test::TempFolder folder;
  const auto write = [&](const std::string& node, const std::string& list) {
    std::filesystem::create_directories(folder.path() + "/" + node);
    std::ofstream(folder.path() + "/" + node + "/cpulist") << list << "\n";
  };
  EXPECT_EQ(memory_node_of(0, folder.path()), -1);
  write("node0", "0-3");
  write("nodes", "0-9");
  EXPECT_EQ(memory_node_of(0, folder.path()), -1) << "all memory is equally near";
  write("node12", "4-7");
  EXPECT_EQ(memory_node_of(0, folder.path()), 0);
  EXPECT_EQ(memory_node_of(6, folder.path()), 12);
  EXPECT_EQ(memory_node_of(8, folder.path()), -1);
}

TEST(CpuTopologyTest, MemoryThatPrefersANodeStaysUsable) {
  std::vector<std::byte> memory(1 << 20, std::byte(7));
  prefer_memory_node(memory, 0);  // a container may refuse it
  EXPECT_FALSE(prefer_memory_node(memory, -1));
  EXPECT_FALSE(prefer_memory_node(memory, 64));
  EXPECT_EQ(std::count(memory.begin(), memory.end(), std::byte(7)), 1 << 20);
}

TEST(CpuTopologyTest, SomethingIsUsable) { EXPECT_FALSE(usable_cores().empty()); }

}  // namespace
}  // namespace tr

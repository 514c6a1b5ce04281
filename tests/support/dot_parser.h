// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tr::test {

/// What a directed graph in graphviz's language says.
struct DotGraph {
  std::map<std::string, std::string> nodes;  // label by id, escapes undone
  std::vector<std::pair<std::string, std::string>> edges;
  std::vector<std::string> clusters;  // labels of subgraphs
};

/// Reads `digraph ID { stmt; ... }` by the grammar of graphviz's manual: node, edge, attribute and
/// subgraph statements, assignments, quoted and bare ids. @throws std::invalid_argument  elsewhere.
DotGraph parse_dot(std::string_view text);

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

// A model lowered for a device that offers every fused form, for the tests of passes.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "graph/compiler.h"
#include "graph/passes/pass.h"
#include "graph_fixture.h"

namespace tr::test {

/// Takes every op and offers every fused form but those it is told not to. Like the registry's
/// oracle it asks the op's shape rule: a pass must not offer what the rule refuses.
class FusingOracle final : public KernelOracle {
 public:
  explicit FusingOracle(std::set<std::string> without = {}) : without_(std::move(without)) {}
  KernelChoice choose(const std::string&, const Attrs&, std::span<const TensorType>,
                      std::span<const TensorType>) const override {
    return {"fake", 0};
  }
  bool knows(const std::string&) const override { return true; }
  bool fuses(const std::string& op, const Attrs& attrs,
             std::span<const TensorType> in) const override {
    const OpDef& def = OpRegistry::instance().get(op);
    def.infer(complete_attrs(def, attrs), in);
    return !without_.contains(op);
  }
  DeviceKind device() const override { return DeviceKind::CUDA; }

 private:
  std::set<std::string> without_;
};

/// The request's only variant; `change` may alter its logical graph before it is lowered. lower()
/// verifies after every pass.
inline LoweredGraph lowered(const CompileRequest& request,
                            const std::function<void(ComputationGraph&)>& change = {},
                            const KernelOracle& oracle = FusingOracle()) {
  const ArchPlan plan = expand(request.model, request.sample_fields);
  const GraphSources sources{plan, request.sample_fields, request.loss, request.optimizer,
                             request.graph};
  const VariantKey& key = request.variants[0];
  ComputationGraph graph = build_computation_graph(sources, kind_of(key));
  if (change) change(graph);
  return lower(graph, derive_shapes(graph, key), oracle);
}

inline const LoweredNode& only(const LoweredGraph& graph, const std::string& op) {
  EXPECT_EQ(count_op(graph, op), 1) << op << "\n" << graph.text();
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const LoweredNode& node) { return node.op == op; });
}

inline Node& only(ComputationGraph& graph, const std::string& op) {
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(),
                                  [&](const Node& node) { return node.op == op; });
  EXPECT_NE(found, graph.nodes.end()) << op;
  return *found;
}

inline std::vector<std::string> names_of(const LoweredGraph& graph,
                                         const std::vector<TensorId>& ids) {
  std::vector<std::string> names;
  for (const TensorId id : ids) names.push_back(id == kNoTensor ? "" : graph.tensor(id).name);
  return names;
}

}  // namespace tr::test

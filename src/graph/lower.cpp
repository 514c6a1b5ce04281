// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/check.h"
#include "core/format.h"
#include "graph/compiler.h"
#include "graph/passes/pass.h"

namespace tr {
namespace {

/// The logical graph with the variant's types: what the passes rewrite.
LoweredGraph with_types(const ComputationGraph& graph, const std::vector<TensorType>& types) {
  LoweredGraph out;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const LogicalTensor& from = graph.tensors[i];
    LoweredTensor tensor;
    tensor.name = from.name;
    tensor.role = from.role;
    tensor.type = types[i];
    tensor.bytes = bytes_of(types[i]);
    tensor.logical = TensorId(i);
    tensor.param = from.param;
    tensor.range_role = from.range_role;
    tensor.bucket = from.bucket;
    out.tensors.push_back(std::move(tensor));
  }
  for (const Node& from : graph.nodes) {
    LoweredNode node;
    node.op = from.op;
    node.attrs = from.attrs;
    node.inputs = from.inputs;
    node.outputs = from.outputs;
    node.label = from.label;
    node.layer = from.layer;
    node.where = from.where;
    for (const int state : OpRegistry::instance().get(from.op).state_writes) {
      const bool present =
          std::size_t(state) < node.inputs.size() && node.inputs[std::size_t(state)] >= 0;
      if (present) node.state_writes.push_back(state);
    }
    node.stream = int(StreamKind::COMP_1);
    out.nodes.push_back(std::move(node));
  }
  return out;
}

/// Inputs that give only a type have done so: nothing reads their bytes.
void drop_type_only_inputs(LoweredGraph& graph) {
  for (LoweredNode& node : graph.nodes) {
    const int from = OpRegistry::instance().get(node.op).type_only_from;
    if (from < 0) continue;
    for (std::size_t i = std::size_t(from); i < node.inputs.size(); ++i) node.inputs[i] = kNoTensor;
  }
}

/// Nodes whose outputs are all views vanish; their outputs become aliases of the owner of the bytes.
void resolve_views(LoweredGraph& graph) {
  std::vector<bool> gone(graph.nodes.size(), false);
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const LoweredNode& node = graph.nodes[n];
    const OpDef& def = OpRegistry::instance().get(node.op);
    if (def.views.empty() || def.views.size() != node.outputs.size()) continue;
    for (const auto& [out, in] : def.views) {
      const TensorId source = node.inputs[std::size_t(in)];
      LoweredTensor& view = graph.tensors[std::size_t(node.outputs[std::size_t(out)])];
      const LoweredTensor& owner = graph.tensor(source);
      TR_ASSERT(view.bytes == owner.bytes);
      view.view_of = owner.view_of == kNoTensor ? source : owner.view_of;
      view.view_offset = owner.view_offset;
      view.role = owner.role;
    }
    gone[n] = true;
  }
  remove_nodes(graph, gone);
}

/// Tensors that no node touches go, except persistent ones (they keep their place in every variant).
void drop_unused_tensors(LoweredGraph& graph) {
  std::vector<bool> used(graph.tensors.size(), false);
  for (const LoweredNode& node : graph.nodes) {
    for (const TensorId id : node.inputs) {
      if (id != kNoTensor) used[std::size_t(id)] = true;
    }
    for (const TensorId id : node.outputs) used[std::size_t(id)] = true;
  }
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const TensorId owner = graph.tensors[i].view_of;
    if (used[i] && owner != kNoTensor) used[std::size_t(owner)] = true;
    if (is_persistent(graph.tensors[i].role) && owner == kNoTensor) used[i] = true;
  }
  std::vector<TensorId> renumbered(graph.tensors.size(), kNoTensor);
  std::vector<LoweredTensor> kept;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    if (!used[i]) continue;
    renumbered[i] = TensorId(kept.size());
    kept.push_back(std::move(graph.tensors[i]));
  }
  const auto renumber = [&](TensorId& id) {
    if (id != kNoTensor) id = renumbered[std::size_t(id)];
  };
  for (LoweredTensor& tensor : kept) renumber(tensor.view_of);
  for (LoweredNode& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), renumber);
    std::for_each(node.outputs.begin(), node.outputs.end(), renumber);
  }
  graph.tensors = std::move(kept);
}

void set_in_place(const LoweredGraph& graph, LoweredNode& node) {
  for (const auto& [out, in] : OpRegistry::instance().get(node.op).in_place) {
    if (std::size_t(out) >= node.outputs.size() || std::size_t(in) >= node.inputs.size()) continue;
    const TensorId source = node.inputs[std::size_t(in)];
    const TensorId target = node.outputs[std::size_t(out)];
    if (source == kNoTensor) continue;
    const bool transient =
        !is_persistent(graph.tensor(source).role) && !is_persistent(graph.tensor(target).role);
    if (transient && graph.tensor(source).bytes == graph.tensor(target).bytes) {
      node.in_place.emplace_back(out, in);
    }
  }
}

void choose_kernels(LoweredGraph& graph, const KernelOracle& oracle) {
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    LoweredNode& node = graph.nodes[n];
    KernelChoice choice;
    try {
      choice = oracle.choose(node.op, node.attrs, types_of(graph, node.inputs),
                             types_of(graph, node.outputs));
    } catch (const Unsupported& error) {
      throw_as<Unsupported>("{}\n  in layer \"{}\" ({}){}", error.what(), node.layer, node.op,
                            node.where.empty() ? "" : ", built at " + node.where.str());
    }
    node.kernel = choice.kernel;
    set_in_place(graph, node);
    if (choice.workspace_bytes == 0) continue;
    LoweredTensor workspace;
    workspace.name = fmt::format("workspace({}:{}.{})", n, node.layer, node.op);
    workspace.role = Role::WORKSPACE;
    workspace.type = {Shape{choice.workspace_bytes}, DType::UINT8};
    workspace.bytes = choice.workspace_bytes;
    node.workspace = TensorId(graph.tensors.size());
    graph.tensors.push_back(std::move(workspace));
  }
}

}  // namespace

LoweredGraph lower(const ComputationGraph& graph, const std::vector<TensorType>& types,
                   const KernelOracle& oracle) {
  LoweredGraph out = with_types(graph, types);
  for (const NamedPass& pass : all_passes()) {
    pass.run(out, oracle);
    derive_dependencies(out);
    verify(out, pass.name);
  }
  resolve_views(out);
  drop_type_only_inputs(out);
  drop_unused_tensors(out);
  choose_kernels(out, oracle);
  derive_dependencies(out);
  verify(out, "lower");
  return out;
}

}  // namespace tr

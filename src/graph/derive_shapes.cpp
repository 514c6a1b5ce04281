// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "graph/compiler.h"

namespace tr {
namespace {

std::string at_node(const Node& node) {
  return fmt::format("\n  in layer \"{}\" ({}){}", node.layer, node.op,
                     node.where.empty() ? "" : ", built at " + node.where.str());
}

TensorType input_type(const LogicalTensor& tensor, const VariantKey& key) {
  const auto it = key.fields.find(tensor.name);
  if (it == key.fields.end()) {
    throw_as<InvalidArgument>("variant {}: the field '{}' is missing", key.name, tensor.name);
  }
  return it->second;
}

/// What all tensors take together stays countable, whatever is summed of it later.
void check_sum(const std::vector<TensorType>& types, const VariantKey& key) {
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;
  std::int64_t sum = 0;
  for (const TensorType& type : types) sum = saturated_sum(sum, bytes_of(type));
  if (sum <= kMostBytes) return;
  throw_as<OutOfMemory>("variant {}: its tensors have more than 2^60 bytes together", key.name);
}

}  // namespace

std::vector<TensorType> derive_shapes(const ComputationGraph& graph, const VariantKey& key) {
  std::vector<TensorType> types(graph.tensors.size());
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const LogicalTensor& tensor = graph.tensors[i];
    if (tensor.role == Role::INPUT) types[i] = input_type(tensor, key);
    if (tensor.type) types[i] = *tensor.type;
  }
  for (const Node& node : graph.nodes) {
    std::vector<TensorType> in;
    for (const TensorId id : node.inputs)
      in.push_back(id == kNoTensor ? TensorType{} : types[std::size_t(id)]);
    std::vector<TensorType> out;
    try {
      out = OpRegistry::instance().get(node.op).infer(node.attrs, in);
    } catch (const InvalidArgument& error) {
      throw_as<InvalidArgument>("{}{}", error.what(), at_node(node));
    }
    if (node.outputs.size() > out.size()) {
      throw_as<InternalError>("shape rule gives {} outputs, the node has {}{}", out.size(),
                              node.outputs.size(), at_node(node));
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const std::size_t id = std::size_t(node.outputs[i]);
      if (!graph.tensors[id].type) {
        types[id] = out[i];
      } else if (types[id].shape.num_elements() != out[i].shape.num_elements() ||
                 types[id].dtype != out[i].dtype) {
        throw_as<InternalError>("{} is {}, the shape rule gives {}{}", graph.tensors[id].name,
                                types[id], out[i], at_node(node));
      }
    }
  }
  check_sum(types, key);
  return types;
}

}  // namespace tr

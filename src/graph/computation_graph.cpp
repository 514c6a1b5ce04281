// SPDX-License-Identifier: Apache-2.0
#include "graph/computation_graph.h"

#include "core/check.h"
#include "core/format.h"
#include "graph/num_inputs.h"

namespace tr {
namespace {

constexpr std::string_view kRoleNames[kNumRoles] = {
    "input",      "weight",  "weight_cast", "buffer",  "buffer_next",  "gradient",
    "grad_accum", "moment1", "moment2",     "moment3", "ema",          "optimizer_state",
    "scalar",     "table",   "result",      "feature", "feature_grad", "workspace"};

constexpr std::string_view kGraphIdNames[kNumGraphIds] = {
    "transfer", "forward",   "loss",       "backward", "accumulate", "comm",
    "check",    "optimizer", "ema_update", "cast",     "metrics",    "counters"};

bool is_variadic(const OpDef& def) {
  return !def.inputs.empty() && def.inputs.back().ends_with("...");
}

int min_inputs(const OpDef& def) {
  return int(def.inputs.size()) - def.num_optional_inputs - (is_variadic(def) ? 1 : 0);
}

int max_inputs(const OpDef& def) {
  return is_variadic(def) ? 1 << 16 : int(def.inputs.size()) + (def.needs_draws ? 2 : 0);
}

std::string ids(const ComputationGraph& graph, const std::vector<TensorId>& list) {
  std::string out;
  for (const TensorId id : list) {
    if (!out.empty()) out += ", ";
    out += id == kNoTensor ? "-" : graph.tensor(id).name;
  }
  return out;
}

}  // namespace

void check_num_inputs(const OpDef& def, std::size_t count) {
  const int least = min_inputs(def), most = max_inputs(def);
  const std::string range = is_variadic(def) ? " or more"
                            : most == least  ? ""
                                             : fmt::format(" to {}", most);
  TR_CHECK(int(count) >= least && int(count) <= most, "{}: {} inputs, expected {}{}", def.name,
           count, least, range);
}

std::string_view name_of(Role role) { return kRoleNames[std::size_t(role)]; }
std::string_view name_of(GraphId id) { return kGraphIdNames[std::size_t(id)]; }

TensorId ComputationGraph::find(std::string_view name) const {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == name) return TensorId(i);
  }
  return kNoTensor;
}

std::string ComputationGraph::text() const {
  std::string out;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    out += fmt::format("{:>4} {:<11} {:<24} ({}) -> ({})\n", i, name_of(node.label), node.op,
                       ids(*this, node.inputs), ids(*this, node.outputs));
  }
  return out;
}

GraphBuilder::GraphBuilder(ComputationGraph& graph) : graph_(graph) {
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    by_name_[graph.tensors[i].name] = TensorId(i);
}

void GraphBuilder::at(GraphId label, std::string layer, Where where) {
  label_ = label;
  layer_ = std::move(layer);
  where_ = std::move(where);
}

std::string GraphBuilder::unique(const std::string& name) {
  std::string candidate = name;
  for (int n = 2; by_name_.contains(candidate); ++n) candidate = fmt::format("{}#{}", name, n);
  return candidate;
}

std::vector<TensorId> GraphBuilder::add_op(const std::string& op, std::vector<TensorId> inputs,
                                           Attrs attrs) {
  const OpDef& def = OpRegistry::instance().get(op);
  check_num_inputs(def, inputs.size());
  Node node{op, complete_attrs(def, attrs), std::move(inputs), {}, label_, layer_, where_};
  const int num_outputs = def.num_outputs ? def.num_outputs(node.attrs) : int(def.outputs.size());
  const Role role = label_ == GraphId::BACKWARD ? Role::FEATURE_GRAD : Role::FEATURE;
  for (int i = 0; i < num_outputs; ++i) {
    const std::string prefix = label_ == GraphId::FORWARD ? layer_
                               : layer_.empty()           ? op
                                                          : layer_ + "." + op;
    const std::string& part = def.outputs[std::min(std::size_t(i), def.outputs.size() - 1)];
    const std::string name = unique(prefix.empty() ? part : prefix + "." + part);
    const TensorId id = TensorId(graph_.tensors.size());
    by_name_[name] = id;
    graph_.tensors.push_back({name, role, std::nullopt, -1, -1, -1});
    node.outputs.push_back(id);
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

TensorId GraphBuilder::add(const std::string& op, std::vector<TensorId> inputs, Attrs attrs) {
  const std::vector<TensorId> outputs = add_op(op, std::move(inputs), std::move(attrs));
  TR_ASSERT(outputs.size() == 1);
  return outputs.front();
}

void GraphBuilder::add_into(const std::string& op, std::vector<TensorId> inputs,
                            std::vector<TensorId> outputs, Attrs attrs) {
  const OpDef& def = OpRegistry::instance().get(op);
  check_num_inputs(def, inputs.size());
  for (const TensorId id : outputs) TR_ASSERT(is_persistent(graph_.tensor(id).role));
  graph_.nodes.push_back({op, complete_attrs(def, attrs), std::move(inputs), std::move(outputs),
                          label_, layer_, where_});
}

TensorId GraphBuilder::persistent(const std::string& name, Role role, const TensorType& type,
                                  int param) {
  TR_ASSERT(is_persistent(role));
  if (const auto it = by_name_.find(name); it != by_name_.end()) {
    TR_ASSERT(graph_.tensor(it->second).role == role);
    return it->second;
  }
  const TensorId id = TensorId(graph_.tensors.size());
  by_name_[name] = id;
  graph_.tensors.push_back({name, role, type, param, -1, -1});
  return id;
}

TensorId GraphBuilder::field(const std::string& name) {
  if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
  const TensorId id = TensorId(graph_.tensors.size());
  by_name_[name] = id;
  graph_.tensors.push_back({name, Role::INPUT, std::nullopt, -1, -1, -1});
  return id;
}

TensorId GraphBuilder::range(Role role, int bucket) {
  TR_ASSERT(is_persistent(role));
  const std::string name = bucket < 0 ? fmt::format("range({})", name_of(role))
                                      : fmt::format("range({}, {})", name_of(role), bucket);
  if (const auto it = by_name_.find(name); it != by_name_.end()) return it->second;
  const TensorId id = TensorId(graph_.tensors.size());
  by_name_[name] = id;
  graph_.tensors.push_back({name, role, std::nullopt, -1, int(role), bucket});
  return id;
}

void GraphBuilder::rename(TensorId id, const std::string& name) {
  LogicalTensor& tensor = graph_.tensors.at(std::size_t(id));
  by_name_.erase(tensor.name);
  tensor.name = unique(name);
  by_name_[tensor.name] = id;
}

namespace {

[[noreturn]] void broken(std::string_view pass, std::size_t index, const Node& node,
                         const std::string& what) {
  throw_as<InternalError>("after {}: node {} \"{}\" ({}) {}", pass, index, node.layer, node.op,
                          what);
}

void verify_node(const ComputationGraph& graph, std::size_t index, std::vector<bool>& written,
                 std::string_view pass) {
  const Node& node = graph.nodes[index];
  const OpDef* def = OpRegistry::instance().find(node.op);
  if (def == nullptr) broken(pass, index, node, "is of an op that is not registered");
  for (const AttrSpec& spec : def->attrs) {
    if (!node.attrs.contains(spec.name)) broken(pass, index, node, "lacks attribute " + spec.name);
  }
  for (const TensorId id : node.inputs) {
    if (id == kNoTensor) continue;
    if (id < 0 || std::size_t(id) >= graph.tensors.size())
      broken(pass, index, node, "reads no tensor");
    if (!is_persistent(graph.tensor(id).role) && !written[std::size_t(id)]) {
      broken(pass, index, node, "reads " + graph.tensor(id).name + " before it is written");
    }
  }
  for (const TensorId id : node.outputs) {
    if (id < 0 || std::size_t(id) >= graph.tensors.size())
      broken(pass, index, node, "writes no tensor");
    if (!is_persistent(graph.tensor(id).role) && written[std::size_t(id)]) {
      broken(pass, index, node, "writes " + graph.tensor(id).name + " a second time");
    }
    written[std::size_t(id)] = true;
  }
  for (const int state : def->state_writes) {
    if (std::size_t(state) >= node.inputs.size() || node.inputs[std::size_t(state)] == kNoTensor)
      continue;
    if (!is_persistent(graph.tensor(node.inputs[std::size_t(state)]).role)) {
      broken(pass, index, node, "updates a tensor that is not persistent");
    }
  }
}

}  // namespace

void verify(const ComputationGraph& graph, std::string_view after_pass) {
  std::vector<bool> written(graph.tensors.size(), false);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) verify_node(graph, i, written, after_pass);
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/op_def.h"
#include "renaissance/core/types.h"

namespace tr {

/// What a tensor is for. Everything before FEATURE is persistent: one place in every variant.
enum class Role : std::uint8_t {
  INPUT,        // fields of a batch
  WEIGHT,       // fp32 master parameters
  WEIGHT_CAST,  // their 16-bit copies under amp
  BUFFER,       // batch-norm statistics
  BUFFER_NEXT,  // what a step writes; committed to BUFFER with the update
  GRADIENT,
  GRAD_ACCUM,  // sums over micro-batches
  MOMENT1,
  MOMENT2,
  MOMENT3,
  EMA,
  OPTIMIZER_STATE,  // what an optimizer keeps beside moments
  SCALAR,           // counters, loss scale, finite flag
  TABLE,            // step table, segment table
  RESULT,           // what the host reads back
  FEATURE,          // activations and what is saved for backward
  FEATURE_GRAD,
  WORKSPACE
};
constexpr int kNumRoles = 18;
constexpr bool is_persistent(Role role) { return role < Role::FEATURE; }
std::string_view name_of(Role role);

/// Label of a node: the sub-graph that it belongs to. Only sub-graph launches and printing read it.
enum class GraphId : std::uint8_t {
  TRANSFER,
  FORWARD,
  LOSS,
  BACKWARD,
  ACCUMULATE,
  COMM,
  CHECK,
  OPTIMIZER,
  EMA_UPDATE,
  CAST,
  METRICS,
  COUNTERS
};
constexpr int kNumGraphIds = 12;
std::string_view name_of(GraphId id);

/// A tensor of a logical graph. Only persistent tensors have a type here; the others get one per
/// variant.
struct LogicalTensor {
  std::string name;  // "2.weight", "2.y", "d(2.y)"
  Role role = Role::FEATURE;
  std::optional<TensorType> type;
  int param = -1;       // index into the ArchPlan's parameters, for every role of a parameter
  int range_role = -1;  // >= 0: stands for the whole range of that Role (see range())
  int bucket = -1;      // with range_role: one bucket of it; -1: all of it
};

struct Node {
  std::string op;
  Attrs attrs;
  std::vector<TensorId> inputs;  // kNoTensor for a missing optional one
  std::vector<TensorId> outputs;
  GraphId label = GraphId::FORWARD;
  std::string layer;  // "features.3": what an error names
  Where where;
};

/// Logical graph: nodes in an order that respects all dependencies; no shapes, shared by all
/// variants.
struct ComputationGraph {
  std::vector<LogicalTensor> tensors;
  std::vector<Node> nodes;

  const LogicalTensor& tensor(TensorId id) const { return tensors.at(std::size_t(id)); }
  /// Id of the tensor of that name, kNoTensor if there is none.
  TensorId find(std::string_view name) const;
  std::string text() const;
};

/// Appends nodes and tensors to a graph. Gradient rules get one.
class GraphBuilder {
 public:
  explicit GraphBuilder(ComputationGraph& graph);

  /// Appends a node of `op` and makes its outputs (FEATURE, or FEATURE_GRAD under the BACKWARD
  /// label). Layer, label and place are those set by at(). @throws InvalidArgument  unknown op or
  /// attribute, wrong number of inputs.
  std::vector<TensorId> add_op(const std::string& op, std::vector<TensorId> inputs,
                               Attrs attrs = {});
  /// add_op for an op with one output.
  TensorId add(const std::string& op, std::vector<TensorId> inputs, Attrs attrs = {});
  /// Appends a node that writes the given (persistent) tensors.
  void add_into(const std::string& op, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                Attrs attrs = {});

  /// The persistent tensor of that name, made at the first call.
  TensorId persistent(const std::string& name, Role role, const TensorType& type, int param = -1);
  /// The INPUT tensor of a batch's field; its type comes with the variant.
  TensorId field(const std::string& name);
  /// The tensor that stands for all bytes of a role (weights, gradients ...): what whole-range ops
  /// take.
  TensorId range(Role role, int bucket = -1);

  void at(GraphId label, std::string layer, Where where = {});
  void rename(TensorId id, const std::string& name);
  GraphId label() const { return label_; }
  ComputationGraph& graph() { return graph_; }
  const Node& node(std::size_t index) const { return graph_.nodes.at(index); }

 private:
  std::string unique(const std::string& name);

  ComputationGraph& graph_;
  GraphId label_ = GraphId::FORWARD;
  std::string layer_;
  Where where_;
  std::map<std::string, TensorId, std::less<>> by_name_;
};

/// Appends the backward pass: `seeds` maps tensors to their given gradients. Gradients that reach
/// one tensor on several ways are summed by `add` nodes in a fixed order; nothing is made for
/// tensors that no `wanted` one depends on. Returns the gradient of each wanted tensor, kNoTensor
/// where none reaches it.
/// @throws Unsupported  an op on the way has no gradient rule (names layer and place).
std::vector<TensorId> append_backward(GraphBuilder& builder,
                                      std::span<const std::pair<TensorId, TensorId>> seeds,
                                      std::span<const TensorId> wanted);

/// Checks that ids exist, that every read tensor is written before (or persistent), that transient
/// tensors are written once, that ops and attributes fit their definitions.
/// @throws InternalError  naming the pass that ran last and the offending node.
void verify(const ComputationGraph& graph, std::string_view after_pass);

}  // namespace tr

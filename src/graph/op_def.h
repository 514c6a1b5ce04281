// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/core/shape.h"
#include "renaissance/core/types.h"
#include "renaissance/graph/attrs.h"

namespace tr {

using TensorId = std::int32_t;
constexpr TensorId kNoTensor = -1;

struct Node;
class GraphBuilder;

/// Work of one node: floating-point operations (a multiply-add is two) and bytes read plus written.
struct Cost {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

/// How a parameter is stored in files: memory viewed as `view`, axes reordered by `order`, shape
/// `shape`. Empty: as in memory.
struct FileLayout {
  std::vector<std::int64_t> view;
  std::vector<int> order;
  std::vector<std::int64_t> shape;

  bool empty() const { return view.empty(); }
};

enum class ParamKind : std::uint8_t { WEIGHT, BIAS, NORM_WEIGHT, NORM_BIAS, BUFFER };

/// A parameter or buffer that a layer creates where it is placed.
struct ParamSpec {
  std::string name;  // last part: "weight", "bias", "running_mean"
  TensorType type;
  ParamKind kind = ParamKind::WEIGHT;
  std::int64_t fan_in = 0;  // of initialisation; 0 where it has none
  std::int64_t fan_out = 0;
  double fill = 0;          // BUFFER, BIAS, NORM_*: the initial value
  bool branch_end = false;  // NORM_WEIGHT before a residual sum: zero_gamma begins it at 0
  FileLayout file;
};

/// Facts that a layer's parameter specs may need beside the types of its inputs.
struct LayerContext {
  std::span<const TensorType> inputs;
  /// [H, W, C] if inputs[0] came through flatten from an image, else empty: decides FileLayout.
  std::vector<std::int64_t> flattened_from;
};

/// In which precision an op computes under amp.
enum class Precision : std::uint8_t {
  LOW,     // floating inputs are cast to the low dtype (products, convolutions)
  FOLLOW,  // takes its inputs as they come (elementwise, pooling, views)
  HIGH  // floating inputs of feature maps are read as they come, outputs are fp32 (losses, norms'
        // statistics)
};

struct AttrSpec {
  std::string name;
  AttrValue default_value;  // also fixes the type
  bool required = false;
  std::string doc;
};

/// Definition of an op, device-free. dtype, direction and device are not part of its name; its
/// backward ops are ops of their own in the same file. Optional members may be empty functions.
struct OpDef {
  std::string name;
  std::vector<std::string> inputs;  // a last name ending in "..." takes any number
  std::vector<std::string> outputs;
  std::vector<AttrSpec> attrs;
  int num_optional_inputs = 0;  // trailing inputs that may be missing

  /// Types of the outputs. @throws InvalidArgument  with the words of STYLE §3; the caller adds
  /// node and place.
  std::function<std::vector<TensorType>(const Attrs&, std::span<const TensorType>)> infer;

  /// Adds the backward ops to the graph; returns one gradient per input, kNoTensor where there is
  /// none. `dout[i]` is kNoTensor where output i has no gradient. Empty: not differentiable.
  std::function<std::vector<TensorId>(GraphBuilder&, const Node&, std::span<const TensorId> dout)>
      gradient;

  std::function<Cost(const Attrs&, std::span<const TensorType> in, std::span<const TensorType> out)>
      cost;

  /// Parameters that follow the data inputs when the op is placed as a layer. Empty: none.
  std::function<std::vector<ParamSpec>(const Attrs&, const LayerContext&)> parameters;

  std::vector<std::pair<int, int>>
      in_place;  // (output, input): may share bytes if the input dies there
  std::vector<std::pair<int, int>> views;  // (output, input): is the input's bytes; needs no kernel
  std::vector<int> state_writes;  // inputs that the node also writes (persistent tensors only)

  Precision precision = Precision::FOLLOW;
  /// Number of outputs where it depends on the attributes. Empty: all of `outputs`.
  std::function<int(const Attrs&)> num_outputs;
  /// Inputs from this index on give only their type (a shape to aim at): the node does not read
  /// them and they need not live until then. Lowering drops them. -1: none.
  int type_only_from = -1;
  /// The graph appends two inputs after the data inputs: counters and step_ints (addressed draws).
  bool needs_draws = false;
  bool implied_flatten = false;  // as a layer on an image [N, H, W, C]: flatten comes first (fc)
  bool flattens = false;         // the op is flatten: the FileLayout of what follows depends on it
  bool elementwise = false;    // keeps the meaning of the last axis (flattened_from passes through)
  bool fused = false;          // only lowering makes it, where a device has a kernel of it
  bool eval_identity = false;  // vanishes outside training (dropout)
  std::string
      eval_op;  // takes its place outside training, with the same inputs and attributes (bn)
  std::vector<std::pair<int, int>>
      next_buffers;  // (output, input): output is the next value of that BUFFER
  /// An optimizer that keeps more than moments: elements of the fp32 tensor that it reads and
  /// writes as the input before weight_cast. It begins at 0.
  std::function<std::int64_t(const Attrs&)> own_state;
  std::string doc;  // one sentence, formula, the PyTorch function it equals
};

/// Registers at start-up: `const OpRegistration kRelu{{.name = "relu", ...}};`
struct OpRegistration {
  explicit OpRegistration(OpDef def);
};

/// All op definitions. Filled before main and by users; sealed while a compile runs.
class OpRegistry {
 public:
  static OpRegistry& instance();
  /// @throws InvalidArgument  the name is taken, or the definition lacks a name, infer or outputs.
  void add(OpDef def);
  /// @throws InvalidArgument  unknown (names the nearest).
  const OpDef& get(std::string_view name) const;
  const OpDef* find(std::string_view name) const;
  std::vector<std::string> names() const;

  /// While one is alive, add() throws.
  class Seal {
   public:
    Seal();
    ~Seal();
    Seal(const Seal&) = delete;
    Seal& operator=(const Seal&) = delete;
  };

 private:
  struct Impl;
  OpRegistry();
  ~OpRegistry();
  Impl* impl_;
};

/// Checks names and types against the definition and adds defaults.
/// @throws InvalidArgument  an unknown or missing attribute (names the nearest), or a wrong type.
Attrs complete_attrs(const OpDef& def, const Attrs& given);

}  // namespace tr

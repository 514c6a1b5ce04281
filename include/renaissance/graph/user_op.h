// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"
#include "renaissance/graph/attrs.h"

namespace tr {

// An op of a user's own, outside the library. It is used like a built-in one: layer("name", {...})
// in a model, run_op() and grad_op() in tests. docs/your-own-op.md shows one from end to end.

/// A tensor of the graph that is being built, as a gradient rule sees it.
struct GraphTensor {
  std::int32_t id = -1;
  /// There is none: an optional input that was left out, an output that no gradient reaches.
  bool empty() const { return id < 0; }
};

/// One application of an op whose gradient is wanted, and where its backward ops go.
class TR_API GradientScope {
 public:
  struct State;  // internal
  explicit GradientScope(State& state) : state_(state) {}

  const Attrs& attrs() const;
  /// Inputs as the op lists them, parameters included. @throws InvalidArgument  there is no such.
  GraphTensor input(int index) const;
  GraphTensor output(int index = 0) const;
  /// The gradient of output `index`.
  GraphTensor dout(int index = 0) const;
  /// Adds an op with one output to the backward pass.
  /// @throws InvalidArgument  an unknown op or attribute, another number of inputs or outputs.
  GraphTensor add(const std::string& op, const std::vector<GraphTensor>& inputs, Attrs attrs = {});
  /// The same for an op with any number of outputs.
  std::vector<GraphTensor> add_all(const std::string& op, const std::vector<GraphTensor>& inputs,
                                   Attrs attrs = {});

 private:
  State& state_;
};

struct UserAttr {
  std::string name;
  AttrValue default_value;  // also fixes the type
  std::string doc;
};

/// A parameter that a layer of the op creates. Stored as the op sees it, in files too.
struct UserParam {
  std::string name;  // last part of its name: "weight"
  TensorType type;   // fp32
  enum class Kind { WEIGHT, BIAS } kind = Kind::WEIGHT;
  std::int64_t fan_in = 0, fan_out = 0;  // WEIGHT: of the Initializer's kind for fc
  double fill = 0;                       // BIAS: every element's first value; no weight decay
};

/// Floating-point operations (a multiply-add is two) and bytes read plus written.
struct OpWork {
  std::int64_t flops = 0;
  std::int64_t bytes = 0;
};

/// Definition of an op: what it is called, what it takes and gives; no device, no dtype in its
/// name.
struct UserOp {
  using Types = std::span<const TensorType>;

  std::string name = {};
  std::vector<std::string> inputs = {};  // data first, then the parameters
  std::vector<std::string> outputs = {};
  std::vector<UserAttr> attrs = {};
  int num_optional_inputs = 0;  // trailing inputs that may be missing

  /// Types of the outputs. A wrong input is refused here, by throwing InvalidArgument; the caller
  /// adds layer and place. A missing optional input has type FP32 [].
  std::function<std::vector<TensorType>(const Attrs&, Types in)> infer = {};
  /// Adds the backward ops; gives one gradient an input, an empty one where there is none. Ops of
  /// its own are registered like this one. Empty: not differentiable.
  std::function<std::vector<GraphTensor>(GradientScope&)> gradient = {};
  /// Empty: one operation an element of the first output, everything read and written once.
  std::function<OpWork(const Attrs&, Types in, Types out)> work = {};
  /// Parameters of a layer, from its attributes and data inputs. Empty: none.
  std::function<std::vector<UserParam>(const Attrs&, Types in)> parameters = {};

  std::vector<std::pair<int, int>> in_place =
      {};  // (output, input) that may share bytes where the input is needed no more
  bool fp32_output = false;  // outputs are fp32 under amp too (losses); else as infer says
  std::string doc = {};
};

/// Makes the op known. Before the first compile() that uses it, from one thread.
/// @throws InvalidArgument  the name is taken, or name, outputs or infer is missing.
TR_API void register_op(UserOp op);

}  // namespace tr

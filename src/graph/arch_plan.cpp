// SPDX-License-Identifier: Apache-2.0
#include "graph/arch_plan.h"

#include <algorithm>
#include <set>
#include <unordered_map>

#include "core/check.h"
#include "core/format.h"
#include "core/nearest_name.h"
#include "core/saturate.h"
#include "graph/blueprint_node.h"
#include "graph/num_inputs.h"

namespace tr {
namespace {

std::string join(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// What is known of a value beside its type.
struct ValueInfo {
  TensorType type;
  std::vector<std::int64_t> flattened_from;  // [H, W, C] of the image that was flattened, or empty
};

/// Parameters of one shared() instance, in the order in which its leaves are placed.
struct SharedScope {
  std::vector<int> params;
  std::size_t cursor = 0;
  int places = 0;
  std::set<std::string> paths;
  bool recording = true;
};

/// The user's line of the first layer inside `part`, for nodes that sugar adds.
Where first_place(const BluePrint& part) {
  const BluePrintNode& node = *part.node();
  if (node.kind == BluePrintNode::Kind::LEAF) return node.where;
  if (!node.children.empty()) return first_place(node.children.front());
  for (const Value& value : node.outputs) {
    if (value.node()->application) return first_place(value.node()->application->producer);
  }
  return {};
}

class Expander {
 public:
  Expander(const BluePrint& model, const std::map<std::string, TensorType>& fields,
           const ExpandOptions& options)
      : batch_(options.batch) {
    TR_CHECK(model.node() != nullptr, "expand: the model is empty");
    std::vector<int> inputs;
    for (int i = 0; i < model.num_inputs(); ++i) inputs.push_back(add_input(model, i, fields));
    plan_.outputs = place(model, inputs, options.prefix);
    for (ArchLayer& layer : plan_.layers) {
      layer.cost.flops /= batch_;
      layer.cost.bytes /= batch_;
    }
  }

  ArchPlan take() { return std::move(plan_); }

 private:
  int add_input(const BluePrint& model, int index,
                const std::map<std::string, TensorType>& fields) {
    const bool is_dag = model.node()->kind == BluePrintNode::Kind::DAG;
    const std::string field =
        is_dag ? model.node()->inputs[std::size_t(index)].node()->field : "image";
    const auto it = fields.find(field);
    if (it == fields.end()) {
      std::vector<std::string> known;
      for (const auto& [name, type] : fields) known.push_back(name);
      throw_as<InvalidArgument>(
          "{}", unknown_name_message("model: input field of the data", field, known));
    }
    plan_.inputs.push_back({field, it->second});
    values_.push_back({{it->second.shape.prepend(batch_), it->second.dtype}, {}});
    return int(values_.size()) - 1;
  }

  std::vector<int> place(const BluePrint& part, const std::vector<int>& inputs,
                         const std::string& path) {
    const BluePrintNode& node = *part.node();
    switch (node.kind) {
      case BluePrintNode::Kind::LEAF: return {place_leaf(node, inputs, path)};
      case BluePrintNode::Kind::SEQ: return place_seq(node, inputs, path);
      case BluePrintNode::Kind::RESIDUAL: return place_residual(node, inputs, path);
      case BluePrintNode::Kind::SHARED: return place_shared(node, inputs, path);
      case BluePrintNode::Kind::DAG: return place_dag(node, inputs, path);
    }
    throw_as<InternalError>("BluePrint of unknown kind");
  }

  static std::string child_path(const BluePrint& child, std::size_t index,
                                const std::string& path) {
    const std::string& name = child.node()->name;
    return join(path, name.empty() ? std::to_string(index) : name);
  }

  std::vector<int> place_seq(const BluePrintNode& node, std::vector<int> values,
                             const std::string& path) {
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      values = place(node.children[i], values, child_path(node.children[i], i, path));
    }
    return values;
  }

  std::vector<int> place_residual(const BluePrintNode& node, const std::vector<int>& inputs,
                                  const std::string& path) {
    static const char* const kNames[] = {"body", "shortcut"};
    std::vector<int> branches;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      const std::string& own = node.children[i].node()->name;
      const std::string child = join(path, own.empty() ? kNames[i] : own);
      branches.push_back(place(node.children[i], inputs, child).front());
    }
    if (branches.size() == 1) branches.push_back(inputs.front());
    BluePrintNode add;
    add.op = "add";
    add.where = first_place(node.children.front());
    add.num_inputs = 2;
    add.attrs.set("keep_shape", true);  // a projection that was forgotten is no broadcast
    return {place_leaf(add, branches, join(path, "add"))};
  }

  std::vector<int> place_shared(const BluePrintNode& node, const std::vector<int>& inputs,
                                const std::string& path) {
    SharedScope& scope = shared_[node.identity.get()];
    SharedScope* const outer = std::exchange(scope_, &scope);
    scope.cursor = 0;
    ++scope.places;
    // A name of the user's may be the same at every place; layers need distinct ones.
    const bool again = !scope.paths.insert(path).second;
    const std::string here = again ? fmt::format("{}@{}", path, scope.places) : path;
    std::vector<int> out = place(node.children.front(), inputs, here);
    scope.recording = false;
    scope_ = outer;
    if (outer != nullptr && outer->recording) {
      outer->params.insert(outer->params.end(), scope.params.begin(), scope.params.end());
    } else if (outer != nullptr) {
      outer->cursor += scope.params.size();
    }
    return out;
  }

  using Application = ValueNode::Application;
  struct DagState {
    const std::string& path;
    std::unordered_map<const ValueNode*, int> inputs;
    std::unordered_map<const Application*, std::vector<int>> done;
    std::size_t count = 0;
  };

  std::vector<int> place_dag(const BluePrintNode& node, const std::vector<int>& inputs,
                             const std::string& path) {
    DagState state{path, {}, {}, 0};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      state.inputs[node.inputs[i].node().get()] = inputs[i];
    }
    for (const Value& value : node.order) value_of(value, state);
    std::vector<int> outputs;
    for (const Value& value : node.outputs) outputs.push_back(value_of(value, state));
    return outputs;
  }

  int value_of(const Value& value, DagState& state) {
    const auto known = [&](const ValueNode& node) {
      return state.inputs.contains(&node) || state.done.contains(node.application.get());
    };
    place_in_order(value, known,
                   [&](const Value& v) { place_application(*v.node()->application, state); });
    return find_value(*value.node(), state);
  }

  static int find_value(const ValueNode& node, const DagState& state) {
    const auto in = state.inputs.find(&node);
    if (in != state.inputs.end()) return in->second;
    return state.done.at(node.application.get())[std::size_t(node.output_index)];
  }
  void place_application(const Application& application, DagState& state) {
    std::vector<int> arguments;
    for (const Value& in : application.inputs()) arguments.push_back(find_value(*in.node(), state));
    const std::string path = child_path(application.producer, state.count++, state.path);
    state.done[&application] = place(application.producer, arguments, path);
  }

  int place_leaf(const BluePrintNode& node, std::vector<int> inputs, const std::string& path) {
    try {
      return place_op(node, std::move(inputs), path);
    } catch (const InvalidArgument& error) {
      const std::string place = node.where.empty() ? "" : ", built at " + node.where.str();
      throw_as<InvalidArgument>("{}\n  in layer \"{}\" ({}){}", error.what(), path, node.op, place);
    }
  }

  int place_op(const BluePrintNode& node, std::vector<int> inputs, const std::string& path) {
    const OpDef& def = OpRegistry::instance().get(node.op);
    const int rank = values_[std::size_t(inputs.front())].type.shape.rank();
    if (def.implied_flatten && rank == 4) {
      BluePrintNode flatten;
      flatten.op = "flatten";
      flatten.where = node.where;
      inputs.front() = place_op(flatten, {inputs.front()}, join(path, "flatten"));
    }
    TR_CHECK(layer_names_.insert(path).second || path.empty(), "two layers have the name '{}'",
             path);

    ArchLayer layer;
    layer.name = path;
    layer.op = node.op;
    layer.attrs = complete_attrs(def, node.attrs);
    layer.inputs = inputs;
    layer.where = node.where;
    std::vector<TensorType> types;
    for (const int value : inputs) types.push_back(values_[std::size_t(value)].type);
    add_params(def, path, types, layer);
    for (const int index : layer.params)
      types.push_back(plan_.params[std::size_t(index)].spec.type);
    check_num_inputs(def, types.size());

    layer.types = def.infer(layer.attrs, types);
    if (def.cost) layer.cost = def.cost(layer.attrs, types, layer.types);
    const int value = int(values_.size());
    layer.outputs = {value};
    values_.push_back(
        {layer.types.front(), flattened_from(def, inputs.front(), layer.types.front().shape)});
    layer.types.resize(1);
    plan_.layers.push_back(std::move(layer));
    return value;
  }

  std::vector<std::int64_t> flattened_from(const OpDef& def, int input, const Shape& y) const {
    const ValueInfo& in = values_[std::size_t(input)];
    if (def.flattens && in.type.shape.rank() == 4) {
      return {in.type.shape[1], in.type.shape[2], in.type.shape[3]};
    }
    const bool same_axes = def.elementwise || !def.views.empty();
    if (def.flattens || (same_axes && y == in.type.shape)) return in.flattened_from;
    return {};
  }

  void add_params(const OpDef& def, const std::string& path, const std::vector<TensorType>& types,
                  ArchLayer& layer) {
    if (!def.parameters) return;
    const ValueInfo& first = values_[std::size_t(layer.inputs.front())];
    for (ParamSpec& spec : def.parameters(layer.attrs, {types, first.flattened_from})) {
      layer.params.push_back(scope_ != nullptr && !scope_->recording
                                 ? shared_param(spec)
                                 : new_param(path, std::move(spec)));
      const Param& param = plan_.params[std::size_t(layer.params.back())];
      const bool first_use = param.layer == int(plan_.layers.size());
      if (first_use && param.spec.kind != ParamKind::BUFFER) {
        layer.num_params += param.spec.type.shape.num_elements();
      }
    }
  }

  int new_param(const std::string& path, ParamSpec spec) {
    const int index = int(plan_.params.size());
    std::string name = join(path, spec.name);
    plan_.params.push_back({std::move(name), std::move(spec), int(plan_.layers.size())});
    if (scope_ != nullptr) scope_->params.push_back(index);
    return index;
  }

  int shared_param(const ParamSpec& spec) {
    TR_ASSERT(scope_->cursor < scope_->params.size());
    const int index = scope_->params[scope_->cursor++];
    const Param& param = plan_.params[std::size_t(index)];
    TR_CHECK(param.spec.type == spec.type,
             "shared parameter {} is {}, expected {} (what this place of it needs)", param.name,
             param.spec.type, spec.type);
    return index;
  }

  const std::int64_t batch_;
  ArchPlan plan_;
  std::vector<ValueInfo> values_;
  std::set<std::string> layer_names_;
  std::unordered_map<const char*, SharedScope> shared_;
  SharedScope* scope_ = nullptr;
};

}  // namespace

ArchPlan expand(const BluePrint& model, const std::map<std::string, TensorType>& fields,
                const ExpandOptions& options) {
  return Expander(model, fields, options).take();
}

TensorType ArchPlan::output_type(std::size_t output) const {
  const int value = outputs.at(output);
  if (value < int(inputs.size())) return inputs[std::size_t(value)].sample_type;
  for (const ArchLayer& layer : layers) {
    const auto at = std::find(layer.outputs.begin(), layer.outputs.end(), value);
    if (at == layer.outputs.end()) continue;
    const TensorType& type = layer.types[std::size_t(at - layer.outputs.begin())];
    return {type.shape.drop_first(), type.dtype};
  }
  throw_as<InternalError>("no layer makes output {}", output);
}

BatchLimit ArchPlan::largest_batch() const {
  BatchLimit limit;
  const auto hold = [&](const Shape& sample, const std::string& name, const char* verb) {
    const std::int64_t samples = kMostElements / std::max<std::int64_t>(1, sample.num_elements());
    if (samples >= limit.samples) return;
    limit = {samples,
             fmt::format("\"{}\" {} {} of each, and no memory holds more than 2^47 elements", name,
                         verb, sample)};
  };
  for (const ArchInput& input : inputs) hold(input.sample_type.shape, input.field, "has");
  for (const ArchLayer& layer : layers) {
    for (const TensorType& type : layer.types) {
      if (type.shape.rank() > 0) hold(type.shape.drop_first(), layer.name, "makes");
    }
  }
  return limit;
}

std::int64_t ArchPlan::num_params() const {
  std::int64_t sum = 0;
  for (const Param& param : params) {
    if (param.spec.kind != ParamKind::BUFFER) sum += param.spec.type.shape.num_elements();
  }
  return sum;
}

std::int64_t ArchPlan::flops() const {
  std::int64_t sum = 0;
  for (const ArchLayer& layer : layers) sum = saturated_sum(sum, layer.cost.flops);
  return sum;
}

}  // namespace tr

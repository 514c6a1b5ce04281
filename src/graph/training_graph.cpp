// SPDX-License-Identifier: Apache-2.0
// Builds the logical graphs of a model; docs/execution.md lists the ops of a step in their order.
#include <algorithm>
#include <bit>

#include "core/check.h"
#include "core/fnv.h"
#include "core/format.h"
#include "graph/compiler.h"
#include "graph/param_layout.h"
#include "graph/precision_plan.h"
#include "graph/step_tables.h"

namespace tr {
namespace {

/// A value of the plan inside the graph, with the dtype that it has whatever the shapes are.
struct TypedId {
  TensorId id = kNoTensor;
  DType dtype = DType::FP32;
};

class ModelGraph {
 public:
  ModelGraph(const GraphSources& sources, const GraphKind& kind)
      : sources_(sources),
        kind_(kind),
        layout_(layout_params(sources.plan, sources.options)),
        precision_(plan_precision(sources.plan, sources.options)),
        builder_(graph_) {}

  ComputationGraph build() {
    if (training() && !sources_.objectives.empty()) {
      add_objectives();
    } else if (forward(); kind_.mode == Mode::PREDICT) {
      add_outputs();
    } else {
      const TensorId loss_sum = add_loss(sources_.loss);
      if (kind_.mode == Mode::TRAIN) {
        add_backward(loss_sum);
        add_tail(loss_sum);
      } else {
        record(loss_sum, "eval_", {});
      }
    }
    for (LogicalTensor& tensor : graph_.tensors) set_range_type(tensor);
    verify(graph_, "build_computation_graph");
    return std::move(graph_);
  }

 private:
  const GraphOptions& options() const { return sources_.options; }
  bool training() const { return kind_.mode == Mode::TRAIN; }

  // Persistent tensors of the step (src/graph/step_tables.h).
  TensorId scalar(const char* name, DType dtype) {
    return builder_.persistent(name, Role::SCALAR, {Shape{}, dtype});
  }
  TensorId counters(const std::string& prefix = "") {
    return builder_.persistent(prefix + "counters", Role::SCALAR,
                               {Shape{kNumCounters}, DType::INT64});
  }
  TensorId step_floats() {
    const int columns = step_floats_columns(num_param_groups(options()));
    const Shape shape{options().table_capacity, columns};
    return builder_.persistent("step_floats", Role::TABLE, {shape, DType::FP32});
  }
  TensorId step_ints() {
    return builder_.persistent("step_ints", Role::TABLE,
                               {Shape{options().table_capacity, kStepInts}, DType::INT64});
  }
  TensorId results(const std::string& prefix) {
    return builder_.persistent(prefix + "results", Role::RESULT,
                               {Shape{options().table_capacity, kResultColumns}, DType::FP32});
  }
  TensorId loss_scale() { return scalar("loss_scale", DType::FP32); }
  /// "found_inf", or "found_inf.0" of an objective.
  std::string of_objective(const char* name) const {
    return objective_ < 0 ? name : fmt::format("{}.{}", name, objective_);
  }
  TensorId found_inf() { return scalar(of_objective("found_inf").c_str(), DType::INT32); }
  TensorId grad_sumsq() { return scalar(of_objective("grad_sumsq").c_str(), DType::FP32); }
  TensorId segments() {
    const auto bytes =
        std::int64_t(std::max<std::size_t>(1, layout_.segments.size()) * sizeof(Segment));
    return builder_.persistent(of_objective("segments"), Role::TABLE, {Shape{bytes}, DType::UINT8});
  }

  /// The fp32 tensor of a parameter or buffer that this graph reads.
  TensorId param_tensor(int index) {
    const Param& param = sources_.plan.params[std::size_t(index)];
    if (param.spec.kind == ParamKind::BUFFER) {
      const bool next =
          training() && !kind_.micro.first;  // later micro-batches go on from what is new
      return next ? next_buffer(index)
                  : builder_.persistent(param.name, Role::BUFFER, param.spec.type, index);
    }
    if (kind_.ema)
      return builder_.persistent(param.name + ".ema", Role::EMA, param.spec.type, index);
    return builder_.persistent(param.name, Role::WEIGHT, param.spec.type, index);
  }
  TensorId next_buffer(int index) {
    const Param& param = sources_.plan.params[std::size_t(index)];
    return builder_.persistent(param.name + ".next", Role::BUFFER_NEXT, param.spec.type, index);
  }
  TensorId low_param_tensor(int index) {
    const Param& param = sources_.plan.params[std::size_t(index)];
    const DType low = *options().low_dtype;
    if (kind_.ema)
      return cast_of(param_tensor(index), low);  // averages have no 16-bit copy of their own
    return builder_.persistent(param.name + ".cast", Role::WEIGHT_CAST,
                               {param.spec.type.shape, low}, index);
  }

  TensorId cast_of(TensorId id, DType to) {
    return builder_.add("cast", {id}, {{"dtype", std::string(name_of(to))}});
  }
  TensorId cast_to(TypedId value, DType to) {
    const bool as_it_is = value.dtype == to || !is_floating(value.dtype);
    return as_it_is ? value.id : cast_of(value.id, to);
  }

  void forward() {
    for (const ArchInput& in : sources_.plan.inputs) {
      const DType dtype = input_dtype(in, options());
      const bool raw = options().raw_images && in.field == "image" && kind_.mode != Mode::PREDICT;
      values_.push_back({raw ? normalized_image(dtype) : builder_.field(in.field), dtype});
    }
    for (std::size_t i = 0; i < sources_.plan.layers.size(); ++i) {
      add_layer(sources_.plan.layers[i], precision_[i]);
    }
  }

  TensorId normalized_image(DType dtype) {
    builder_.at(GraphId::FORWARD, "image");
    return builder_.add("normalize_image",
                        {builder_.field("image_pixels"), builder_.field("image_tail")},
                        normalize_image_attrs(*options().raw_images, dtype));
  }

  void add_layer(const ArchLayer& layer, const LayerPrecision& precision) {
    builder_.at(GraphId::FORWARD, layer.name, layer.where);
    const OpDef& def = OpRegistry::instance().get(layer.op);
    if (!training() && def.eval_identity) {
      values_.push_back(values_[std::size_t(layer.inputs.front())]);
      return;
    }
    const DType compute = precision.compute;
    std::vector<TensorId> inputs;
    for (const int value : layer.inputs)
      inputs.push_back(cast_to(values_[std::size_t(value)], compute));
    for (const int param : layer.params) {
      const ParamKind kind = sources_.plan.params[std::size_t(param)].spec.kind;
      const bool low =
          def.precision == Precision::LOW && compute != DType::FP32 && kind == ParamKind::WEIGHT;
      inputs.push_back(low ? low_param_tensor(param) : param_tensor(param));
      if (training() && kind != ParamKind::BUFFER && !is_frozen(param))
        trained_.emplace_back(param, inputs.back());
    }
    Attrs attrs = layer.attrs;
    const bool replaced = !training() && !def.eval_op.empty();
    if (def.needs_draws && !replaced) {
      inputs.push_back(counters());
      inputs.push_back(step_ints());
      attrs.set("draw_id", std::int64_t(fnv1a64(layer.name) >> 1));
    }
    const std::vector<TensorId> outputs =
        builder_.add_op(replaced ? def.eval_op : layer.op, inputs, attrs);
    if (training()) retag_buffers(def, layer, outputs);
    values_.push_back({outputs.front(), precision.output});
  }

  /// A frozen parameter has no gradient: it counts neither in the norm nor in the finite check.
  bool is_frozen(int param) const {
    const std::string& name = sources_.plan.params[std::size_t(param)].name;
    const auto& states = options().frozen_states;
    const bool now = std::size_t(kind_.freeze_state) < states.size() &&
                     std::any_of(states[std::size_t(kind_.freeze_state)].begin(),
                                 states[std::size_t(kind_.freeze_state)].end(),
                                 [&](const std::string& p) { return name.starts_with(p); });
    if (now) return true;
    if (objective_ >= 0 && !name.starts_with(sources_.objectives[std::size_t(objective_)].trains))
      return true;
    return std::any_of(layout_.segments.begin(), layout_.segments.end(),
                       [&](const Segment& s) { return s.param == param && s.frozen != 0; });
  }

  void retag_buffers(const OpDef& def, const ArchLayer& layer,
                     const std::vector<TensorId>& outputs) {
    const std::size_t first_param = layer.inputs.size();
    for (const auto& [out, in] : def.next_buffers) {
      const int param = layer.params[std::size_t(in) - first_param];
      graph_.nodes.back().outputs[std::size_t(out)] = next_buffer(param);
      graph_.tensors[std::size_t(outputs[std::size_t(out)])].name += "(unused)";
    }
  }

  void add_outputs() {
    for (std::size_t i = 0; i < sources_.plan.outputs.size(); ++i) {
      builder_.at(GraphId::FORWARD, "");
      const TensorId out = cast_of(values_[std::size_t(sources_.plan.outputs[i])].id, DType::FP32);
      builder_.rename(out, i == 0 ? "output" : fmt::format("output.{}", i));
      graph_.tensors[std::size_t(out)].role = Role::RESULT;
    }
  }

  TensorId field(std::string name) {
    const auto instead = sources_.loss.training_fields.find(name);
    if (training() && instead != sources_.loss.training_fields.end()) name = instead->second;
    if (!sources_.sample_fields.contains(name)) {
      std::vector<std::string> known;
      for (const auto& [field, type] : sources_.sample_fields) known.push_back(field);
      throw_as<InvalidArgument>(
          "{}: it reads the field '{}', which the data set does not have; expected one of {}",
          sources_.loss.name, name, fmt::join(known, ", "));
    }
    return builder_.field(name);
  }

  TensorId add_loss(const LossSpec& loss) {
    builder_.at(GraphId::LOSS, loss.name);
    std::vector<TensorId> outputs;
    LossOperands operands;
    for (std::size_t i = 0; i < sources_.plan.outputs.size(); ++i) {
      outputs.push_back(values_[std::size_t(sources_.plan.outputs[i])].id);
      operands.output_types.push_back(sources_.plan.output_type(i));
    }
    operands.outputs = outputs;
    operands.field = [&](const std::string& name) { return field(name); };
    operands.sample_fields = sources_.sample_fields;
    return loss.build(builder_, operands);
  }

  /// Gradients go straight into their places: the last node of each writes the GRADIENT tensor.
  void add_backward(TensorId loss_sum) {
    builder_.at(GraphId::BACKWARD, "");
    const TensorId seed = builder_.add("loss_seed", {counters(), step_floats(), loss_scale()});
    std::vector<TensorId> wanted;
    for (const auto& [param, tensor] : trained_) {
      if (std::find(wanted.begin(), wanted.end(), tensor) == wanted.end()) wanted.push_back(tensor);
    }
    const std::pair<TensorId, TensorId> seeds[] = {{loss_sum, seed}};
    const std::vector<TensorId> gradients = append_backward(builder_, seeds, wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (gradients[i] != kNoTensor) make_gradient(wanted[i], gradients[i]);
    }
  }

  void make_gradient(TensorId weight, TensorId gradient) {
    const int param = graph_.tensor(weight).param;
    const Param& about = sources_.plan.params[std::size_t(param)];
    if (graph_.tensor(gradient).role != Role::FEATURE_GRAD || read_later(gradient)) {
      builder_.at(GraphId::BACKWARD, about.name);
      gradient = cast_of(gradient, DType::FP32);
    }
    builder_.rename(gradient, about.name + ".grad");
    LogicalTensor& tensor = graph_.tensors[std::size_t(gradient)];
    tensor.role = Role::GRADIENT;
    tensor.type = TensorType{about.spec.type.shape, DType::FP32};
    tensor.param = param;
  }

  bool read_later(TensorId id) const {
    return std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
      return std::find(node.inputs.begin(), node.inputs.end(), id) != node.inputs.end();
    });
  }

  void add_tail(TensorId loss_sum) {
    if (options().accumulate_steps > 1) {
      builder_.at(GraphId::ACCUMULATE, "");
      builder_.add_into("accumulate_grads",
                        {builder_.range(Role::GRADIENT), builder_.range(Role::GRAD_ACCUM)}, {},
                        {{"first", kind_.micro.first}, {"last", kind_.micro.last}});
    }
    if (!kind_.micro.last) {
      record(loss_sum, "", {});
      return;
    }
    add_communication();
    builder_.at(GraphId::CHECK, "");
    builder_.add_into("finite_check", {builder_.range(Role::GRADIENT)},
                      {found_inf(), grad_sumsq()});
    add_update(sources_.optimizer);
    add_ema();
    record(loss_sum, "", {found_inf(), grad_sumsq(), loss_scale()});
  }

  /// Forward, loss, backward and update of each objective; the step counts as bad if one of them
  /// is, and its loss is their sum.
  void add_objectives() {
    TensorId sum = kNoTensor;
    std::vector<TensorId> checks;
    for (std::size_t i = 0; i < sources_.objectives.size(); ++i) {
      objective_ = int(i);
      values_.clear();
      trained_.clear();
      forward();
      const TensorId loss_sum = add_loss(sources_.objectives[i].loss);
      sum = sum == kNoTensor ? loss_sum : builder_.add("add", {sum, loss_sum});
      add_backward(loss_sum);
      builder_.at(GraphId::CHECK, "");
      builder_.add_into("finite_check", {builder_.range(Role::GRADIENT, objective_)},
                        {found_inf(), grad_sumsq()});
      checks.push_back(found_inf());
      checks.push_back(grad_sumsq());
      add_update(sources_.objectives[i].optimizer);
    }
    objective_ = -1;
    builder_.at(GraphId::CHECK, "");
    builder_.add_into("join_checks", checks, {found_inf(), grad_sumsq()});
    add_ema();
    record(sum, "", {found_inf(), grad_sumsq(), loss_scale()});
  }

  void add_communication() {
    if (options().world_size == 1) return;
    builder_.at(GraphId::COMM, "");
    for (std::size_t bucket = 0; bucket < layout_.buckets.size(); ++bucket) {
      builder_.add_into("all_reduce", {builder_.range(Role::GRADIENT, int(bucket))}, {});
    }
  }

  /// Begin, rows and columns of each weight that the optimizer treats as a matrix. `ever`: or will
  /// once it is trained.
  std::vector<std::int64_t> matrices(bool ever) const {
    std::vector<std::int64_t> numbers;
    for (const Segment& s : layout_.segments) {
      if (s.rows > 0 && (ever ? s.frozen == 0 : !is_frozen(s.param)))
        numbers.insert(numbers.end(), {s.begin, s.rows, s.count / s.rows});
    }
    return numbers;
  }

  TensorId own_state(const OpDef& def, const Attrs& attrs) {
    const std::int64_t elements = def.own_state(complete_attrs(def, attrs));
    return builder_.persistent("optimizer_state", Role::OPTIMIZER_STATE,
                               {Shape{std::max<std::int64_t>(1, elements)}, DType::FP32});
  }

  void add_update(const OptimizerSpec& optimizer) {
    builder_.at(GraphId::OPTIMIZER, "");
    const OpDef& def = OpRegistry::instance().get(optimizer.op);
    std::vector<TensorId> inputs = {builder_.range(Role::WEIGHT),
                                    builder_.range(Role::GRADIENT),
                                    segments(),
                                    step_floats(),
                                    counters(),
                                    loss_scale(),
                                    found_inf(),
                                    grad_sumsq()};
    const std::size_t moment_slots = def.inputs.size() - inputs.size() - (def.own_state ? 2 : 1);
    const Role moments[] = {Role::MOMENT1, Role::MOMENT2, Role::MOMENT3};
    for (std::size_t i = 0; i < moment_slots; ++i) {
      inputs.push_back(int(i) < optimizer.num_moments ? builder_.range(moments[i]) : kNoTensor);
    }
    Attrs attrs = optimizer.attrs;
    attrs.set("clip_norm", double(options().grad_clip_norm));
    attrs.set("clip_value", double(options().grad_clip_value));
    const bool by_matrix =
        std::any_of(def.attrs.begin(), def.attrs.end(),
                    [](const AttrSpec& spec) { return spec.name == "matrices"; });
    // State of its own has the same places whatever stands still.
    if (by_matrix) attrs.set("matrices", matrices(bool(def.own_state)));
    if (def.own_state) inputs.push_back(own_state(def, attrs));
    if (options().low_dtype) inputs.push_back(builder_.range(Role::WEIGHT_CAST));
    while (inputs.back() == kNoTensor) inputs.pop_back();
    builder_.add_into(optimizer.op, inputs, {}, attrs);
    if (layout_.buffer_elements > 0) {
      builder_.add_into(
          "commit_buffers",
          {builder_.range(Role::BUFFER), builder_.range(Role::BUFFER_NEXT), found_inf()}, {});
    }
  }

  void add_ema() {
    if (options().ema_decay == 0) return;
    builder_.at(GraphId::EMA_UPDATE, "");
    builder_.add_into("ema_update",
                      {builder_.range(Role::EMA), builder_.range(Role::WEIGHT), found_inf()}, {},
                      {{"decay", double(options().ema_decay)}});
  }

  /// Metrics of the micro-batch, then the counters. `state` is found_inf, grad_sumsq, loss_scale,
  /// or empty.
  void record(TensorId loss_sum, const std::string& prefix, const std::vector<TensorId>& state) {
    builder_.at(GraphId::METRICS, "");
    std::vector<TensorId> inputs = {results(prefix), counters(prefix), loss_sum, correct()};
    inputs.insert(inputs.end(), state.begin(), state.end());
    while (inputs.back() == kNoTensor) inputs.pop_back();
    builder_.add_into("record_step", inputs, {});

    builder_.at(GraphId::COUNTERS, "");
    const bool update = training() && kind_.micro.last;
    if (update && options().loss_scaling) {
      builder_.add_into("update_loss_scale", {loss_scale(), found_inf(), counters()}, {},
                        {{"growth_interval", std::int64_t(options().loss_scale_growth_interval)}});
    }
    std::vector<TensorId> advance = {counters(prefix)};
    if (update) advance.push_back(found_inf());
    builder_.add_into("advance_counters", advance, {},
                      {{"last_micro", kind_.micro.last}, {"training", training()}});
  }

  /// Top-1 and top-5, where the outputs are class scores and the labels class numbers.
  TensorId correct() {
    const auto label = sources_.sample_fields.find("label");
    const bool hard = label != sources_.sample_fields.end() && !is_floating(label->second.dtype);
    if (!sources_.loss.classification || !hard) return kNoTensor;
    const TensorId scores = values_[std::size_t(sources_.plan.outputs.front())].id;
    const TensorId labels = builder_.field("label");
    const TensorId correct =
        builder_.add("topk_correct", {scores, labels}, {{"k", std::int64_t(options().top_k)}});
    const std::int64_t classes = num_classes();
    if (options().confusion && kind_.mode == Mode::EVAL && classes > 0) {
      const TensorType type{Shape{classes, classes}, DType::INT32};
      const TensorId matrix = builder_.persistent("eval_confusion", Role::RESULT, type);
      builder_.add_into("confusion_matrix", {scores, labels, matrix}, {});
    }
    return correct;
  }

  /// Scores of a sample in the first output; 0: it is one of the model's inputs.
  std::int64_t num_classes() const {
    const bool made = sources_.plan.outputs.front() >= int(sources_.plan.inputs.size());
    const Shape scores = sources_.plan.output_type(0).shape;
    return made && scores.rank() > 0 ? scores.back() : 0;
  }

  void set_range_type(LogicalTensor& tensor) const {
    if (tensor.range_role < 0) return;
    const Role role = Role(tensor.range_role);
    const bool buffers = role == Role::BUFFER || role == Role::BUFFER_NEXT;
    std::int64_t elements = buffers ? layout_.buffer_elements : layout_.range_elements;
    if (tensor.bucket >= 0) {
      const auto& [begin, end] = layout_.buckets[std::size_t(tensor.bucket)];
      elements = end - begin;
    }
    const DType dtype = role == Role::WEIGHT_CAST ? *options().low_dtype : DType::FP32;
    tensor.type = TensorType{Shape{elements}, dtype};
  }

  const GraphSources& sources_;
  const GraphKind kind_;
  const ParamLayout layout_;
  const std::vector<LayerPrecision> precision_;  // by layer of the plan
  ComputationGraph graph_;
  GraphBuilder builder_;
  int objective_ = -1;  // whose part is being built
  std::vector<TypedId> values_;
  std::vector<std::pair<int, TensorId>>
      trained_;  // parameter, the tensor that the forward pass reads
};

}  // namespace

Attrs normalize_image_attrs(const RawImages& images, DType dtype) {
  const auto bits_of = [](const std::vector<float>& values) {
    std::vector<std::int64_t> bits;
    for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
    return bits;
  };
  return {{"dtype", std::string(name_of(dtype))},
          {"channels", images.channels},
          {"mean_bits", bits_of(images.mean)},
          {"std_bits", bits_of(images.std)}};
}

std::string_view name_of(Mode mode) {
  switch (mode) {
    case Mode::TRAIN: return "train";
    case Mode::EVAL: return "eval";
    case Mode::PREDICT: return "predict";
  }
  return "unknown";
}

ComputationGraph build_computation_graph(const GraphSources& sources, const GraphKind& kind) {
  return ModelGraph(sources, kind).build();
}

}  // namespace tr

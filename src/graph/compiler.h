// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/arch_plan.h"
#include "graph/computation_graph.h"
#include "graph/graph_atlas.h"
#include "graph/kernel_oracle.h"
#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// Finds the tensor of a field while a loss is built. @throws InvalidArgument  no such field.
using FieldLookup = std::function<TensorId(const std::string& field)>;

/// What a loss is built over.
struct LossOperands {
  std::span<const TensorId> outputs;  // of the model
  FieldLookup field;
  std::vector<TensorType> output_types;             // of one sample
  std::map<std::string, TensorType> sample_fields;  // types of one sample
};

/// A loss as data for the compiler: a sub-graph over model outputs and fields.
struct LossSpec {
  std::string name;
  std::vector<std::string> fields;  // fields that it reads, "label"
  /// What training reads instead of a field that validation reads.
  std::map<std::string, std::string> training_fields;
  bool classification = false;  // outputs are class scores: top-1 and top-5 mean something
  /// Adds nodes and returns the FP32 scalar sum of the samples' losses.
  std::function<TensorId(GraphBuilder&, const LossOperands&)> build;
  /// Values of the persistent TABLE tensors that build() makes, by name.
  std::vector<std::pair<std::string, Tensor>> constants;
};

/// An optimizer as data: the name of its whole-range op, that op's attributes, its state.
struct OptimizerSpec {
  std::string op = "sgd";  // inputs: see src/ops/optimizer.cpp
  Attrs attrs;
  int num_moments = 0;  // of MOMENT1, MOMENT2, MOMENT3
};

/// One of several things that a model is trained for in turn within a step: its loss moves the
/// parameters whose names start with `trains`, and no other, by its optimizer.
struct ObjectiveSpec {
  std::string trains;
  LossSpec loss;
  OptimizerSpec optimizer;
};

inline const std::vector<ObjectiveSpec> kNoObjectives;

/// A rule that puts parameters into a group; the first that matches wins, the default rule matches
/// all.
struct GroupRule {
  std::string match;  // name prefix, "" = all
  float lr_scale = 1;
  std::optional<bool> decay;  // unset: WEIGHT yes, BIAS and NORM_* no
  bool frozen = false;
};

/// Rates of one parameter beside those of its GroupRule.
struct ParamRates {
  static constexpr int kRuleColumn = -1;
  float lr_scale = 1;
  int column = kRuleColumn;    // of the step table, behind those of the rules
  std::optional<bool> decays;  // unset: as its rule says
};

/// The dtype in which layers compute, whatever their ops' definitions say. `layer` is a layer's
/// name or the part of names before a dot; "" is every layer. The last rule that matches holds.
struct PrecisionRule {
  std::string layer;
  bool low = false;  // amp's dtype, else fp32
};

enum class Mode : std::uint8_t { TRAIN, EVAL, PREDICT };
std::string_view name_of(Mode mode);

/// Which of the micro-batches of a step: decides what the step's tail does.
struct MicroStep {
  bool first = true;
  bool last = true;
  friend bool operator==(const MicroStep&, const MicroStep&) = default;
};

/// Key of a variant; equal keys are one variant.
struct VariantKey {
  Mode mode = Mode::TRAIN;
  std::int64_t batch = 1;
  MicroStep micro;
  std::map<std::string, TensorType> fields;  // with the batch axis
  bool ema = false;                          // EVAL, PREDICT: with the averaged weights
  int freeze_state = 0;                      // TRAIN: index of GraphOptions::frozen_states
  std::string name;                          // printed only: "train_base"
  friend bool operator==(const VariantKey& a, const VariantKey& b) {
    return a.mode == b.mode && a.batch == b.batch && a.micro == b.micro && a.ema == b.ema &&
           a.freeze_state == b.freeze_state && a.fields == b.fields;
  }
};

/// Images that arrive as UINT8 pixels in training and validation: their last pass is a node, which
/// reads the fields "image_pixels" and "image_tail" (pixel::ImageTail).
struct RawImages {
  std::int64_t channels = 0;     // of the result; 0: as they are
  std::vector<float> mean, std;  // of each channel
};

/// Attributes of the node normalize_image that makes images of `dtype`.
Attrs normalize_image_attrs(const RawImages& images, DType dtype);

struct GraphOptions {
  std::optional<RawImages> raw_images;
  std::optional<DType> low_dtype;  // amp: FP16 or BF16
  std::vector<PrecisionRule> precision;
  bool loss_scaling = false;  // FP16 only
  float initial_loss_scale = 1;
  int loss_scale_growth_interval = 0;  // 0: never grows
  float grad_clip_norm = 0;            // 0: off
  float grad_clip_value = 0;
  float ema_decay = 0;  // 0: off
  int accumulate_steps = 1;
  int world_size = 1;
  std::int64_t bucket_bytes = 25 << 20;
  std::vector<GroupRule> groups;
  /// Parameters by name whose rates differ from their rule's (algo/param_groups.h), and how many
  /// columns of the step table these need.
  std::map<std::string, ParamRates> rates;
  int num_rate_columns = 0;
  /// The optimizer treats weights of two axes as matrices (Segment::rows), but for those whose
  /// names begin so. Unset: it treats none.
  std::optional<std::vector<std::string>> matrices_except;
  /// Prefixes of the names of parameters without a gradient, for each state that a TRAIN variant
  /// may be in. The segment table must say the same while such a variant runs. Empty: one state.
  std::vector<std::vector<std::string>> frozen_states;
  int top_k = 5;           // places of the second accuracy
  bool confusion = false;  // EVAL counts predictions by class: "eval_confusion"
  /// Group i of `groups` is what objective i trains: gradients of a group are a bucket of their
  /// own, and each objective has a segment table, "segments.0", in which all others are frozen.
  int num_objectives = 0;     // 0: one loss trains everything
  int table_capacity = 1024;  // rows of step tables and results
};

/// Which logical graph a variant needs: everything of its key but the shapes.
struct GraphKind {
  Mode mode = Mode::TRAIN;
  MicroStep micro;
  bool ema = false;
  int freeze_state = 0;
  friend bool operator==(const GraphKind&, const GraphKind&) = default;
};
inline GraphKind kind_of(const VariantKey& key) {
  return {key.mode, key.micro, key.ema, key.freeze_state};
}

/// What the logical graphs of one model are made from.
struct GraphSources {
  const ArchPlan& plan;
  const std::map<std::string, TensorType>& sample_fields;
  const LossSpec& loss;
  const OptimizerSpec& optimizer;
  const GraphOptions& options;
  const std::vector<ObjectiveSpec>& objectives = kNoObjectives;
};

/// Stage `build_computation_graph`: forward from the plan with the casts of amp; for EVAL loss and
/// metrics; for TRAIN also the backward pass and the step's tail (docs/execution.md), once for each
/// objective, the next one with the weights that the one before has moved; for PREDICT
/// the RESULT tensors "output", "output.1" ...
ComputationGraph build_computation_graph(const GraphSources& sources, const GraphKind& kind);

/// Stage `derive_all_shapes`: the type of every tensor of `graph` for one variant.
/// @throws InvalidArgument  with layer and place.
std::vector<TensorType> derive_shapes(const ComputationGraph& graph, const VariantKey& key);

/// Stage `lower`: passes (src/graph/passes), kernels and workspaces by the oracle, streams, edges.
LoweredGraph lower(const ComputationGraph& graph, const std::vector<TensorType>& types,
                   const KernelOracle& oracle);

/// Stage `compute_max_slot_bytes`: bytes of every persistent tensor by name, maximum over the
/// variants.
std::map<std::string, std::int64_t> compute_max_slot_bytes(std::span<const LoweredGraph> graphs);

/// Stage `create_memory_plans`: one arena, persistent places shared, transients per variant.
ArenaPlan create_memory_plans(std::span<LoweredGraph> graphs, const ArchPlan& plan,
                              const GraphOptions& graph_options,
                              const std::map<std::string, std::int64_t>& slot_bytes,
                              const PlanOptions& options);

/// Stage `share_or_clone`: for each variant the first one with an equal lowered graph.
std::vector<int> share_or_clone(std::span<const LoweredGraph> graphs);

struct CompileRequest {
  BluePrint model = BluePrint(nullptr);
  std::map<std::string, TensorType> sample_fields;  // every field of the data, one sample
  LossSpec loss;                                    // of EVAL; with objectives theirs train
  OptimizerSpec optimizer;
  std::vector<ObjectiveSpec> objectives;
  GraphOptions graph;
  std::vector<VariantKey> variants;
  PlanOptions memory;
};

struct CompileResult {
  ArchPlan arch;
  std::vector<std::pair<GraphKind, ComputationGraph>> logical;
  std::vector<VariantKey> variants;
  std::vector<LoweredGraph> lowered;  // distinct ones; atlas.whole(variant) is the index
  ArenaPlan memory;                   // memory.variants[i] places lowered[i]
  GraphAtlas atlas;
  std::vector<std::pair<std::string, Tensor>> constants;  // LossSpec::constants
};

/// Refuses a model that needs an op without a kernel; compile() asks it first.
/// @throws Unsupported  naming the op, the layer and the user's line.
void check_kernels_exist(const ArchPlan& arch, const KernelOracle& oracle);

/// All stages in order. Seals the op registry meanwhile.
CompileResult compile(const CompileRequest& request, const KernelOracle& oracle);

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
// Several nodes of a step as one. Only lowering makes these, and only where a device has a kernel
// for them: a small model's step is mostly launches, so that the number of nodes decides its time.
#include "core/check.h"
#include "core/format.h"
#include "graph/step_tables.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Types;

const TensorType kScalar{Shape{}, DType::FP32};
const TensorType kFlag{Shape{}, DType::INT32};

/// Types of the pairs dy [.., O], x [.., K] that stand from `first` on, with as many rows.
void check_operands(Types in, std::size_t first) {
  TR_CHECK(in.size() > first && (in.size() - first) % 2 == 0,
           "there are {} operands, expected pairs of dy and x", in.size() - first);
  const auto rows = [](const TensorType& type) {
    return type.shape.num_elements() / std::max<std::int64_t>(1, type.shape.back());
  };
  for (std::size_t i = first; i < in.size(); ++i) {
    ops::check_floating("operand", in[i]);
    TR_CHECK(rows(in[i]) == rows(in[first]), "operand {} is {}, expected {} rows (as operand 0)",
             i - first, in[i], rows(in[first]));
  }
}

constexpr std::size_t kFirstOperand = 9;

std::vector<TensorType> infer_fc_update(const Attrs& attrs, Types in) {
  check_operands(in, kFirstOperand);
  const std::vector<std::int64_t>& biases = attrs.ints("biases");
  TR_CHECK(biases.size() * 2 + kFirstOperand == in.size(),
           "biases has {} entries, expected one a layer ({})", biases.size(),
           (in.size() - kFirstOperand) / 2);
  std::vector<TensorType> out = {kFlag, kScalar};
  for (std::size_t i = 0; i < biases.size(); ++i) {
    const std::int64_t o = in[kFirstOperand + 2 * i].shape.back();
    out.push_back({Shape{o, in[kFirstOperand + 2 * i + 1].shape.back()}, DType::FP32});
    if (biases[i] != 0) out.push_back({Shape{o}, DType::FP32});
  }
  return out;
}

Cost cost_fc_update(const Attrs&, Types in, Types out) {
  Cost cost{0, ops::bytes_moved(in, out)};
  for (std::size_t i = kFirstOperand; i + 1 < in.size(); i += 2) {
    cost.flops += 2 * in[i].shape.num_elements() * in[i + 1].shape.back();
  }
  return cost;
}

std::vector<TensorType> infer_classifier_loss(const Attrs& attrs, Types in) {
  ops::check_floating("logits", in[0]);
  ops::check_rank("logits", in[0], 2, "[N, C]");
  TR_CHECK(in[1].dtype == DType::INT32 || in[1].dtype == DType::INT64,
           "labels is {}, expected int32 or int64 [N]", in[1]);
  ops::check_shape("labels", in[1], Shape{in[0].shape[0]}, "a class number a sample");
  std::vector<TensorType> out = {kScalar, {Shape{2}, DType::INT32}};
  if (attrs.flag("gradient")) {
    TR_CHECK(ops::given(in, 2), "counters is missing, expected it where gradient is on");
    out.push_back({in[0].shape, dtype_from_name(attrs.str("dtype"))});
  }
  return out;
}

std::vector<TensorType> infer_finish_step(const Attrs&, Types in) {
  TR_CHECK(
      in[0].shape.rank() == 2 && in[0].shape[1] == kResultColumns && in[0].dtype == DType::FP32,
      "results is {}, expected fp32 [capacity, {}]", in[0], int(kResultColumns));
  ops::check_scalar("loss_sum", in[2], DType::FP32);
  return {};
}

Cost small_cost(const Attrs&, Types in, Types) { return {0, ops::bytes_moved(in.subspan(1), {})}; }

const OpRegistration kFcUpdate{
    {.name = "fc_update",
     .inputs = {"weights", "gradients", "segments", "step_floats", "counters", "loss_scale",
                "moment1", "moment2", "weight_cast", "operands..."},
     .outputs = {"found_inf", "grad_sumsq", "gradient..."},
     .attrs = {{"optimizer", std::string("sgd"), true, "sgd or adam, with its attributes"},
               {"biases", std::vector<std::int64_t>{}, true,
                "1 for each layer with a bias, else 0"},
               {"keep", false, false, "gradients are written too; else their bytes mean nothing"},
               {"clip_norm", 0.0, false, ""},
               {"clip_value", 0.0, false, ""},
               {"momentum", 0.0, false, ""},
               {"nesterov", false, false, ""},
               {"decoupled", false, false, ""},
               {"beta1", 0.9, false, ""},
               {"beta2", 0.999, false, ""},
               {"eps", 1e-8, false, ""}},
     .infer = infer_fc_update,
     .cost = cost_fc_update,
     .state_writes = {0, 6, 7, 8},
     .precision = Precision::HIGH,
     .num_outputs =
         [](const Attrs& attrs) {
           int outputs = 2;
           for (const std::int64_t bias : attrs.ints("biases")) outputs += bias != 0 ? 2 : 1;
           return outputs;
         },
     .fused = true,
     .doc = "fc_dweight of every layer, finite_check and the optimizer."}};

const OpRegistration kClassifierLoss{
    {.name = "classifier_loss",
     .inputs = {"logits", "labels", "counters", "step_floats", "loss_scale"},
     .outputs = {"loss_sum", "correct", "dlogits"},
     .attrs = {{"label_smoothing", 0.0, false, ""},
               {"gradient", false, true, "dlogits is an output"},
               {"dtype", std::string("fp32"), false, "of dlogits"}},
     .num_optional_inputs = 3,
     .infer = infer_classifier_loss,
     .cost = ops::cost_per_input_element(22),
     .precision = Precision::HIGH,
     .num_outputs = [](const Attrs& attrs) { return attrs.flag("gradient") ? 3 : 2; },
     .fused = true,
     .doc = "softmax_cross_entropy, topk_correct, loss_seed and softmax_cross_entropy_backward."}};

const OpRegistration kFinishStep{
    {.name = "finish_step",
     .inputs = {"results", "counters", "loss_sum", "correct", "found_inf", "grad_sumsq",
                "loss_scale"},
     .attrs = {{"scaling", false, true, "update_loss_scale is part of it"},
               {"growth_interval", std::int64_t{0}, false, ""},
               {"last_micro", true, true, ""},
               {"training", true, true, ""}},
     .num_optional_inputs = 4,
     .infer = infer_finish_step,
     .cost = small_cost,
     .state_writes = {0, 1, 6},
     .precision = Precision::HIGH,
     .fused = true,
     .doc = "record_step, update_loss_scale and advance_counters."}};

}  // namespace
}  // namespace tr

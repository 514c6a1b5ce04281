// SPDX-License-Identifier: Apache-2.0
// Several nodes of a step as one. Only lowering makes these, and only where a device has a kernel
// for them: a small model's step is mostly launches, so that the number of nodes decides its time.
#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/loss_rules.h"
#include "ops/step_rules.h"

namespace tr {
namespace {

using ops::Types;

const TensorType kScalar{Shape{}, DType::FP32};
const TensorType kFlag{Shape{}, DType::INT32};
const TensorType kCorrect{Shape{2}, DType::INT32};

/// Places of fc_update's inputs behind those that check_update_inputs() knows.
enum FcUpdateInput : std::size_t {
  MOMENT1 = ops::kNumUpdateInputs,
  MOMENT2,
  WEIGHT_CAST,
  FIRST_OPERAND
};

/// dy [N.., O] and x [N.., K] of layer `layer`. Other layers may have another N.
void check_operands(const TensorType& dy, const TensorType& x, std::size_t layer) {
  for (const auto& [name, type] : {std::pair<const char*, const TensorType&>{"dy", dy}, {"x", x}}) {
    const std::string who = fmt::format("{} of layer {}", name, layer);
    ops::check_floating(who, type);
    TR_CHECK(type.shape.rank() >= 2, "{} has shape {}, expected [N, ..., features]", who,
             type.shape);
  }
  TR_CHECK(dy.shape.drop_last() == x.shape.drop_last(),
           "x of layer {} has shape {}, expected the rows of dy {}", layer, x.shape, dy.shape);
}

void check_fc_optimizer(const Attrs& attrs, Types in) {
  ops::check_update_inputs(attrs, in);
  ops::check_weight_cast(in, WEIGHT_CAST);
  const std::string& optimizer = attrs.str("optimizer");
  TR_CHECK(optimizer == "sgd" || optimizer == "adam", "optimizer is '{}', expected sgd or adam",
           optimizer);
  if (optimizer == "adam") {
    ops::check_adam(attrs, in, MOMENT1);
    return;
  }
  ops::check_sgd(attrs, in, MOMENT1);
  TR_CHECK(!ops::given(in, MOMENT2), "moment2 is given, expected it missing (sgd has one moment)");
}

std::vector<TensorType> infer_fc_update(const Attrs& attrs, Types in) {
  check_fc_optimizer(attrs, in);
  const std::vector<std::int64_t>& biases = attrs.ints("biases");
  TR_CHECK(!biases.empty() && FIRST_OPERAND + 2 * biases.size() == in.size(),
           "there are {} operands, expected dy and x for each entry of biases ({})",
           in.size() - FIRST_OPERAND, biases.size());
  std::vector<TensorType> out = {kFlag, kScalar};
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < biases.size(); ++i) {
    const TensorType &dy = in[FIRST_OPERAND + 2 * i], &x = in[FIRST_OPERAND + 2 * i + 1];
    check_operands(dy, x, i);
    out.push_back({Shape{dy.shape.back(), x.shape.back()}, DType::FP32});
    if (biases[i] != 0) out.push_back({Shape{dy.shape.back()}, DType::FP32});
    elements += dy.shape.back() * (x.shape.back() + (biases[i] != 0 ? 1 : 0));
  }
  TR_CHECK(elements <= in[ops::kWeights].shape[0],
           "weights has {} elements, expected at least the {} of the layers",
           in[ops::kWeights].shape[0], elements);
  return out;
}

Cost cost_fc_update(const Attrs&, Types in, Types out) {
  Cost cost{0, ops::bytes_moved(in, out)};
  for (std::size_t i = FIRST_OPERAND; i + 1 < in.size(); i += 2) {
    cost.flops = saturated_sum(
        cost.flops, saturated_product({2, in[i].shape.num_elements(), in[i + 1].shape.back()}));
  }
  return cost;
}

std::vector<TensorType> infer_classifier_loss(const Attrs& attrs, Types in) {
  ops::check_scores("logits", in[0]);
  ops::check_class_numbers(in[1], in[0]);
  ops::check_smoothing(attrs);
  std::vector<TensorType> out = {kScalar, kCorrect};
  const bool gradient = attrs.flag("gradient");
  const std::size_t expected = gradient ? 5 : 2;
  TR_CHECK(in.size() == expected, "there are {} inputs, expected {} (gradient is {})", in.size(),
           expected, gradient ? "on" : "off");
  if (gradient) {
    ops::check_counters(in[2]);
    ops::check_step_floats(in[3]);
    ops::check_scalar("loss_scale", in[4], DType::FP32);
    const DType dtype = dtype_from_name(attrs.str("dtype"));
    TR_CHECK(is_floating(dtype), "dtype is {}, expected fp32, fp16 or bf16", dtype);
    out.push_back({in[0].shape, dtype});
  }
  return out;
}

std::vector<TensorType> infer_finish_step(const Attrs& attrs, Types in) {
  ops::check_results(in[0]);
  ops::check_counters(in[1]);
  ops::check_scalar("loss_sum", in[2], DType::FP32);
  if (ops::given(in, 3)) ops::check_same("correct", in[3], kCorrect, "top 1 and top 5");
  ops::check_optional_scalar("found_inf", in, 4, DType::INT32);
  ops::check_optional_scalar("grad_sumsq", in, 5, DType::FP32);
  ops::check_optional_scalar("loss_scale", in, 6, DType::FP32);
  if (attrs.flag("scaling")) {
    TR_CHECK(in.size() == 7 && in[4] == kFlag,
             "found_inf or loss_scale is missing, expected both where scaling is on");
    ops::check_growth_interval(attrs);
  }
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

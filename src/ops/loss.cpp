// SPDX-License-Identifier: Apache-2.0
// Losses: sums over the samples of a batch, in fp32; gradients start from the scalar `seed`.
#include "core/check.h"
#include "core/format.h"
#include "ops/loss_rules.h"
#include "ops/step_rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

const TensorType kScalar{Shape{}, DType::FP32};

/// The dtype of the gradient: the attribute, else that of the input at `like`, else fp32.
DType gradient_dtype(const Attrs& attrs, Types in, std::size_t like) {
  const std::string& name = attrs.str("dtype");
  if (!name.empty()) return dtype_from_name(name);
  return ops::given(in, like) ? in[like].dtype : DType::FP32;
}

std::vector<TensorType> infer_log_softmax(const Attrs&, Types in) {
  ops::check_scores("x", in[0]);
  return {{in[0].shape, DType::FP32}};
}

std::vector<TensorId> gradient_log_softmax(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("log_softmax_backward", {dout[0], node.outputs[0], node.inputs[0]})};
}

std::vector<TensorType> infer_log_softmax_backward(const Attrs& attrs, Types in) {
  ops::check_scores("dlogp", in[0]);
  ops::check_same("logp", in[1], in[0], "that of dlogp");
  return {{in[0].shape, gradient_dtype(attrs, in, 2)}};
}

std::vector<TensorType> infer_nll(const Attrs& attrs, Types in) {
  ops::check_scores("logp", in[0]);
  ops::check_dtype("logp", in[0], DType::FP32, "losses are fp32");
  ops::check_labels(in[1], in[0]);
  ops::check_smoothing(attrs);
  return {kScalar};
}

std::vector<TensorId> gradient_nll(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("nll_backward", {dout[0], node.inputs[0], node.inputs[1]}, node.attrs)};
}

std::vector<TensorType> infer_nll_backward(const Attrs& attrs, Types in) {
  ops::check_scalar("seed", in[0], DType::FP32);
  infer_nll(attrs, in.subspan(1));
  return {in[1]};
}

std::vector<TensorType> infer_fused(const Attrs& attrs, Types in) {
  ops::check_scores("logits", in[0]);
  ops::check_labels(in[1], in[0]);
  ops::check_smoothing(attrs);
  return {kScalar, {in[0].shape, DType::FP32}};
}

std::vector<TensorId> gradient_fused(GraphBuilder& builder, const Node& node, Ids dout) {
  TR_CHECK(dout[1] == kNoTensor,
           "logp has a gradient of its own, expected none (use log_softmax and nll)");
  return {builder.add("softmax_cross_entropy_backward",
                      {dout[0], node.outputs[1], node.inputs[1], node.inputs[0]}, node.attrs)};
}

std::vector<TensorType> infer_fused_backward(const Attrs& attrs, Types in) {
  ops::check_scalar("seed", in[0], DType::FP32);
  infer_nll(attrs, in.subspan(1, 2));
  return {{in[1].shape, gradient_dtype(attrs, in, 3)}};
}

const AttrSpec kSmoothing = {"label_smoothing", 0.0, false,
                             "s: weight of the uniform target, 0 to 1"};
const AttrSpec kDtype = {"dtype", std::string(), false,
                         "of the gradient; empty: that of x, or fp32 without it"};

const OpRegistration kLogSoftmax{
    {.name = "log_softmax",
     .inputs = {"x"},
     .outputs = {"logp"},
     .infer = infer_log_softmax,
     .gradient = gradient_log_softmax,
     .cost = ops::cost_per_element(11),
     .precision = Precision::HIGH,
     .doc = "x - log(sum exp x) over the last axis, in fp32. torch.log_softmax"}};

const OpRegistration kLogSoftmaxBackward{{.name = "log_softmax_backward",
                                          .inputs = {"dlogp", "logp", "x"},
                                          .outputs = {"dx"},
                                          .attrs = {kDtype},
                                          .num_optional_inputs = 1,
                                          .infer = infer_log_softmax_backward,
                                          .cost = ops::cost_per_element(11, 2),
                                          .precision = Precision::HIGH,
                                          .type_only_from = 2,
                                          .doc = "dx = dlogp - exp(logp) * sum dlogp."}};

const OpRegistration kNll{
    {.name = "nll",
     .inputs = {"logp", "labels"},
     .outputs = {"loss_sum"},
     .attrs = {kSmoothing},
     .infer = infer_nll,
     .gradient = gradient_nll,
     .cost = ops::cost_per_input_element(2),
     .precision = Precision::HIGH,
     .doc = "sum over samples of -(1 - s) logp[label] - s / C sum logp; with probabilities q "
            "-sum ((1 - s) q + s / C) logp. torch.nn.CrossEntropyLoss(reduction='sum')"}};

const OpRegistration kNllBackward{{.name = "nll_backward",
                                   .inputs = {"seed", "logp", "labels"},
                                   .outputs = {"dlogp"},
                                   .attrs = {kSmoothing},
                                   .infer = infer_nll_backward,
                                   .cost = ops::cost_per_element(2),
                                   .precision = Precision::HIGH,
                                   .doc = "dlogp = -seed * target; logp gives only its shape."}};

const OpRegistration kFused{
    {.name = "softmax_cross_entropy",
     .inputs = {"logits", "labels"},
     .outputs = {"loss_sum", "logp"},
     .attrs = {kSmoothing},
     .infer = infer_fused,
     .gradient = gradient_fused,
     .cost = ops::cost_per_input_element(13),
     .precision = Precision::HIGH,
     .doc = "log_softmax, then nll. torch.nn.functional.cross_entropy(reduction='sum')"}};

const OpRegistration kFusedBackward{
    {.name = "softmax_cross_entropy_backward",
     .inputs = {"seed", "logp", "labels", "logits"},
     .outputs = {"dlogits"},
     .attrs = {kSmoothing, kDtype},
     .num_optional_inputs = 1,
     .infer = infer_fused_backward,
     .cost = ops::cost_per_element(11, 3),
     .precision = Precision::HIGH,
     .type_only_from = 3,
     .doc = "dlogits = seed * (exp(logp) * sum(target) - target)."}};

std::vector<TensorType> infer_topk(const Attrs& attrs, Types in) {
  TR_CHECK(attrs.i64("k") >= 1, "k is {}, expected at least 1", attrs.i64("k"));
  ops::check_scores("logits", in[0]);
  ops::check_class_numbers(in[1], in[0]);
  return {{Shape{2}, DType::INT32}};
}

std::vector<TensorType> infer_loss_seed(const Attrs&, Types in) {
  ops::check_counters(in[0]);
  ops::check_step_floats(in[1]);
  ops::check_scalar("loss_scale", in[2], DType::FP32);
  return {kScalar};
}

const OpRegistration kTopk{
    {.name = "topk_correct",
     .inputs = {"logits", "labels"},
     .outputs = {"correct"},
     .attrs = {{"k", std::int64_t{5}, false, "places that the second count takes"}},
     .infer = infer_topk,
     .cost = ops::cost_per_input_element(1),
     .precision = Precision::HIGH,
     .doc = "Samples whose label is among the 1 and the k largest scores; of equal scores the "
            "lower class is the larger; a NaN score is never correct."}};

const OpRegistration kLossSeed{
    {.name = "loss_seed",
     .inputs = {"counters", "step_floats", "loss_scale"},
     .outputs = {"seed"},
     .infer = infer_loss_seed,
     .cost = ops::cost_per_element(1),
     .precision = Precision::HIGH,
     .doc = "loss_scale / valid samples of the global batch, from the step's table."}};

}  // namespace
}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
// Cross entropy with weights of the classes and a label that does not count. Its mean is taken over
// the weights, as PyTorch's is, so the batch's norm comes first.
#include "core/check.h"
#include "core/format.h"
#include "ops/loss_rules.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

const TensorType kScalar{Shape{}, DType::FP32};

void check_class_weight(Types in, std::size_t index, std::int64_t classes) {
  if (!ops::given(in, index)) return;
  ops::check_same("class_weight", in[index], {Shape{classes}, DType::FP32}, "a weight a class");
}

std::vector<TensorType> infer_norm(const Attrs& attrs, Types in) {
  if (is_floating(in[0].dtype)) {
    ops::check_rank("labels", in[0], 2, "[N, C]");
    ops::check_dtype("labels", in[0], DType::FP32, "probabilities, one a class");
    TR_CHECK(attrs.i64("ignore_index") == ops::kNoIgnoredLabel,
             "ignore_index is {}, but labels are probabilities", attrs.i64("ignore_index"));
  } else {
    ops::check_rank("labels", in[0], 1, "[N]");
    ops::check_class_numbers(in[0], in[0]);
  }
  if (ops::given(in, 1)) {
    ops::check_rank("class_weight", in[1], 1, "[C]");
    ops::check_dtype("class_weight", in[1], DType::FP32, "losses are fp32");
  }
  return {kScalar};
}

void check_weighted(const Attrs& attrs, Types in) {
  ops::check_scores("logp", in[0]);
  ops::check_dtype("logp", in[0], DType::FP32, "losses are fp32");
  ops::check_labels(in[1], in[0]);
  ops::check_smoothing(attrs);
  check_class_weight(in, 2, in[0].shape[1]);
  if (in.size() > 3 && in[3] != TensorType{}) ops::check_scalar("norm", in[3], DType::FP32);
}

std::vector<TensorType> infer_weighted(const Attrs& attrs, Types in) {
  check_weighted(attrs, in);
  return {kScalar};
}

std::vector<TensorId> gradient_weighted(GraphBuilder& builder, const Node& node, Ids dout) {
  std::vector<TensorId> inputs = {dout[0]};
  inputs.insert(inputs.end(), node.inputs.begin(), node.inputs.end());
  return {builder.add("weighted_nll_backward", inputs, node.attrs)};
}

std::vector<TensorType> infer_weighted_backward(const Attrs& attrs, Types in) {
  ops::check_scalar("seed", in[0], DType::FP32);
  check_weighted(attrs, in.subspan(1));
  return {in[1]};
}

const AttrSpec kSmoothing = {"label_smoothing", 0.0, false,
                             "s: weight of the uniform target, 0 to 1"};
const AttrSpec kIgnore = {"ignore_index", ops::kNoIgnoredLabel, false,
                          "samples of this label do not count; the least int64: none"};

const OpRegistration kNorm{
    {.name = "class_norm",
     .inputs = {"labels", "class_weight"},
     .outputs = {"norm"},
     .attrs = {kIgnore},
     .num_optional_inputs = 1,
     .infer = infer_norm,
     .cost = ops::cost_per_input_element(1),
     .precision = Precision::HIGH,
     .doc = "N / sum of class_weight[label] over the samples whose label counts; 0 where none "
            "does, and labels outside the classes add nothing. 1 for probabilities."}};

const OpRegistration kWeighted{
    {.name = "weighted_nll",
     .inputs = {"logp", "labels", "class_weight", "norm"},
     .outputs = {"loss_sum"},
     .attrs = {kSmoothing, kIgnore},
     .num_optional_inputs = 2,
     .infer = infer_weighted,
     .gradient = gradient_weighted,
     .cost = ops::cost_per_input_element(4),
     .precision = Precision::HIGH,
     .doc = "norm * sum over samples that count of -(1 - s) w[label] logp[label] - s / C sum w "
            "logp; with probabilities q -sum w ((1 - s) q + s / C) logp. "
            "torch.nn.functional.cross_entropy(weight=w, ignore_index=...) times N, with norm from "
            "class_norm"}};

const OpRegistration kWeightedBackward{
    {.name = "weighted_nll_backward",
     .inputs = {"seed", "logp", "labels", "class_weight", "norm"},
     .outputs = {"dlogp"},
     .attrs = {kSmoothing, kIgnore},
     .num_optional_inputs = 2,
     .infer = infer_weighted_backward,
     .cost = ops::cost_per_element(3),
     .precision = Precision::HIGH,
     .doc = "dlogp = -seed * norm * w * target, 0 for samples that do not count; logp gives only "
            "its shape."}};

}  // namespace
}  // namespace tr

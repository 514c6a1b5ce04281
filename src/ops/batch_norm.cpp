// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/norm.h"

namespace tr {

BluePrint bn(float momentum, float eps, bool ends_branch, std::source_location where) {
  return layer("bn",
               {{"momentum", double(momentum)}, {"eps", double(eps)}, {"ends_branch", ends_branch}},
               1, where);
}

BluePrint bn_frozen(float eps, std::source_location where) {
  return layer("bn_frozen", {{"eps", double(eps)}}, 1, where);
}

namespace {

using ops::Ids;
using ops::Types;

std::vector<ParamSpec> parameters(const Attrs& attrs, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  TR_CHECK(x.rank() >= 2, "x has shape {}, expected [N, ..., C]", x);
  const TensorType type{Shape{x.back()}};
  FileLayout file;
  // After flatten the channels are pixels: (C, H, W) in files, (H, W, C) in memory.
  if (const std::vector<std::int64_t>& image = context.flattened_from; !image.empty()) {
    file = {.view = image, .order = {2, 0, 1}, .shape = {x.back()}};
  }
  return {
      {.name = "weight",
       .type = type,
       .kind = ParamKind::NORM_WEIGHT,
       .fill = 1,
       .branch_end = attrs.flag("ends_branch"),
       .file = file},
      {.name = "bias", .type = type, .kind = ParamKind::NORM_BIAS, .file = file},
      {.name = "running_mean", .type = type, .kind = ParamKind::BUFFER, .file = file},
      {.name = "running_var", .type = type, .kind = ParamKind::BUFFER, .fill = 1, .file = file}};
}

void check_inputs(const Attrs& attrs, Types in) {
  const double momentum = attrs.f64("momentum");
  TR_CHECK(momentum > 0 && momentum <= 1,
           "momentum is {}, expected 0 < momentum <= 1 (weight of the new batch)", momentum);
  ops::check_eps(attrs);
  ops::check_floating("x", in[0]);
  TR_CHECK(in[0].shape.rank() >= 2, "x has shape {}, expected [N, ..., C]", in[0].shape);
  const char* const kNames[] = {"weight", "bias", "running_mean", "running_var"};
  for (std::size_t i = 1; i < in.size(); ++i) {
    ops::check_same(kNames[i - 1], in[i], {Shape{in[0].shape.back()}}, "one a channel of x");
  }
}

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  check_inputs(attrs, in);
  const Shape& x = in[0].shape;
  TR_CHECK(
      x.drop_last().num_elements() != 1,
      "x has shape {}, one value a channel; expected more, training normalises with their variance",
      x);
  const TensorType channel = in[1];
  return {in[0], channel, channel, channel, channel};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  return builder.add_op(
      "bn_backward", {dout[0], node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2]});
}

/// The running statistics come out as they are: the step commits the next value of every buffer.
std::vector<TensorType> infer_frozen(const Attrs& attrs, Types in) {
  check_inputs(attrs, in);
  return {in[0], in[3], in[4]};
}

std::vector<TensorId> gradient_frozen(GraphBuilder& builder, const Node& node, Ids dout) {
  const std::vector<TensorId>& in = node.inputs;
  std::vector<TensorId> grads =
      builder.add_op("bn_frozen_backward", {dout[0], in[0], in[1], in[3], in[4]},
                     {{"eps", node.attrs.f64("eps")}});
  return grads;
}

std::vector<TensorType> infer_eval(const Attrs& attrs, Types in) {
  check_inputs(attrs, in);
  return {in[0]};
}

std::vector<TensorType> infer_gradients(Types in, const char* mean, const char* spread) {
  ops::check_floating("dy", in[0]);
  ops::check_same("x", in[1], in[0], "that of dy");
  const TensorType channel{Shape{in[0].shape.back()}};
  ops::check_same("weight", in[2], channel, "one a channel of x");
  ops::check_same(mean, in[3], channel, "one a channel of x");
  ops::check_same(spread, in[4], channel, "one a channel of x");
  return {in[0], channel, channel};
}

std::vector<TensorType> infer_backward(const Attrs&, Types in) {
  return infer_gradients(in, "mean", "rstd");
}

std::vector<TensorType> infer_frozen_backward(const Attrs& attrs, Types in) {
  ops::check_eps(attrs);
  return infer_gradients(in, "running_mean", "running_var");
}

const std::vector<AttrSpec> kAttrs = {
    {"momentum", 0.1, false, "weight of the new batch in the running statistics"},
    {"eps", 1e-5, false, "added to the variance"},
    {"ends_branch", false, false, "zero_gamma begins its weight at 0"}};
const std::vector<std::string> kInputs = {"x", "weight", "bias", "running_mean", "running_var"};

const OpRegistration kBn{
    {.name = "bn",
     .inputs = kInputs,
     .outputs = {"y", "mean", "rstd", "next_mean", "next_var"},
     .attrs = kAttrs,
     .infer = infer,
     .gradient = gradient,
     .cost = ops::cost_per_element(8),
     .parameters = parameters,
     .elementwise = true,
     .eval_op = "bn_eval",
     .next_buffers = {{3, 3}, {4, 4}},
     .doc = "y = (x - mean) * rstd * weight + bias with the batch's mean and biased variance; "
            "next_* are the running "
            "statistics after it. torch.nn.functional.batch_norm(training=True)"}};

const OpRegistration kBnEval{{.name = "bn_eval",
                              .inputs = kInputs,
                              .outputs = {"y"},
                              .attrs = kAttrs,
                              .infer = infer_eval,
                              .cost = ops::cost_per_element(2),
                              .in_place = {{0, 0}},
                              .doc = "bn with the running statistics. "
                                     "torch.nn.functional.batch_norm(training=False)"}};

const OpRegistration kBnBackward{
    {.name = "bn_backward",
     .inputs = {"dy", "x", "weight", "mean", "rstd"},
     .outputs = {"dx", "dweight", "dbias"},
     .infer = infer_backward,
     .cost = ops::cost_per_element(11),
     .in_place = {{0, 0}},
     .doc = "dbias = sum dy, dweight = sum dy xhat, dx = weight rstd (dy - dbias / n - "
            "xhat dweight / n) with xhat = (x - mean) rstd; sums in fp32."}};

const OpRegistration kBnFrozen{
    {.name = "bn_frozen",
     .inputs = kInputs,
     .outputs = {"y", "next_mean", "next_var"},
     .attrs = kAttrs,
     .infer = infer_frozen,
     .gradient = gradient_frozen,
     .cost = ops::cost_per_element(2),
     .parameters = parameters,
     .elementwise = true,
     .eval_op = "bn_eval",
     .next_buffers = {{1, 3}, {2, 4}},
     .doc = "bn with the running statistics in training too, which stay as they are: next_* are "
            "their copies. torch.nn.functional.batch_norm(training=False)"}};

const OpRegistration kBnFrozenBackward{
    {.name = "bn_frozen_backward",
     .inputs = {"dy", "x", "weight", "running_mean", "running_var"},
     .outputs = {"dx", "dweight", "dbias"},
     .attrs = {{"eps", 1e-5, false, "added to the variance"}},
     .infer = infer_frozen_backward,
     .cost = ops::cost_per_element(5),
     .in_place = {{0, 0}},
     .doc = "dbias = sum dy, dweight = sum dy xhat, dx = weight rstd dy with xhat = (x - "
            "running_mean) rstd, rstd = 1 / sqrt(running_var + eps); sums in fp32."}};

}  // namespace
}  // namespace tr

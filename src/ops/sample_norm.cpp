// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm, group_norm: statistics of each sample by itself, the same in training and
// outside of it.
#include "ops/sample_norm.h"

#include <string>

#include "core/check.h"
#include "core/format.h"
#include "renaissance/ops/norm.h"

namespace tr {

SampleNorm sample_norm(const Attrs& attrs, const Shape& x) {
  SampleNorm norm;
  if (attrs.contains("groups")) {
    TR_CHECK(x.rank() >= 2, "x has shape {}, expected [N, ..., C]", x);
    norm.groups = attrs.i64("groups");
    TR_CHECK(norm.groups >= 1 && x.back() % norm.groups == 0,
             "groups is {}, expected a divisor of {} (the last axis of x {})", norm.groups,
             x.back(), x);
    norm.samples = x[0];
    norm.channels = x.back() / norm.groups;
    for (int i = 1; i + 1 < x.rank(); ++i) norm.spatial *= x[i];
    norm.weight = Shape{x.back()};
    return norm;
  }
  const std::int64_t axes = attrs.i64("num_axes");
  TR_CHECK(axes >= 1 && axes < x.rank(), "num_axes is {}, expected 1 to {} (x has shape {})", axes,
           x.rank() - 1, x);
  const int first = x.rank() - int(axes);
  for (int i = 0; i < x.rank(); ++i) (i < first ? norm.samples : norm.channels) *= x[i];
  norm.weight = Shape(x.dims().subspan(std::size_t(first)));
  return norm;
}

namespace {

using ops::Ids;
using ops::Types;

struct Row {
  const char* name;
  bool has_mean;  // and a bias; else it only scales
  AttrSpec axes;
  double eps;
  const char* doc;
};

const std::vector<Row>& table() {
  const AttrSpec num_axes = {"num_axes", std::int64_t{1}, false, "how many of the last axes"};
  static const std::vector<Row> rows = {
      {"layer_norm", true, num_axes, 1e-5,
       "y = (x - mean) rstd weight + bias over the last axes, rstd = 1 / sqrt(biased variance + "
       "eps). torch.nn.functional.layer_norm"},
      {"rms_norm", false, num_axes, 1e-6,
       "y = x rstd weight over the last axes, rstd = 1 / sqrt(mean of x^2 + eps). "
       "torch.nn.functional.rms_norm"},
      {"group_norm",
       true,
       {"groups", std::int64_t{1}, true, "runs of channels"},
       1e-5,
       "y = (x - mean) rstd weight + bias with the statistics of each sample and run of channels. "
       "torch.nn.functional.group_norm, channels last"}};
  return rows;
}

std::vector<AttrSpec> attrs_of(const Row& row) {
  std::vector<AttrSpec> attrs = {row.axes, {"eps", row.eps, false, "added to the variance"}};
  if (row.has_mean) attrs.push_back({"bias", true, false, "whether bias is given"});
  return attrs;
}

bool has_bias(const Attrs& attrs) { return attrs.contains("bias") && attrs.flag("bias"); }

/// x, weight and, if it is there, bias; the sizes.
SampleNorm check(const Attrs& attrs, const TensorType& x, const TensorType& weight) {
  ops::check_floating("x", x);
  ops::check_eps(attrs);
  const SampleNorm norm = sample_norm(attrs, x.shape);
  ops::check_same("weight", weight, {norm.weight, DType::FP32}, "the normalised axes, channels");
  return norm;
}

std::vector<TensorType> infer_forward(const Row& row, const Attrs& attrs, Types in) {
  const SampleNorm norm = check(attrs, in[0], in[1]);
  if (has_bias(attrs)) {
    TR_CHECK(ops::given(in, 2), "bias is missing, expected it given (attribute bias)");
    ops::check_same("bias", in[2], in[1], "that of weight");
  } else {
    TR_CHECK(!ops::given(in, 2), "bias is given, expected it missing (attribute bias)");
  }
  const TensorType statistic{Shape{norm.samples, norm.groups}, DType::FP32};
  if (row.has_mean) return {in[0], statistic, statistic};
  return {in[0], statistic};
}

std::vector<TensorType> infer_backward(const Row& row, const Attrs& attrs, Types in) {
  ops::check_floating("dy", in[0]);
  ops::check_same("x", in[1], in[0], "that of dy");
  const SampleNorm norm = check(attrs, in[1], in[2]);
  const TensorType statistic{Shape{norm.samples, norm.groups}, DType::FP32};
  for (std::size_t i = 3; i < in.size(); ++i) {
    ops::check_same(row.has_mean && i == 3 ? "mean" : "rstd", in[i], statistic,
                    "one a sample and group");
  }
  std::vector<TensorType> out = {in[0], in[2]};
  if (has_bias(attrs)) out.push_back(in[2]);
  return out;
}

std::vector<TensorId> gradient(const Row& row, GraphBuilder& builder, const Node& node, Ids dout) {
  std::vector<TensorId> inputs = {dout[0], node.inputs[0], node.inputs[1], node.outputs[1]};
  if (row.has_mean) inputs.push_back(node.outputs[2]);
  return builder.add_op(std::string(row.name) + "_backward", inputs, node.attrs);
}

std::vector<ParamSpec> parameters(const Attrs& attrs, const LayerContext& context) {
  const SampleNorm norm = sample_norm(attrs, context.inputs[0].shape);
  std::vector<ParamSpec> specs = {
      {.name = "weight", .type = {norm.weight}, .kind = ParamKind::NORM_WEIGHT, .fill = 1}};
  if (has_bias(attrs)) {
    specs.push_back({.name = "bias", .type = {norm.weight}, .kind = ParamKind::NORM_BIAS});
  }
  return specs;
}

OpDef forward_def(const Row& row) {
  OpDef def;
  def.name = row.name;
  def.inputs = {"x", "weight"};
  def.outputs = {"y", "mean", "rstd"};
  if (row.has_mean) {
    def.inputs.push_back("bias");
    def.num_optional_inputs = 1;
  } else {
    def.outputs = {"y", "rstd"};
  }
  def.attrs = attrs_of(row);
  def.infer = [&row](const Attrs& attrs, Types in) { return infer_forward(row, attrs, in); };
  def.gradient = [&row](GraphBuilder& builder, const Node& node, Ids dout) {
    return gradient(row, builder, node, dout);
  };
  def.cost = ops::cost_per_element(8);
  def.parameters = parameters;
  def.doc = row.doc;
  return def;
}

OpDef backward_def(const Row& row) {
  OpDef def;
  def.name = std::string(row.name) + "_backward";
  def.inputs = {"dy", "x", "weight"};
  if (row.has_mean) def.inputs.push_back("mean");
  def.inputs.push_back("rstd");
  def.outputs = {"dx", "dweight"};
  if (row.has_mean) def.outputs.push_back("dbias");
  def.attrs = attrs_of(row);
  def.infer = [&row](const Attrs& attrs, Types in) { return infer_backward(row, attrs, in); };
  def.cost = ops::cost_per_element(14);
  def.num_outputs = [](const Attrs& attrs) { return has_bias(attrs) ? 3 : 2; };
  def.doc = fmt::format("The gradients of {}; sums in fp32.", row.name);
  return def;
}

const bool kRegistered = [] {
  for (const Row& row : table()) {
    OpRegistry::instance().add(forward_def(row));
    OpRegistry::instance().add(backward_def(row));
  }
  return true;
}();

}  // namespace

BluePrint layer_norm(float eps, int num_axes, bool bias, std::source_location where) {
  return layer("layer_norm",
               {{"eps", double(eps)}, {"num_axes", std::int64_t(num_axes)}, {"bias", bias}}, 1,
               where);
}

BluePrint rms_norm(float eps, int num_axes, std::source_location where) {
  return layer("rms_norm", {{"eps", double(eps)}, {"num_axes", std::int64_t(num_axes)}}, 1, where);
}

BluePrint group_norm(std::int64_t groups, float eps, bool bias, std::source_location where) {
  return layer("group_norm", {{"groups", groups}, {"eps", double(eps)}, {"bias", bias}}, 1, where);
}

}  // namespace tr

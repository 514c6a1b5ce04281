// SPDX-License-Identifier: Apache-2.0
#include "renaissance/ops/linear.h"

#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/rules.h"

namespace tr {

BluePrint fc(std::int64_t out_features, bool bias, std::source_location where) {
  TR_CHECK(out_features >= 1, "fc: out_features is {}, expected at least 1", out_features);
  return layer("fc", {{"out_features", out_features}, {"bias", bias}}, 1, where);
}

namespace {

using ops::Ids;
using ops::Types;

std::vector<ParamSpec> parameters(const Attrs& attrs, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  TR_CHECK(x.rank() >= 2, "x has shape {}, expected [N, ..., in_features]", x);
  const std::int64_t in = x.back(), out = attrs.i64("out_features");
  TR_CHECK(out >= 1, "out_features is {}, expected at least 1", out);
  ParamSpec weight{.name = "weight",
                   .type = {Shape{out, in}},
                   .kind = ParamKind::WEIGHT,
                   .fan_in = in,
                   .fan_out = out};
  // In files the columns stand in PyTorch's order (C, H, W), in memory in (H, W, C).
  const std::vector<std::int64_t>& image = context.flattened_from;
  if (!image.empty() && image[2] > 1 && image[0] * image[1] > 1) {
    weight.file = {
        .view = {out, image[0], image[1], image[2]}, .order = {0, 3, 1, 2}, .shape = {out, in}};
  }
  std::vector<ParamSpec> specs = {weight};
  if (attrs.flag("bias")) {
    specs.push_back({.name = "bias", .type = {Shape{out}}, .kind = ParamKind::BIAS});
  }
  return specs;
}

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  const TensorType &x = in[0], &weight = in[1];
  ops::check_floating("x", x);
  TR_CHECK(x.shape.rank() >= 2, "x has shape {}, expected [N, ..., in_features]", x.shape);
  ops::check_rank("weight", weight, 2, "[out_features, in_features]");
  const std::int64_t out = attrs.i64("out_features");
  TR_CHECK(out >= 0, "out_features is {}, expected at least 1", out);
  ops::check_shape("weight", weight, Shape{out > 0 ? out : weight.shape[0], x.shape.back()},
                   fmt::format("out_features and the last axis of x {}", x.shape));
  ops::check_dtype("weight", weight, x.dtype, "that of x");
  const bool bias = ops::given(in, 2);
  TR_CHECK(bias == attrs.flag("bias"), "bias is {}, expected it {} (attribute bias)",
           bias ? "given" : "missing", attrs.flag("bias") ? "given" : "missing");
  if (bias) {
    ops::check_shape("bias", in[2], Shape{weight.shape[0]}, "out_features");
    ops::check_dtype("bias", in[2], DType::FP32, "sums are fp32");
  }
  return {{x.shape.with_dim(x.shape.rank() - 1, weight.shape[0]), x.dtype}};
}

constexpr std::int64_t kMaskColumns = 128;  // a multiple: a mask's rows are whole 16 bytes

/// One bit an element of a rectifier's result. @throws InvalidArgument  it can have no mask.
TensorType mask_of(const TensorType& y) {
  const std::int64_t columns = y.shape.back();
  TR_CHECK(size_of(y.dtype) == 2 && columns % kMaskColumns == 0,
           "the rectifier's result is {}, expected 16 bits and rows of a multiple of {} for a mask",
           y, kMaskColumns);
  return {y.shape.with_dim(y.shape.rank() - 1, columns / 8), DType::UINT8};
}

std::vector<TensorType> infer_marked(const Attrs& attrs, Types in) {
  std::vector<TensorType> out = infer(attrs, in);
  TR_CHECK(attrs.str("activation") == "relu", "activation is '{}', expected 'relu' with a mask",
           attrs.str("activation"));
  out.push_back(mask_of(out[0]));
  return out;
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  TR_CHECK(node.attrs.str("activation").empty(),
           "activation is '{}' before the backward pass is made, expected ''",
           node.attrs.str("activation"));
  const bool bias = ops::given(node.inputs, 2);
  const TensorId dx = builder.add("fc_dx", {dout[0], node.inputs[1]});
  std::vector<TensorId> grads =
      builder.add_op("fc_dweight", {dout[0], node.inputs[0]}, {{"bias", bias}});
  grads.insert(grads.begin(), dx);
  return grads;
}

/// Multiply-adds of the product that all three ops are: rows x in x out.
Cost cost(const Attrs& attrs, Types in, Types out) {
  const std::int64_t rows_out = out[0].shape.num_elements();
  const std::int64_t bias = attrs.flag("bias") ? rows_out : 0;
  return {2 * rows_out * in[0].shape.back() + bias, ops::bytes_moved(in, out)};
}

std::vector<TensorType> infer_dx(const Attrs& attrs, Types in) {
  const TensorType &dy = in[0], &weight = in[1];
  ops::check_floating("dy", dy);
  ops::check_rank("weight", weight, 2, "[out_features, in_features]");
  ops::check_dtype("weight", weight, dy.dtype, "that of dy");
  TR_CHECK(dy.shape.rank() >= 2 && dy.shape.back() == weight.shape[0],
           "dy has shape {}, expected [N, ..., {}] (out_features of weight {})", dy.shape,
           weight.shape[0], weight.shape);
  const TensorType dx{dy.shape.with_dim(dy.shape.rank() - 1, weight.shape[1]), dy.dtype};
  TR_CHECK(ops::given(in, 2) == !attrs.str("activation").empty(),
           "gate is {}, expected it {} (activation '{}')", ops::given(in, 2) ? "given" : "missing",
           attrs.str("activation").empty() ? "missing" : "given", attrs.str("activation"));
  const bool mask = ops::given(in, 2) && in[2].dtype == DType::UINT8;
  if (mask && attrs.str("activation") == "relu") {
    ops::check_same("gate", in[2], mask_of(dx), "one bit an element of dx");
  } else if (ops::given(in, 2)) {
    ops::check_same("gate", in[2], dx, "that of dx");
  }
  return {dx};
}

Cost cost_dx(const Attrs&, Types in, Types out) {
  return {saturated_product({2, out[0].shape.num_elements(), in[0].shape.back()}),
          ops::bytes_moved(in, out)};
}

std::vector<TensorType> infer_dweight(const Attrs& attrs, Types in) {
  const TensorType &dy = in[0], &x = in[1];
  ops::check_floating("dy", dy);
  ops::check_dtype("x", x, dy.dtype, "that of dy");
  TR_CHECK(dy.shape.rank() >= 2 && x.shape.rank() == dy.shape.rank() &&
               x.shape.drop_last() == dy.shape.drop_last(),
           "x has shape {}, expected [.., in_features] with the rows of dy {}", x.shape, dy.shape);
  std::vector<TensorType> out = {{Shape{dy.shape.back(), x.shape.back()}, DType::FP32}};
  if (attrs.flag("bias")) out.push_back({Shape{dy.shape.back()}, DType::FP32});
  return out;
}

Cost cost_dweight(const Attrs& attrs, Types in, Types out) {
  const std::int64_t bias = attrs.flag("bias") ? in[0].shape.num_elements() : 0;
  return {
      saturated_sum(saturated_product({2, in[0].shape.num_elements(), in[1].shape.back()}), bias),
      ops::bytes_moved(in, out)};
}

const AttrSpec kActivation = {"activation", std::string(), false,
                              "set by fusion: name of an elementwise op"};
const AttrSpec kAlpha = {"alpha", 0.0, false, "of the activation"};

const OpRegistration kFc{{.name = "fc",
                          .inputs = {"x", "weight", "bias"},
                          .outputs = {"y"},
                          .attrs = {{"out_features", std::int64_t{0}, false, "0: from weight"},
                                    {"bias", true, false, "whether bias is given"},
                                    kActivation,
                                    kAlpha},
                          .num_optional_inputs = 1,
                          .infer = infer,
                          .gradient = gradient,
                          .cost = cost,
                          .parameters = parameters,
                          .precision = Precision::LOW,
                          .implied_flatten = true,
                          .doc = "y = activation(x W^T + b). torch.nn.functional.linear"}};

const OpRegistration kFcMarked{
    {.name = "fc_marked",
     .inputs = {"x", "weight", "bias"},
     .outputs = {"y", "mask"},
     .attrs = {{"out_features", std::int64_t{0}, false, "0: from weight"},
               {"bias", true, false, "whether bias is given"},
               {"activation", std::string("relu"), false, "relu"},
               kAlpha},
     .num_optional_inputs = 1,
     .infer = infer_marked,
     .cost = cost,
     .precision = Precision::LOW,
     .fused = true,
     .doc = "fc with relu; mask has a bit for each element, set where y is not <= 0."}};

const OpRegistration kFcDx{
    {.name = "fc_dx",
     .inputs = {"dy", "weight", "gate"},
     .outputs = {"dx"},
     .attrs = {kActivation, kAlpha},
     .num_optional_inputs = 1,
     .infer = infer_dx,
     .cost = cost_dx,
     .precision = Precision::LOW,
     .doc = "dx = (dy W) * activation'(gate); gate is what the activation saved, or relu's mask."}};

const OpRegistration kFcDweight{
    {.name = "fc_dweight",
     .inputs = {"dy", "x"},
     .outputs = {"dweight", "dbias"},
     .attrs = {{"bias", true, false, "whether dbias is wanted"}},
     .infer = infer_dweight,
     .cost = cost_dweight,
     .precision = Precision::LOW,
     .num_outputs = [](const Attrs& attrs) { return attrs.flag("bias") ? 2 : 1; },
     .doc = "dW = dy^T x and db = sum of dy over rows, in fp32."}};

}  // namespace
}  // namespace tr

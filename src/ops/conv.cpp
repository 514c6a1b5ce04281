// SPDX-License-Identifier: Apache-2.0
#include "renaissance/ops/conv.h"

#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/conv_geometry.h"
#include "ops/rules.h"

namespace tr {
namespace {

std::vector<std::int64_t> pair(Size2d size) { return {size.height, size.width}; }

/// What sets the number of channels that come out.
struct Channels {
  std::int64_t out = 0;  // 0: multiplier times those of x
  std::int64_t multiplier = 1;
  std::int64_t groups = 1;  // 0: one a channel of x
};

struct Window {
  Size2d kernel = 1, stride = 1, padding = 0;
};

BluePrint conv_layer(const Channels& channels, const Window& window, const ConvOptions& options,
                     std::source_location where) {
  return layer("conv",
               {{"out_channels", channels.out},
                {"multiplier", channels.multiplier},
                {"groups", channels.groups},
                {"kernel", pair(window.kernel)},
                {"stride", pair(window.stride)},
                {"padding", pair(window.padding)},
                {"dilation", pair(options.dilation)},
                {"bias", options.bias}},
               1, where);
}

}  // namespace

BluePrint conv(std::int64_t out_channels, Size2d kernel, Size2d stride, Size2d padding,
               ConvOptions options, std::source_location where) {
  TR_CHECK(out_channels >= 1, "conv: out_channels is {}, expected at least 1", out_channels);
  TR_CHECK(options.groups >= 1, "conv: groups is {}, expected at least 1", options.groups);
  return conv_layer({.out = out_channels, .groups = options.groups}, {kernel, stride, padding},
                    options, where);
}

BluePrint conv_dw(Size2d kernel, Size2d stride, Size2d padding, ConvOptions options,
                  std::source_location where) {
  TR_CHECK(options.groups == 1,
           "conv_dw: options.groups is {}, expected it unset (one group a channel)",
           options.groups);
  return conv_layer({.groups = 0}, {kernel, stride, padding}, options, where);
}

BluePrint group_conv(std::int64_t out_channels, std::int64_t groups, Size2d kernel, Size2d stride,
                     Size2d padding, ConvOptions options, std::source_location where) {
  TR_CHECK(options.groups == 1 || options.groups == groups,
           "group_conv: options.groups is {}, expected it unset (groups is {})", options.groups,
           groups);
  options.groups = groups;
  return conv(out_channels, kernel, stride, padding, options, where);
}

BluePrint conv_expand(std::int64_t factor, std::source_location where) {
  TR_CHECK(factor >= 1, "conv_expand: factor is {}, expected at least 1", factor);
  return conv_layer({.multiplier = factor}, {}, {}, where);
}

namespace {

using ops::Ids;
using ops::Types;

std::vector<ParamSpec> parameters(const Attrs& attrs, const LayerContext& context) {
  const ConvGeometry g = conv_geometry(attrs, context.inputs[0]);
  const std::int64_t cells = g.kernel[0] * g.kernel[1], in = g.channels / g.groups;
  ParamSpec weight{.name = "weight",
                   .type = {g.weight_shape()},
                   .kind = ParamKind::WEIGHT,
                   .fan_in = in * cells,
                   .fan_out = g.out_channels * cells};
  weight.file = {.view = {g.out_channels, g.kernel[0], g.kernel[1], in},
                 .order = {0, 3, 1, 2},
                 .shape = {g.out_channels, in, g.kernel[0], g.kernel[1]}};
  std::vector<ParamSpec> specs = {weight};
  if (attrs.flag("bias")) {
    specs.push_back({.name = "bias", .type = {Shape{g.out_channels}}, .kind = ParamKind::BIAS});
  }
  return specs;
}

void check_weight(const TensorType& weight, const ConvGeometry& g, DType dtype) {
  ops::check_shape("weight", weight, g.weight_shape(),
                   "[out_channels, kernel, channels of x / groups]");
  ops::check_dtype("weight", weight, dtype, "that of x");
}

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  const ConvGeometry g = conv_geometry(attrs, in[0]);
  check_weight(in[1], g, in[0].dtype);
  const bool bias = ops::given(in, 2);
  TR_CHECK(bias == attrs.flag("bias"), "bias is {}, expected it {} (attribute bias)",
           bias ? "given" : "missing", attrs.flag("bias") ? "given" : "missing");
  if (bias) {
    ops::check_shape("bias", in[2], Shape{g.out_channels}, "out_channels");
    ops::check_dtype("bias", in[2], DType::FP32, "sums are fp32");
  }
  return {{g.y_shape(), in[0].dtype}};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  const TensorId dx = builder.add("conv_dx", {dout[0], node.inputs[1], node.inputs[0]}, node.attrs);
  std::vector<TensorId> grads =
      builder.add_op("conv_dweight", {dout[0], node.inputs[0]}, node.attrs);
  grads.insert(grads.begin(), dx);
  return grads;
}

Cost cost(const Attrs& attrs, Types in, Types out) {
  const std::int64_t bias = attrs.flag("bias") ? out[0].shape.num_elements() : 0;
  return {saturated_sum(saturated_product({2, conv_geometry(attrs, in[0]).multiply_adds()}), bias),
          ops::bytes_moved(in, out)};
}

std::vector<TensorType> infer_dx(const Attrs& attrs, Types in) {
  const ConvGeometry g = conv_geometry(attrs, in[2]);
  ops::check_shape("dy", in[0], g.y_shape(), "that of y");
  check_weight(in[1], g, in[0].dtype);
  return {{in[2].shape, in[0].dtype}};
}

Cost cost_dx(const Attrs& attrs, Types in, Types out) {
  return {saturated_product({2, conv_geometry(attrs, out[0]).multiply_adds()}),
          ops::bytes_moved(in.first(2), out)};
}

std::vector<TensorType> infer_dweight(const Attrs& attrs, Types in) {
  const ConvGeometry g = conv_geometry(attrs, in[1]);
  ops::check_shape("dy", in[0], g.y_shape(), "that of y");
  ops::check_dtype("dy", in[0], in[1].dtype, "that of x");
  std::vector<TensorType> out = {{g.weight_shape(), DType::FP32}};
  if (attrs.flag("bias")) out.push_back({Shape{g.out_channels}, DType::FP32});
  return out;
}

Cost cost_dweight(const Attrs& attrs, Types in, Types out) {
  const std::int64_t bias = attrs.flag("bias") ? in[0].shape.num_elements() : 0;
  return {saturated_sum(saturated_product({2, conv_geometry(attrs, in[1]).multiply_adds()}), bias),
          ops::bytes_moved(in, out)};
}

const std::vector<std::int64_t> kOnes = {1, 1}, kZeros = {0, 0};

const std::vector<AttrSpec> kAttrs = {
    {"out_channels", std::int64_t{0}, false, "0: multiplier times the channels of x"},
    {"multiplier", std::int64_t{1}, false, "with out_channels 0"},
    {"groups", std::int64_t{1}, false, "0: one a channel of x (depthwise)"},
    {"kernel", kOnes, true, "height, width"},
    {"stride", kOnes, false, "height, width"},
    {"padding", kZeros, false, "zeros on both sides: height, width"},
    {"dilation", kOnes, false, "height, width"},
    {"bias", false, false, "whether bias is given"}};

const OpRegistration kConv{{.name = "conv",
                            .inputs = {"x", "weight", "bias"},
                            .outputs = {"y"},
                            .attrs = kAttrs,
                            .num_optional_inputs = 1,
                            .infer = infer,
                            .gradient = gradient,
                            .cost = cost,
                            .parameters = parameters,
                            .precision = Precision::LOW,
                            .doc = "Cross-correlation of [N, H, W, C] with [O, R, S, C / groups]. "
                                   "torch.nn.functional.conv2d"}};

std::vector<TensorType> infer_statistics(const Attrs& attrs, Types in) {
  std::vector<TensorType> out = infer(attrs, in);
  out.push_back({Shape{2, out[0].shape.back()}, DType::FP32});
  return out;
}

const OpRegistration kConvStatistics{
    {.name = "conv_statistics",
     .inputs = {"x", "weight"},
     .outputs = {"y", "statistics"},
     .attrs = kAttrs,
     .infer = infer_statistics,
     .cost = cost,
     .precision = Precision::LOW,
     .fused = true,
     .doc =
         "conv without a bias; statistics are the sums of y and of its squares, a channel each."}};

const OpRegistration kConvDx{{.name = "conv_dx",
                              .inputs = {"dy", "weight", "x"},
                              .outputs = {"dx"},
                              .attrs = kAttrs,
                              .infer = infer_dx,
                              .cost = cost_dx,
                              .precision = Precision::LOW,
                              .type_only_from = 2,
                              .doc = "Gradient of conv for x. torch.nn.grad.conv2d_input"}};

const OpRegistration kConvDweight{
    {.name = "conv_dweight",
     .inputs = {"dy", "x"},
     .outputs = {"dweight", "dbias"},
     .attrs = kAttrs,
     .infer = infer_dweight,
     .cost = cost_dweight,
     .precision = Precision::LOW,
     .num_outputs = [](const Attrs& a) { return a.flag("bias") ? 2 : 1; },
     .doc = "Gradient of conv for weight and bias, in fp32. "
            "torch.nn.grad.conv2d_weight"}};

}  // namespace
}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "renaissance/ops/pooling.h"

#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/conv_geometry.h"
#include "ops/rules.h"

namespace tr {
namespace {

Attrs pool_attrs(Size2d kernel, Size2d stride, Size2d padding, const PoolOptions& options) {
  return {{"kernel", std::vector<std::int64_t>{kernel.height, kernel.width}},
          {"stride", std::vector<std::int64_t>{stride.height, stride.width}},
          {"padding", std::vector<std::int64_t>{padding.height, padding.width}},
          {"ceil_mode", options.ceil_mode}};
}

}  // namespace

BluePrint maxpool(Size2d kernel, Size2d stride, Size2d padding, PoolOptions options,
                  std::source_location where) {
  return layer("maxpool", pool_attrs(kernel, stride, padding, options), 1, where);
}

BluePrint maxpool(Size2d kernel, std::source_location where) {
  return maxpool(kernel, kernel, 0, {}, where);
}

BluePrint avgpool(Size2d kernel, Size2d stride, Size2d padding, PoolOptions options,
                  std::source_location where) {
  return layer("avgpool",
               pool_attrs(kernel, stride, padding, options)
                   .set("count_include_pad", options.count_include_pad),
               1, where);
}

BluePrint avgpool(Size2d kernel, std::source_location where) {
  return avgpool(kernel, kernel, 0, {}, where);
}

BluePrint adaptive_avgpool(Size2d size, std::source_location where) {
  return layer("adaptive_avgpool", {{"size", std::vector<std::int64_t>{size.height, size.width}}},
               1, where);
}

BluePrint gap(std::source_location where) { return layer("gap", {}, 1, where); }

namespace {

using ops::Ids;
using ops::Types;

constexpr std::int64_t kMaxWindow = 256;  // places fit one byte

std::vector<TensorType> infer_maxpool(const Attrs& attrs, Types in) {
  const PoolGeometry g = pool_geometry(attrs, in[0]);
  TR_CHECK(g.kernel[0] * g.kernel[1] <= kMaxWindow,
           "kernel [{}, {}] has {} cells, expected at most {}", g.kernel[0], g.kernel[1],
           g.kernel[0] * g.kernel[1], kMaxWindow);
  return {{g.y_shape(), in[0].dtype}, {g.y_shape(), DType::UINT8}};
}

std::vector<TensorId> gradient_maxpool(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("maxpool_backward", {dout[0], node.outputs[1], node.inputs[0]}, node.attrs)};
}

std::vector<TensorType> infer_maxpool_backward(const Attrs& attrs, Types in) {
  const PoolGeometry g = pool_geometry(attrs, in[2]);
  ops::check_shape("dy", in[0], g.y_shape(), "that of y");
  ops::check_floating("dy", in[0]);
  ops::check_same("index", in[1], {g.y_shape(), DType::UINT8}, "one byte an element of y");
  return {{in[2].shape, in[0].dtype}};
}

std::vector<TensorType> infer_avgpool(const Attrs& attrs, Types in) {
  return {{pool_geometry(attrs, in[0]).y_shape(), in[0].dtype}};
}

std::vector<TensorId> gradient_avgpool(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("avgpool_backward", {dout[0], node.inputs[0]}, node.attrs)};
}

std::vector<TensorType> infer_avgpool_backward(const Attrs& attrs, Types in) {
  ops::check_shape("dy", in[0], pool_geometry(attrs, in[1]).y_shape(), "that of y");
  ops::check_floating("dy", in[0]);
  return {{in[1].shape, in[0].dtype}};
}

std::vector<TensorType> infer_adaptive(const Attrs& attrs, Types in) {
  const AdaptiveGeometry g = adaptive_geometry(attrs, in[0]);
  return {{g.y_shape(), in[0].dtype}};
}

std::vector<TensorId> gradient_adaptive(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("adaptive_avgpool_backward", {dout[0], node.inputs[0]}, node.attrs)};
}

std::vector<TensorType> infer_adaptive_backward(const Attrs& attrs, Types in) {
  ops::check_shape("dy", in[0], adaptive_geometry(attrs, in[1]).y_shape(), "that of y");
  ops::check_floating("dy", in[0]);
  return {{in[1].shape, in[0].dtype}};
}

/// One operation a cell of each window.
Cost cost_pool(const Attrs& attrs, Types in, Types out) {
  const std::vector<std::int64_t>& kernel = attrs.ints("kernel");
  return {saturated_product({out[0].shape.num_elements(), kernel[0], kernel[1]}),
          ops::bytes_moved(in, out)};
}

std::vector<TensorType> infer_gap(const Attrs&, Types in) {
  ops::check_floating("x", in[0]);
  ops::check_rank("x", in[0], 4, "[N, H, W, C]");
  return {{Shape{in[0].shape[0], 1, 1, in[0].shape[3]}, in[0].dtype}};
}

std::vector<TensorId> gradient_gap(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("gap_backward", {dout[0], node.inputs[0]})};
}

std::vector<TensorType> infer_gap_backward(const Attrs& attrs, Types in) {
  ops::check_shape("dy", in[0], infer_gap(attrs, in.subspan(1)).front().shape, "that of y");
  ops::check_floating("dy", in[0]);
  return {{in[1].shape, in[0].dtype}};
}

const std::vector<std::int64_t> kOnes = {1, 1}, kZeros = {0, 0};

std::vector<AttrSpec> attrs_of(bool average) {
  std::vector<AttrSpec> attrs = {
      {"kernel", kOnes, true, "height, width"},
      {"stride", kOnes, true, "height, width"},
      {"padding", kZeros, false, "height, width; at most half the kernel"},
      {"ceil_mode", false, false, "round the output size up"}};
  if (average)
    attrs.push_back({"count_include_pad", true, false, "padded cells count in the divisor"});
  return attrs;
}

const OpRegistration kMaxpool{
    {.name = "maxpool",
     .inputs = {"x"},
     .outputs = {"y", "index"},
     .attrs = attrs_of(false),
     .infer = infer_maxpool,
     .gradient = gradient_maxpool,
     .cost = cost_pool,
     .doc = "Maximum of each window; index is its cell, row by row, the first on ties. "
            "torch.nn.functional.max_pool2d"}};

const OpRegistration kMaxpoolBackward{
    {.name = "maxpool_backward",
     .inputs = {"dy", "index", "x"},
     .outputs = {"dx"},
     .attrs = attrs_of(false),
     .infer = infer_maxpool_backward,
     .cost = ops::cost_per_element(1, 2),
     .type_only_from = 2,
     .doc = "dx sums dy over the windows whose maximum the cell is."}};

const OpRegistration kAvgpool{
    {.name = "avgpool",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = attrs_of(true),
     .infer = infer_avgpool,
     .gradient = gradient_avgpool,
     .cost = cost_pool,
     .doc = "Mean of each window, summed in fp32. torch.nn.functional.avg_pool2d"}};

const OpRegistration kAvgpoolBackward{
    {.name = "avgpool_backward",
     .inputs = {"dy", "x"},
     .outputs = {"dx"},
     .attrs = attrs_of(true),
     .infer = infer_avgpool_backward,
     .cost = ops::cost_per_element(1, 1),
     .type_only_from = 1,
     .doc = "dx sums dy / divisor over the windows that hold the cell."}};

const std::vector<AttrSpec> kAdaptiveAttrs = {{"size", kOnes, true, "height, width of y"}};

const OpRegistration kAdaptive{
    {.name = "adaptive_avgpool",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = kAdaptiveAttrs,
     .infer = infer_adaptive,
     .gradient = gradient_adaptive,
     .cost = ops::cost_per_input_element(1),
     .doc = "Mean of the cells [floor(p H / P), ceil((p + 1) H / P)) for each p, along both axes, "
            "summed in fp32. torch.nn.functional.adaptive_avg_pool2d"}};

const OpRegistration kAdaptiveBackward{
    {.name = "adaptive_avgpool_backward",
     .inputs = {"dy", "x"},
     .outputs = {"dx"},
     .attrs = kAdaptiveAttrs,
     .infer = infer_adaptive_backward,
     .cost = ops::cost_per_element(1, 1),
     .type_only_from = 1,
     .doc = "dx sums dy / cells over the windows that hold the cell."}};

const OpRegistration kGap{{.name = "gap",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .infer = infer_gap,
                           .gradient = gradient_gap,
                           .cost = ops::cost_per_input_element(1),
                           .doc = "Mean over height and width, summed in fp32. "
                                  "torch.nn.functional.adaptive_avg_pool2d(x, 1)"}};

const OpRegistration kGapBackward{{.name = "gap_backward",
                                   .inputs = {"dy", "x"},
                                   .outputs = {"dx"},
                                   .infer = infer_gap_backward,
                                   .cost = ops::cost_per_element(1, 1),
                                   .type_only_from = 1,
                                   .doc = "dx = dy / (H W) at every cell."}};

}  // namespace
}  // namespace tr

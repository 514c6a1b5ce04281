// SPDX-License-Identifier: Apache-2.0
// The gradient of a network's first convolution with that of the norm behind it: nobody wants the
// gradient of the picture, so the gradient between the two need not be written. Only lowering makes
// these (graph/passes/fuse_first_gradient.cpp), where a device has a kernel of them.
#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/conv_geometry.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Types;

const std::vector<std::int64_t> kOnes = {1, 1}, kZeros = {0, 0};

/// Those of conv; kernels ask for a bias, which lowering never gives.
const std::vector<AttrSpec> kConvAttrs = {{"out_channels", std::int64_t{0}, false, ""},
                                          {"multiplier", std::int64_t{1}, false, ""},
                                          {"groups", std::int64_t{1}, false, ""},
                                          {"kernel", kOnes, true, "height, width"},
                                          {"stride", kOnes, false, ""},
                                          {"padding", kZeros, false, ""},
                                          {"dilation", kOnes, false, ""},
                                          {"bias", false, false, "false"}};

/// What either op has of its norm: x [N, H, W, C], and weight, bias, mean and rstd from input 2 on.
void check_norm(Types in, const ConvGeometry& g, const TensorType& picture) {
  ops::check_same("x", in[1], {g.y_shape(), picture.dtype}, "y of the convolution");
  const TensorType channel{Shape{g.out_channels}};
  const char* names[] = {"weight", "bias", "mean", "rstd"};
  for (std::size_t i = 0; i < 4; ++i) {
    ops::check_same(names[i], in[2 + i], channel, "one a channel of x");
  }
}

std::vector<TensorType> gradients(const ConvGeometry& g) {
  const TensorType channel{Shape{g.out_channels}};
  return {{g.weight_shape()}, channel, channel};
}

std::vector<TensorType> infer_act(const Attrs& attrs, Types in) {
  const ConvGeometry g = conv_geometry(attrs, in[6]);
  check_norm(in, g, in[6]);
  ops::check_same("dy", in[0], in[1], "that of x");
  return gradients(g);
}

std::vector<TensorType> infer_maxpool(const Attrs& attrs, Types in) {
  const ConvGeometry g = conv_geometry(attrs, in[7]);
  check_norm(in, g, in[7]);
  const TensorType y{prefixed_pool_geometry(attrs, in[1]).y_shape(), in[1].dtype};
  ops::check_same("dy", in[0], y, "the pooled x");
  ops::check_same("index", in[6], {y.shape, DType::UINT8}, "one byte an element of y");
  return gradients(g);
}

std::vector<AttrSpec> with_pool(std::vector<AttrSpec> attrs) {
  attrs.insert(attrs.end(), {{"pool_kernel", kOnes, true, ""},
                             {"pool_stride", kOnes, true, ""},
                             {"pool_padding", kZeros, false, ""},
                             {"pool_ceil_mode", false, false, ""}});
  return attrs;
}

Cost cost(const ConvGeometry& g, Types in, Types out) {
  return {saturated_sum(saturated_product({4, g.multiply_adds()}),
                        saturated_product({8, in[1].shape.num_elements()})),
          ops::bytes_moved(in, out)};
}

const OpRegistration kBnActConvDweight{
    {.name = "bn_act_conv_dweight",
     .inputs = {"dy", "x", "weight", "bias", "mean", "rstd", "picture"},
     .outputs = {"dconv_weight", "dweight", "dbias"},
     .attrs = kConvAttrs,
     .infer = infer_act,
     .cost = [](const Attrs& attrs, Types in,
                Types out) { return cost(conv_geometry(attrs, in[6]), in, out); },
     .precision = Precision::LOW,
     .fused = true,
     .doc = "relu_backward, bn_backward and conv_dweight of the convolution in front of them."}};

const OpRegistration kBnMaxpoolConvDweight{
    {.name = "bn_maxpool_conv_dweight",
     .inputs = {"dy", "x", "weight", "bias", "mean", "rstd", "index", "picture"},
     .outputs = {"dconv_weight", "dweight", "dbias"},
     .attrs = with_pool(kConvAttrs),
     .infer = infer_maxpool,
     .cost = [](const Attrs& attrs, Types in,
                Types out) { return cost(conv_geometry(attrs, in[7]), in, out); },
     .precision = Precision::LOW,
     .fused = true,
     .doc = "maxpool_backward, relu_backward, bn_backward and conv_dweight of the convolution in "
            "front of them."}};

}  // namespace
}  // namespace tr

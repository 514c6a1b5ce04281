// SPDX-License-Identifier: Apache-2.0
// A network's first convolution with the norm behind it: nobody wants the gradient of the picture,
// so the gradient between the two need not be written, nor, where the norm knows its statistics
// from the picture, what the convolution makes. Only lowering makes these
// (graph/passes/fuse_first_conv.cpp), where a device has a kernel of them.
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

std::vector<TensorType> gradients(const ConvGeometry& g) {
  const TensorType channel{Shape{g.out_channels}};
  return {{g.weight_shape()}, channel, channel};
}

/// One bit an element of y.
TensorType mask_type(const ConvGeometry& g) {
  return {Shape{(g.y_shape().num_elements() + 7) / 8}, DType::UINT8};
}

/// Sums over all windows: of the products of each two terms less their means, then of the terms.
TensorType moments_type(const ConvGeometry& g) {
  const std::int64_t terms = g.kernel[0] * g.kernel[1] * g.channels;
  return {Shape{terms + 1, terms}};
}

ConvGeometry whole_geometry(const Attrs& attrs, const TensorType& picture) {
  const ConvGeometry g = conv_geometry(attrs, picture);
  TR_CHECK(g.groups == 1, "groups is {}, expected 1", g.groups);
  return g;
}

void check_channels(Types in, const ConvGeometry& g, std::size_t first,
                    std::initializer_list<const char*> names) {
  for (const char* name : names) {
    ops::check_same(name, in[first++], {Shape{g.out_channels}}, "one a channel of y");
  }
}

std::vector<TensorType> infer_forward(const Attrs& attrs, Types in) {
  const ConvGeometry g = whole_geometry(attrs, in[0]);
  ops::check_same("conv_weight", in[1], {g.weight_shape(), in[0].dtype},
                  "[out_channels, kernel, channels of the picture]");
  check_channels(in, g, 2, {"weight", "bias", "running_mean", "running_var"});
  const TensorType channel{Shape{g.out_channels}};
  return {{g.y_shape(), in[0].dtype},
          channel,
          channel,
          channel,
          channel,
          mask_type(g),
          moments_type(g)};
}

std::vector<TensorType> infer_act(const Attrs& attrs, Types in) {
  const ConvGeometry g = whole_geometry(attrs, in[7]);
  ops::check_same("dy", in[0], {g.y_shape(), in[7].dtype}, "y of the convolution");
  ops::check_same("mask", in[1], mask_type(g), "one bit an element of y");
  check_channels(in, g, 2, {"weight", "mean", "rstd"});
  ops::check_same("moments", in[5], moments_type(g), "those of the picture's windows");
  ops::check_same("conv_weight", in[6], {g.weight_shape(), in[7].dtype},
                  "[out_channels, kernel, channels of the picture]");
  return gradients(g);
}

std::vector<TensorType> infer_maxpool(const Attrs& attrs, Types in) {
  const ConvGeometry g = conv_geometry(attrs, in[7]);
  ops::check_same("x", in[1], {g.y_shape(), in[7].dtype}, "y of the convolution");
  check_channels(in, g, 2, {"weight", "bias", "mean", "rstd"});
  const TensorType y{prefixed_pool_geometry(attrs, in[1]).y_shape(), in[1].dtype};
  ops::check_same("dy", in[0], y, "the pooled x");
  ops::check_same("index", in[6], {y.shape, DType::UINT8}, "one byte an element of y");
  return gradients(g);
}

std::vector<AttrSpec> with_norm(std::vector<AttrSpec> attrs) {
  attrs.insert(attrs.end(), {{"momentum", 0.1, false, ""}, {"eps", 1e-5, false, ""}});
  return attrs;
}

std::vector<AttrSpec> with_pool(std::vector<AttrSpec> attrs) {
  attrs.insert(attrs.end(), {{"pool_kernel", kOnes, true, ""},
                             {"pool_stride", kOnes, true, ""},
                             {"pool_padding", kZeros, false, ""},
                             {"pool_ceil_mode", false, false, ""}});
  return attrs;
}

Cost cost(std::int64_t multiply_adds, std::int64_t for_each, std::int64_t elements, Types in,
          Types out) {
  return {
      saturated_sum(saturated_product({2, multiply_adds}), saturated_product({for_each, elements})),
      ops::bytes_moved(in, out)};
}

const OpRegistration kConvBnAct{
    {.name = "conv_bn_act",
     .inputs = {"picture", "conv_weight", "weight", "bias", "running_mean", "running_var"},
     .outputs = {"y", "mean", "rstd", "next_mean", "next_var", "mask", "moments"},
     .attrs = with_norm(kConvAttrs),
     .infer = infer_forward,
     .cost =
         [](const Attrs& attrs, Types in, Types out) {
           return cost(conv_geometry(attrs, in[0]).multiply_adds(), 10, out[0].shape.num_elements(),
                       in, out);
         },
     .precision = Precision::LOW,
     .fused = true,
     .doc = "conv, bn and relu, whose statistics come from the moments of the picture's windows; "
            "one bit an element: the rectifier let it through."}};

const OpRegistration kConvBnActDweight{
    {.name = "conv_bn_act_dweight",
     .inputs = {"dy", "mask", "weight", "mean", "rstd", "moments", "conv_weight", "picture"},
     .outputs = {"dconv_weight", "dweight", "dbias"},
     .attrs = kConvAttrs,
     .infer = infer_act,
     .cost =
         [](const Attrs& attrs, Types in, Types out) {
           return cost(conv_geometry(attrs, in[7]).multiply_adds(), 1, in[0].shape.num_elements(),
                       in, out);
         },
     .precision = Precision::LOW,
     .fused = true,
     .doc = "relu_backward, bn_backward and conv_dweight behind conv_bn_act."}};

const OpRegistration kBnMaxpoolConvDweight{
    {.name = "bn_maxpool_conv_dweight",
     .inputs = {"dy", "x", "weight", "bias", "mean", "rstd", "index", "picture"},
     .outputs = {"dconv_weight", "dweight", "dbias"},
     .attrs = with_pool(kConvAttrs),
     .infer = infer_maxpool,
     .cost =
         [](const Attrs& attrs, Types in, Types out) {
           return cost(saturated_product({2, conv_geometry(attrs, in[7]).multiply_adds()}), 8,
                       in[1].shape.num_elements(), in, out);
         },
     .precision = Precision::LOW,
     .fused = true,
     .doc = "maxpool_backward, relu_backward, bn_backward and conv_dweight of the convolution in "
            "front of them."}};

}  // namespace
}  // namespace tr

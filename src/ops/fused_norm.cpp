// SPDX-License-Identifier: Apache-2.0
// Batch norm with what stands around it: rectifier, residual sum, 2x2 pooling. Only lowering makes
// these (graph/passes/fuse_batch_norm.cpp, fuse_norm_pool.cpp), where a device has a kernel of
// them.
#include <array>

#include "core/check.h"
#include "core/format.h"
#include "ops/conv_geometry.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Types;

TensorType channel_of(const TensorType& x) { return {Shape{x.shape.back()}}; }

/// Inputs [first, first + names.size()) are one number a channel of x.
template <std::size_t N>
void check_channels(Types in, const TensorType& x, std::size_t first,
                    const std::array<const char*, N>& names) {
  for (std::size_t i = 0; i < N; ++i) {
    ops::check_same(names[i], in[first + i], channel_of(x), "one a channel of x");
  }
}

void check_x(const TensorType& x) {
  ops::check_floating("x", x);
  TR_CHECK(x.shape.rank() >= 2, "x has shape {}, expected [N, ..., C]", x.shape);
}

constexpr std::array<const char*, 4> kParameters = {"weight", "bias", "running_mean",
                                                    "running_var"};

constexpr std::array<const char*, 4> kOfResidual = {"residual_weight", "residual_bias",
                                                    "residual_mean", "residual_rstd"};

/// Sum of x and of its squares, as a convolution leaves them behind.
void check_statistics(Types in, std::size_t i) {
  if (!ops::given(in, i)) return;
  ops::check_same("statistics", in[i], {Shape{2, in[0].shape.back()}},
                  "sums of x and of its squares");
}

TensorType mask_type(const TensorType& x) {
  return {Shape{(x.shape.num_elements() + 7) / 8}, DType::UINT8};
}

std::vector<TensorType> infer_act(const Attrs& attrs, Types in) {
  check_x(in[0]);
  check_channels(in, in[0], 1, kParameters);
  if (ops::given(in, 5)) ops::check_same("residual", in[5], in[0], "that of x");
  check_statistics(in, 6);
  const TensorType channel = channel_of(in[0]);
  if (ops::given(in, 7)) {
    TR_CHECK(in.size() == 11 && ops::given(in, 5),
             "there are {} inputs, expected 11 where the residual is normalised", in.size());
    check_channels(in, in[0], 7, kOfResidual);
  }
  std::vector<TensorType> out = {in[0], channel, channel, channel, channel};
  if (attrs.flag("mask")) {
    TR_CHECK(ops::given(in, 5), "residual is missing, expected it where a mask is wanted");
    out.push_back(mask_type(in[0]));
  }
  return out;
}

std::vector<TensorType> infer_statistics(const Attrs&, Types in) {
  check_x(in[0]);
  check_channels(in, in[0], 1, std::array{"running_mean", "running_var"});
  check_statistics(in, 3);
  return std::vector<TensorType>(4, channel_of(in[0]));
}

std::vector<TensorType> infer_eval_act(const Attrs&, Types in) {
  check_x(in[0]);
  check_channels(in, in[0], 1, kParameters);
  if (ops::given(in, 5)) ops::check_same("residual", in[5], in[0], "that of x");
  return {in[0]};
}

constexpr std::array<const char*, 4> kSaved = {"weight", "bias", "mean", "rstd"};

/// A second gradient of y: all of x's pixels, or those at multiples of more_stride, the others
/// being zero.
void check_more(const Attrs& attrs, const TensorType& more, const TensorType& x) {
  const std::vector<std::int64_t>& stride = attrs.ints("more_stride");
  const bool counts = stride.size() == 2 && stride[0] >= 1 && stride[1] >= 1;
  TR_CHECK(counts, "more_stride is [{}], expected height and width of at least 1",
           fmt::join(stride, ", "));
  if (stride[0] == 1 && stride[1] == 1) return ops::check_same("more", more, x, "that of x");
  ops::check_rank("x", x, 4, "[N, H, W, C]");
  const Shape pixels = {x.shape[0], (x.shape[1] - 1) / stride[0] + 1,
                        (x.shape[2] - 1) / stride[1] + 1, x.shape[3]};
  ops::check_same("more", more, {pixels, x.dtype}, "pixels of x at multiples of more_stride");
}

std::vector<TensorType> infer_act_backward(const Attrs& attrs, Types in) {
  check_x(in[1]);
  ops::check_same("dy", in[0], in[1], "that of x");
  check_channels(in, in[1], 2, kSaved);
  if (ops::given(in, 6)) check_more(attrs, in[6], in[1]);
  const TensorType channel = channel_of(in[1]);
  std::vector<TensorType> out = {in[1], channel, channel};
  const bool residual = attrs.flag("residual");
  TR_CHECK(ops::given(in, 7) == residual, "mask is {}, expected it {} (attribute residual)",
           ops::given(in, 7) ? "given" : "missing", residual ? "given" : "missing");
  if (residual) {
    ops::check_same("mask", in[7], mask_type(in[1]), "one bit an element of x");
    out.push_back(in[1]);
  }
  return out;
}

std::vector<TensorType> infer_join_backward(const Attrs& attrs, Types in) {
  check_x(in[1]);
  ops::check_same("dy", in[0], in[1], "that of x");
  ops::check_same("mask", in[5], mask_type(in[1]), "one bit an element of x");
  ops::check_same("other_x", in[6], in[1], "that of x");
  check_channels(in, in[1], 2, std::array{"weight", "mean", "rstd"});
  check_channels(in, in[1], 7, std::array{"other_weight", "other_mean", "other_rstd"});
  if (ops::given(in, 10)) check_more(attrs, in[10], in[1]);
  const TensorType channel = channel_of(in[1]);
  return {in[1], channel, channel, in[1], channel, channel};
}

/// [N, H, W, C] -> [N, H / 2, W / 2, C].
TensorType halved(const TensorType& x) {
  ops::check_rank("x", x, 4, "[N, H, W, C]");
  TR_CHECK(x.shape[1] % 2 == 0 && x.shape[2] % 2 == 0,
           "x has shape {}, expected even height and width", x.shape);
  return {Shape{x.shape[0], x.shape[1] / 2, x.shape[2] / 2, x.shape[3]}, x.dtype};
}

/// Two bits an element of y: cell of the maximum, row by row; 8 channels are 16 bits.
TensorType index_type(const TensorType& y) {
  return {Shape{(y.shape.num_elements() + 3) / 4}, DType::UINT8};
}

std::vector<TensorType> infer_pool(const Attrs&, Types in) {
  check_x(in[0]);
  check_channels(in, in[0], 1, kParameters);
  check_statistics(in, 5);
  const TensorType channel = channel_of(in[0]), y = halved(in[0]);
  return {y, channel, channel, channel, channel, index_type(y)};
}

std::vector<TensorType> infer_pool_backward(const Attrs&, Types in) {
  check_x(in[1]);
  const TensorType y = halved(in[1]);
  ops::check_same("dy", in[0], y, "half of x");
  check_channels(in, in[1], 2, kSaved);
  ops::check_same("index", in[6], index_type(y), "two bits an element of y");
  const TensorType channel = channel_of(in[1]);
  return {in[1], channel, channel};
}

/// The cell of the maximum. Where that is 0 nothing reads which it is: kernels may put another
/// number.
TensorType cell_index_type(const TensorType& y) { return {y.shape, DType::UINT8}; }

std::vector<TensorType> infer_maxpool(const Attrs& attrs, Types in) {
  check_x(in[0]);
  check_channels(in, in[0], 1, kParameters);
  check_statistics(in, 5);
  const TensorType channel = channel_of(in[0]);
  const TensorType y{pool_geometry(attrs, in[0]).y_shape(), in[0].dtype};
  return {y, channel, channel, channel, channel, cell_index_type(y)};
}

std::vector<TensorType> infer_maxpool_backward(const Attrs& attrs, Types in) {
  check_x(in[1]);
  const TensorType y{pool_geometry(attrs, in[1]).y_shape(), in[1].dtype};
  ops::check_same("dy", in[0], y, "the pooled x");
  check_channels(in, in[1], 2, kSaved);
  ops::check_same("index", in[6], cell_index_type(y), "one byte an element of y");
  const TensorType channel = channel_of(in[1]);
  return {in[1], channel, channel};
}

const AttrSpec kMomentum = {"momentum", 0.1, false, ""};
const AttrSpec kEps = {"eps", 1e-5, false, ""};
const AttrSpec kActivation = {"activation", std::string(), false, "relu, or none"};
const std::vector<std::int64_t> kOnes = {1, 1}, kZeros = {0, 0};
const AttrSpec kMoreStride = {"more_stride", kOnes, false,
                              "height, width: more has the pixels at its multiples alone"};

const OpRegistration kBnAct{
    {.name = "bn_act",
     .inputs = {"x", "weight", "bias", "running_mean", "running_var", "residual", "statistics",
                "residual_weight", "residual_bias", "residual_mean", "residual_rstd"},
     .outputs = {"y", "mean", "rstd", "next_mean", "next_var", "mask"},
     .attrs = {kMomentum,
               kEps,
               kActivation,
               {"mask", false, false, "one bit an element: the rectifier let it through"}},
     .num_optional_inputs = 6,
     .infer = infer_act,
     .cost = ops::cost_per_element(10),
     .num_outputs = [](const Attrs& attrs) { return attrs.flag("mask") ? 6 : 5; },
     .fused = true,
     .doc = "bn, add of residual and activation; statistics of x may be given, and a norm of the "
            "residual."}};

const OpRegistration kBnStatistics{{.name = "bn_statistics",
                                    .inputs = {"x", "running_mean", "running_var", "statistics"},
                                    .outputs = {"mean", "rstd", "next_mean", "next_var"},
                                    .attrs = {kMomentum, kEps},
                                    .num_optional_inputs = 1,
                                    .infer = infer_statistics,
                                    .cost = ops::cost_per_input_element(3),
                                    .fused = true,
                                    .doc = "bn but for its y, which the reader makes itself."}};

const OpRegistration kBnEvalAct{
    {.name = "bn_eval_act",
     .inputs = {"x", "weight", "bias", "running_mean", "running_var", "residual"},
     .outputs = {"y"},
     .attrs = {kMomentum, kEps, kActivation},
     .num_optional_inputs = 1,
     .infer = infer_eval_act,
     .cost = ops::cost_per_element(4),
     .in_place = {{0, 0}},
     .fused = true,
     .doc = "bn_eval, add of residual and activation."}};

const OpRegistration kBnActBackward{
    {.name = "bn_act_backward",
     .inputs = {"dy", "x", "weight", "bias", "mean", "rstd", "more", "mask"},
     .outputs = {"dx", "dweight", "dbias", "dresidual"},
     .attrs = {kActivation,
               {"residual", false, false, "dresidual is an output, mask an input"},
               kMoreStride},
     .num_optional_inputs = 2,
     .infer = infer_act_backward,
     .cost = ops::cost_per_element(13),
     .in_place = {{0, 1}, {3, 0}},
     .num_outputs = [](const Attrs& attrs) { return attrs.flag("residual") ? 4 : 3; },
     .fused = true,
     .doc = "add of two gradients, relu_backward and bn_backward; dresidual is the gradient behind "
            "the rectifier."}};

const OpRegistration kBnJoinBackward{
    {.name = "bn_join_backward",
     .inputs = {"dy", "x", "weight", "mean", "rstd", "mask", "other_x", "other_weight",
                "other_mean", "other_rstd", "more"},
     .outputs = {"dx", "dweight", "dbias", "other_dx", "other_dweight", "other_dbias"},
     .attrs = {kMoreStride},
     .num_optional_inputs = 1,
     .infer = infer_join_backward,
     .cost = ops::cost_per_input_element(5),
     .in_place = {{0, 0}, {3, 6}},
     .fused = true,
     .doc =
         "add of two gradients, relu_backward behind a sum of two norms, and both bn_backward."}};

const OpRegistration kBnPool{
    {.name = "bn_pool",
     .inputs = {"x", "weight", "bias", "running_mean", "running_var", "statistics"},
     .outputs = {"y", "mean", "rstd", "next_mean", "next_var", "index"},
     .attrs = {kMomentum, kEps},
     .num_optional_inputs = 1,
     .infer = infer_pool,
     .cost = ops::cost_per_input_element(11),
     .fused = true,
     .doc = "bn, relu and maxpool(2); index has two bits an element of y."}};

const AttrSpec kKernel = {"kernel", kOnes, true, ""}, kStride = {"stride", kOnes, true, ""},
               kPadding = {"padding", kZeros, false, ""}, kCeil = {"ceil_mode", false, false, ""};

const OpRegistration kBnMaxpool{
    {.name = "bn_maxpool",
     .inputs = {"x", "weight", "bias", "running_mean", "running_var", "statistics"},
     .outputs = {"y", "mean", "rstd", "next_mean", "next_var", "index"},
     .attrs = {kMomentum, kEps, kKernel, kStride, kPadding, kCeil},
     .num_optional_inputs = 1,
     .infer = infer_maxpool,
     .cost = ops::cost_per_input_element(11),
     .fused = true,
     .doc = "bn, relu and maxpool."}};

const OpRegistration kBnMaxpoolBackward{
    {.name = "bn_maxpool_backward",
     .inputs = {"dy", "x", "weight", "bias", "mean", "rstd", "index"},
     .outputs = {"dx", "dweight", "dbias"},
     .attrs = {kKernel, kStride, kPadding, kCeil},
     .infer = infer_maxpool_backward,
     .cost = ops::cost_per_element(13),
     .fused = true,
     .doc = "maxpool_backward, relu_backward and bn_backward."}};

const OpRegistration kBnPoolBackward{
    {.name = "bn_pool_backward",
     .inputs = {"dy", "x", "weight", "bias", "mean", "rstd", "index"},
     .outputs = {"dx", "dweight", "dbias"},
     .infer = infer_pool_backward,
     .cost = ops::cost_per_element(13),
     .in_place = {{0, 1}},
     .fused = true,
     .doc = "maxpool_backward, relu_backward and bn_backward."}};

}  // namespace
}  // namespace tr

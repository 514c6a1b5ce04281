// SPDX-License-Identifier: Apache-2.0
// Elements and rows by number: gather, embedding; and parameters that stand beside a sequence.
#include <limits>

#include "core/check.h"
#include "core/format.h"
#include "ops/broadcast.h"
#include "renaissance/ops/sequence.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;
using Ints = std::vector<std::int64_t>;

void check_index(std::string_view name, const TensorType& type) {
  TR_CHECK(type.dtype == DType::INT32 || type.dtype == DType::INT64,
           "{} has dtype {}, expected int32 or int64", name, type.dtype);
}

// gather

std::vector<TensorType> infer_gather(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  check_index("index", in[1]);
  const Shape &x = in[0].shape, &index = in[1].shape;
  const int axis = ops::normalised_axis(attrs.i64("axis"), x);
  TR_CHECK(index.rank() == x.rank() && index.with_dim(axis, 0) == x.with_dim(axis, 0),
           "index has shape {}, expected that of x {} on all axes but {}", index, x, axis);
  return {{index, in[0].dtype}};
}

std::vector<TensorId> gradient_gather(GraphBuilder& builder, const Node& node, Ids dout) {
  const TensorId dx =
      builder.add("gather_backward", {dout[0], node.inputs[1], node.inputs[0]}, node.attrs);
  return {dx, kNoTensor};
}

std::vector<TensorType> infer_gather_backward(const Attrs& attrs, Types in) {
  const TensorType y = infer_gather(attrs, std::vector<TensorType>{in[2], in[1]})[0];
  ops::check_same("dy", in[0], y, "x at index");
  return {in[2]};
}

// embedding

std::vector<ParamSpec> embedding_parameters(const Attrs& attrs, const LayerContext&) {
  const std::int64_t rows = attrs.i64("num_embeddings"), features = attrs.i64("features");
  TR_CHECK(rows >= 1 && features >= 1,
           "num_embeddings is {} and features {}, expected at least 1 each", rows, features);
  return {{.name = "weight",
           .type = {Shape{rows, features}},
           .kind = ParamKind::WEIGHT,
           .fan_in = features,
           .fan_out = rows}};
}

std::vector<TensorType> infer_embedding(const Attrs& attrs, Types in) {
  check_index("ids", in[0]);
  ops::check_floating("weight", in[1]);
  ops::check_rank("weight", in[1], 2, "[num_embeddings, features]");
  const std::int64_t padding = attrs.i64("padding_idx");
  TR_CHECK(padding >= -1 && padding < in[1].shape[0],
           "padding_idx is {}, expected -1 (none) to {} (rows of weight {})", padding,
           in[1].shape[0] - 1, in[1].shape);
  Ints dims(in[0].shape.dims().begin(), in[0].shape.dims().end());
  dims.push_back(in[1].shape[1]);
  return {{Shape(dims), in[1].dtype}};
}

std::vector<TensorId> gradient_embedding(GraphBuilder& builder, const Node& node, Ids dout) {
  return {kNoTensor, builder.add("embedding_dweight", {dout[0], node.inputs[0], node.inputs[1]},
                                 {{"padding_idx", node.attrs.i64("padding_idx")}})};
}

std::vector<TensorType> infer_dweight(const Attrs& attrs, Types in) {
  const std::vector<TensorType> forward = {in[1], {in[2].shape, in[0].dtype}};
  ops::check_floating("dy", in[0]);
  ops::check_shape("dy", in[0], infer_embedding(attrs, forward)[0].shape, "ids and features");
  return {{in[2].shape, DType::FP32}};
}

// Parameters that are added to every sample, or put before it.

std::vector<ParamSpec> position_parameters(const Attrs&, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  TR_CHECK(x.rank() >= 2, "x has shape {}, expected [N, ..., C]", x);
  return {{.name = "weight",
           .type = {x.drop_first()},
           .kind = ParamKind::WEIGHT,
           .fan_in = x.back(),
           .fan_out = x.back()}};
}

std::vector<TensorType> infer_position(const Attrs&, Types in) {
  ops::check_floating("x", in[0]);
  ops::check_floating("weight", in[1]);
  TR_CHECK(in[0].shape.rank() >= 2, "x has shape {}, expected [N, ..., C]", in[0].shape);
  ops::check_shape("weight", in[1], in[0].shape.drop_first(), "a sample of x");
  return {in[0]};
}

std::vector<TensorId> gradient_position(GraphBuilder& builder, const Node& node, Ids dout) {
  return {dout[0], builder.add("reduce_to", {dout[0], node.inputs[1]})};
}

std::vector<ParamSpec> token_parameters(const Attrs& attrs, const LayerContext& context) {
  const Shape& x = context.inputs[0].shape;
  ops::check_rank("x", {x, DType::FP32}, 3, "[N, T, C]");
  const std::int64_t tokens = attrs.i64("tokens");
  TR_CHECK(tokens >= 1, "tokens is {}, expected at least 1", tokens);
  return {{.name = "weight",
           .type = {Shape{tokens, x[2]}},
           .kind = ParamKind::WEIGHT,
           .fan_in = x[2],
           .fan_out = x[2]}};
}

std::vector<TensorType> infer_tokens(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  ops::check_rank("x", in[0], 3, "[N, T, C]");
  ops::check_floating("weight", in[1]);
  const Shape& x = in[0].shape;
  ops::check_shape("weight", in[1], Shape{attrs.i64("tokens"), x[2]}, "tokens, channels of x");
  return {{x.with_dim(1, x[1] + attrs.i64("tokens")), in[0].dtype}};
}

std::vector<TensorId> gradient_tokens(GraphBuilder& builder, const Node& node, Ids dout) {
  const std::int64_t tokens = node.attrs.i64("tokens");
  const auto cut = [&](std::int64_t begin, std::int64_t end) {
    return builder.add(
        "slice", {dout[0]},
        {{"axes", Ints{1}}, {"starts", Ints{begin}}, {"ends", Ints{end}}, {"steps", Ints{1}}});
  };
  return {cut(tokens, std::numeric_limits<std::int64_t>::max()),
          builder.add("reduce_to", {cut(0, tokens), node.inputs[1]})};
}

const AttrSpec kAxis = {"axis", std::int64_t{0}, true, "along which index counts"};
const AttrSpec kPadding = {"padding_idx", std::int64_t{-1}, false,
                           "this row has no gradient; -1: none"};

const OpRegistration kGather{
    {.name = "gather",
     .inputs = {"x", "index"},
     .outputs = {"y"},
     .attrs = {kAxis},
     .infer = infer_gather,
     .gradient = gradient_gather,
     .cost =
         [](const Attrs&, Types in, Types out) {
           return Cost{0, bytes_of(in[1]) + 2 * bytes_of(out[0])};
         },
     .doc = "y[.., i, ..] = x[.., index[.., i, ..], ..]; NaN outside of x. torch.gather"}};

const OpRegistration kGatherBackward{
    {.name = "gather_backward",
     .inputs = {"dy", "index", "x"},
     .outputs = {"dx"},
     .attrs = {kAxis},
     .infer = infer_gather_backward,
     .cost = ops::cost_per_element(1, 2),
     .type_only_from = 2,
     .doc = "dx[.., k, ..] = sum of dy[.., i, ..] with index[.., i, ..] = k: fixed order, fp32."}};

const OpRegistration kEmbedding{
    {.name = "embedding",
     .inputs = {"ids", "weight"},
     .outputs = {"y"},
     .attrs = {{"num_embeddings", std::int64_t{0}, false, "rows of weight, as a layer"},
               {"features", std::int64_t{0}, false, "its columns, as a layer"},
               kPadding},
     .infer = infer_embedding,
     .gradient = gradient_embedding,
     .cost =
         [](const Attrs&, Types in, Types out) {
           return Cost{0, bytes_of(in[0]) + 2 * bytes_of(out[0])};
         },
     .parameters = embedding_parameters,
     .precision = Precision::LOW,
     .doc = "y[..] = weight[ids[..]]; NaN outside of its rows. torch.nn.functional.embedding"}};

const OpRegistration kEmbeddingDweight{
    {.name = "embedding_dweight",
     .inputs = {"dy", "ids", "weight"},
     .outputs = {"dweight"},
     .attrs = {kPadding},
     .infer = infer_dweight,
     .cost = ops::cost_per_input_element(1),
     .precision = Precision::LOW,
     .type_only_from = 2,
     .doc = "dweight[k] = sum of dy[..] with ids[..] = k: fixed order, fp32."}};

const OpRegistration kPosition{{.name = "position_embedding",
                                .inputs = {"x", "weight"},
                                .outputs = {"y"},
                                .infer = infer_position,
                                .gradient = gradient_position,
                                .cost = ops::cost_per_element(1),
                                .parameters = position_parameters,
                                .doc = "y[n] = x[n] + weight. x + parameter in PyTorch"}};

const OpRegistration kTokens{
    {.name = "prepend_tokens",
     .inputs = {"x", "weight"},
     .outputs = {"y"},
     .attrs = {{"tokens", std::int64_t{1}, false, "rows of weight"}},
     .infer = infer_tokens,
     .gradient = gradient_tokens,
     .cost = ops::cost_per_element(0),
     .parameters = token_parameters,
     .doc = "y[n] = weight, then x[n], along axis 1. torch.cat([parameter.expand(N), x], 1)"}};

}  // namespace
}  // namespace tr

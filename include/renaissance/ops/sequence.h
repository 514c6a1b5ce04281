// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"
#include "renaissance/ops/elementwise.h"

namespace tr {

// What models of sequences [N, T, C] need beside the layers of images.

/// y[..] = weight[ids[..]]: a row for each number.
///
/// @param num_embeddings  rows of weight
/// @param features        C, columns of weight: ids [N, ...] of int32 or int64 give [N, ..., C]
/// @param padding_idx     the gradient of this row is 0; -1: none
/// Parameter weight [num_embeddings, C]. The gradient is dense, fp32, summed in a fixed order. A
/// number outside of the rows gives NaN, so that the step is skipped and seen.
/// Agrees with torch.nn.Embedding, which begins with normal(0, 1).
inline BluePrint embedding(std::int64_t num_embeddings, std::int64_t features,
                           std::int64_t padding_idx = -1,
                           std::source_location where = std::source_location::current()) {
  return layer(
      "embedding",
      {{"num_embeddings", num_embeddings}, {"features", features}, {"padding_idx", padding_idx}}, 1,
      where);
}

/// y[.., i, ..] = x[.., index[.., i, ..], ..] along `axis`; index (int32 or int64) has the shape of
/// x on the other axes. NaN outside of x. Agrees with torch.gather.
inline Value gather(const Value& x, const Value& index, int axis,
                    std::source_location where = std::source_location::current()) {
  return layer("gather", {{"axis", std::int64_t(axis)}}, 2, where)(x, index);
}

/// y[n] = x[n] + weight, a learnt place for each element of a sample; parameter weight has the
/// shape of a sample.
inline BluePrint position_embedding(std::source_location where = std::source_location::current()) {
  return layer("position_embedding", {}, 1, where);
}

/// Puts `tokens` learnt rows before those of each sample: [N, T, C] -> [N, tokens + T, C];
/// parameter weight [tokens, C]. The class token of ViT. Source: arXiv:2010.11929.
inline BluePrint prepend_tokens(std::int64_t tokens = 1,
                                std::source_location where = std::source_location::current()) {
  return layer("prepend_tokens", {{"tokens", tokens}}, 1, where);
}

/// Products of the last two axes, op(a) op(b), for every place of the axes before them, which are
/// broadcast to one shape: a [.., M, K] or, with transpose_a, [.., K, M]; b [.., K, N] or, with
/// transpose_b, [.., N, K]; y [.., M, N]. Sums are fp32; under amp both are cast to the low dtype.
/// Saves both. @throws InvalidArgument  at compile(): the shapes do not fit.
/// Agrees with torch.matmul of tensors of two axes or more.
inline Value matmul(const Value& a, const Value& b, bool transpose_a = false,
                    bool transpose_b = false,
                    std::source_location where = std::source_location::current()) {
  return layer("matmul", {{"transpose_a", transpose_a}, {"transpose_b", transpose_b}}, 2, where)(a,
                                                                                                 b);
}

/// y = exp(x) / sum of exp(x) along `axis`, in fp32, stored in the dtype of x. Saves y.
/// Agrees with torch.softmax.
inline BluePrint softmax(int axis = -1,
                         std::source_location where = std::source_location::current()) {
  return layer("softmax", {{"axis", std::int64_t(axis)}}, 1, where);
}
/// y = x - log(sum of exp(x)) along `axis`, in fp32. Saves y. Agrees with torch.log_softmax.
inline BluePrint log_softmax(int axis = -1,
                             std::source_location where = std::source_location::current()) {
  return layer("log_softmax_axis", {{"axis", std::int64_t(axis)}}, 1, where);
}

/// softmax of -x. Agrees with torch.nn.Softmin.
inline BluePrint softmin(int axis = -1,
                         std::source_location where = std::source_location::current()) {
  return seq(layer("neg", {}, 1, where), softmax(axis, where));
}

// Gated linear units: x is cut in two along `axis`, one half times a function of the other, [.., 2
// C,
// ..] -> [.., C, ..]. Saves x. @throws InvalidArgument  at compile(): an odd length along `axis`.
// Source: arXiv:2002.05202.

/// y = first half * sigmoid(second half). Agrees with torch.nn.GLU.
TR_API BluePrint glu(int axis = -1, std::source_location where = std::source_location::current());
/// y = silu(first half) * second half, as Llama's feed-forward layers have it.
TR_API BluePrint swiglu(int axis = -1,
                        std::source_location where = std::source_location::current());
/// y = first half * gelu(second half).
TR_API BluePrint geglu(int axis = -1, std::source_location where = std::source_location::current());
/// y = first half * relu(second half).
TR_API BluePrint reglu(int axis = -1, std::source_location where = std::source_location::current());

struct AttentionOptions {
  bool causal = false;  // a place sees those before it alone
  bool bias = true;     // of the projections
  float dropout = 0;    // of the attention weights, and at the ends of transformer_block's branches
  float eps = 1e-5f;    // of transformer_block's layer_norm
  GeluApproximation gelu = GeluApproximation::NONE;  // of transformer_block
};

/// Self-attention of x [N, T, channels] with `heads` heads of depth channels / heads:
///
///   y = out_proj(softmax(q k^T / sqrt(depth)) v),   q, k, v = thirds of in_proj(x)
///
/// Parameters in_proj.weight [3 channels, channels], out_proj.weight and biases. A row of the ops
/// fc, slice, reshape, permute, matmul, affine, tril, softmax: the scores [N, heads, T, T] are
/// stored. @throws InvalidArgument  heads do not divide channels.
/// Source: Vaswani et al. 2017, arXiv:1706.03762. Agrees with torch.nn.MultiheadAttention(x, x, x).
TR_API BluePrint attention(std::int64_t channels, std::int64_t heads, AttentionOptions options = {},
                           std::source_location where = std::source_location::current());

/// seq(residual(layer_norm, attention), residual(layer_norm, fc to 4 channels, gelu, fc)), the
/// block of GPT-2 and ViT. Agrees with torch.nn.TransformerEncoderLayer(norm_first=True, gelu).
TR_API BluePrint transformer_block(std::int64_t channels, std::int64_t heads,
                                   AttentionOptions options = {},
                                   std::source_location where = std::source_location::current());

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
// Rows of layers of transformers.
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/format.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/math.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/sequence.h"
#include "renaissance/ops/shape.h"

namespace tr {

BluePrint attention(std::int64_t channels, std::int64_t heads, AttentionOptions options,
                    std::source_location where) {
  TR_CHECK(heads >= 1 && channels >= 1 && channels % heads == 0,
           "attention: heads is {}, expected a divisor of {} (channels)", heads, channels);
  TR_CHECK(options.dropout >= 0 && options.dropout < 1,
           "attention: dropout is {}, expected 0 (none) up to, but not, 1", options.dropout);
  const std::int64_t depth = channels / heads;
  const Value x = input("image");
  const Value all = fc(3 * channels, options.bias, where).named("in_proj")(x);
  const auto by_head = [&](const Value& part) {  // [N, T, C] -> [N, heads, T, depth]
    return permute({0, 2, 1, 3}, where)(reshape({-1, heads, depth}, where)(part));
  };
  const std::vector<Value> parts = split(all, {channels, channels, channels}, -1, where);
  const Value query = by_head(parts[0]), key = by_head(parts[1]), value = by_head(parts[2]);
  const Value products = matmul(query, key, false, true, where);
  Value scores = affine(float(1 / std::sqrt(double(depth))), 0, where)(products);
  if (options.causal) scores = tril(0, -std::numeric_limits<float>::infinity(), where)(scores);
  Value weights = softmax(-1, where)(scores);
  if (options.dropout > 0) weights = dropout(options.dropout, where)(weights);
  const Value mixed = permute({0, 2, 1, 3}, where)(matmul(weights, value, false, false, where));
  const Value rows = reshape({-1, channels}, where)(mixed);
  return model(x, fc(channels, options.bias, where).named("out_proj")(rows));
}

BluePrint transformer_block(std::int64_t channels, std::int64_t heads, AttentionOptions options,
                            std::source_location where) {
  const auto end = [&](BluePrint body) {
    return options.dropout > 0 ? seq(std::move(body), dropout(options.dropout, where)) : body;
  };
  const BluePrint mlp = seq(layer_norm(options.eps, 1, true, where), fc(4 * channels, true, where),
                            gelu(options.gelu, where), fc(channels, true, where));
  const BluePrint attends =
      seq(layer_norm(options.eps, 1, true, where), attention(channels, heads, options, where));
  return seq(residual(end(attends)), residual(end(mlp)));
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

// Functions of one input: y = f(x), element by element, any floating dtype, shape of x. Each agrees
// with the function of its name in PyTorch.

/// y = log(x). Saves x.
inline BluePrint log(std::source_location where = std::source_location::current()) {
  return layer("log", {}, 1, where);
}
/// y = log(1 + x). Saves x.
inline BluePrint log1p(std::source_location where = std::source_location::current()) {
  return layer("log1p", {}, 1, where);
}
/// y = exp(x) - 1. Saves x.
inline BluePrint expm1(std::source_location where = std::source_location::current()) {
  return layer("expm1", {}, 1, where);
}
/// y = sqrt(x). Saves y.
inline BluePrint sqrt(std::source_location where = std::source_location::current()) {
  return layer("sqrt", {}, 1, where);
}
/// y = 1 / sqrt(x). Saves y.
inline BluePrint rsqrt(std::source_location where = std::source_location::current()) {
  return layer("rsqrt", {}, 1, where);
}
/// y = 1 / x. Saves y.
inline BluePrint reciprocal(std::source_location where = std::source_location::current()) {
  return layer("reciprocal", {}, 1, where);
}
/// y = sin(x). Saves x.
inline BluePrint sin(std::source_location where = std::source_location::current()) {
  return layer("sin", {}, 1, where);
}
/// y = cos(x). Saves x.
inline BluePrint cos(std::source_location where = std::source_location::current()) {
  return layer("cos", {}, 1, where);
}
/// y = erf(x). Saves x.
inline BluePrint erf(std::source_location where = std::source_location::current()) {
  return layer("erf", {}, 1, where);
}
/// Rounded down, up, to the nearest (ties to even); sign of x. The gradient is 0.
inline BluePrint floor(std::source_location where = std::source_location::current()) {
  return layer("floor", {}, 1, where);
}
inline BluePrint ceil(std::source_location where = std::source_location::current()) {
  return layer("ceil", {}, 1, where);
}
inline BluePrint round(std::source_location where = std::source_location::current()) {
  return layer("round", {}, 1, where);
}
inline BluePrint sign(std::source_location where = std::source_location::current()) {
  return layer("sign", {}, 1, where);
}
/// y = x^exponent. Saves x. Agrees with torch.pow(x, number).
inline BluePrint pow_scalar(float exponent,
                            std::source_location where = std::source_location::current()) {
  return layer("pow_scalar", {{"exponent", double(exponent)}}, 1, where);
}
/// y = scale * x + shift. Saves nothing that is read.
inline BluePrint affine(float scale, float shift = 0,
                        std::source_location where = std::source_location::current()) {
  return layer("affine", {{"scale", double(scale)}, {"shift", double(shift)}}, 1, where);
}
/// y = min(max(x, low), high). The gradient passes where low <= x <= high. Saves x.
/// @throws InvalidArgument  at compile(): low > high. Agrees with torch.clamp and F.hardtanh.
inline BluePrint clamp(float low, float high = std::numeric_limits<float>::infinity(),
                       std::source_location where = std::source_location::current()) {
  return layer("clamp", {{"min", double(low)}, {"max", double(high)}}, 1, where);
}
/// y = x > threshold ? x : value. Saves x. Agrees with torch.nn.functional.threshold.
inline BluePrint threshold(float threshold, float value,
                           std::source_location where = std::source_location::current()) {
  return layer("threshold", {{"threshold", double(threshold)}, {"value", double(value)}}, 1, where);
}

// Functions of two inputs, which are broadcast to one shape: axes of size 1, or missing at the
// front, are repeated; each gradient is summed over the axes along which its input was. Both have
// one floating dtype (under amp the wider one). Each agrees with the function of its name in
// PyTorch. @throws InvalidArgument  at compile(): the shapes do not broadcast.

/// y = a - b.
inline Value sub(const Value& a, const Value& b,
                 std::source_location where = std::source_location::current()) {
  return layer("sub", {}, 2, where)(a, b);
}
/// y = a / b. Saves both.
inline Value div(const Value& a, const Value& b,
                 std::source_location where = std::source_location::current()) {
  return layer("div", {}, 2, where)(a, b);
}
/// y = a^b. Saves both.
inline Value pow(const Value& a, const Value& b,
                 std::source_location where = std::source_location::current()) {
  return layer("pow", {}, 2, where)(a, b);
}
/// y = min(a, b); NaN wins. Of equal numbers each gets half of the gradient. Saves both.
inline Value minimum(const Value& a, const Value& b,
                     std::source_location where = std::source_location::current()) {
  return layer("minimum", {}, 2, where)(a, b);
}
/// y = max(a, b); NaN wins. Of equal numbers each gets half of the gradient. Saves both.
inline Value maximum(const Value& a, const Value& b,
                     std::source_location where = std::source_location::current()) {
  return layer("maximum", {}, 2, where)(a, b);
}

/// y = x > 0 ? x : weight * x with a learnt slope, one a channel (the last axis) or, if `shared`,
/// one for all; parameter weight [C] or [1], fp32, begins at 0.25, no weight decay. Saves x.
/// Source: He et al. 2015, arXiv:1502.01852. Agrees with torch.nn.PReLU.
inline BluePrint prelu(bool shared = true,
                       std::source_location where = std::source_location::current()) {
  return layer("prelu", {{"shared", shared}}, 1, where);
}

// Comparisons of two inputs of one dtype (floating, int32 or int64; the logical ones take bool
// too), broadcast as above. The result is bool and has no gradient. Names and values are PyTorch's
// (torch.eq, ne, lt, le, gt, ge).
inline Value equal(const Value& a, const Value& b,
                   std::source_location where = std::source_location::current()) {
  return layer("equal", {}, 2, where)(a, b);
}
inline Value not_equal(const Value& a, const Value& b,
                       std::source_location where = std::source_location::current()) {
  return layer("not_equal", {}, 2, where)(a, b);
}
inline Value less(const Value& a, const Value& b,
                  std::source_location where = std::source_location::current()) {
  return layer("less", {}, 2, where)(a, b);
}
inline Value less_equal(const Value& a, const Value& b,
                        std::source_location where = std::source_location::current()) {
  return layer("less_equal", {}, 2, where)(a, b);
}
inline Value greater(const Value& a, const Value& b,
                     std::source_location where = std::source_location::current()) {
  return layer("greater", {}, 2, where)(a, b);
}
inline Value greater_equal(const Value& a, const Value& b,
                           std::source_location where = std::source_location::current()) {
  return layer("greater_equal", {}, 2, where)(a, b);
}
inline Value logical_and(const Value& a, const Value& b,
                         std::source_location where = std::source_location::current()) {
  return layer("logical_and", {}, 2, where)(a, b);
}
inline Value logical_or(const Value& a, const Value& b,
                        std::source_location where = std::source_location::current()) {
  return layer("logical_or", {}, 2, where)(a, b);
}
inline Value logical_xor(const Value& a, const Value& b,
                         std::source_location where = std::source_location::current()) {
  return layer("logical_xor", {}, 2, where)(a, b);
}

/// y = condition ? a : b, all three broadcast to one shape; condition is bool. The gradient of a
/// passes where it holds, that of b elsewhere. Saves condition. Agrees with torch.where.
inline Value where(const Value& condition, const Value& a, const Value& b,
                   std::source_location place = std::source_location::current()) {
  return layer("where", {}, 3, place)(condition, a, b);
}
/// y = mask ? value : x; mask is bool and broadcasts to x. No gradient passes where it holds.
/// Agrees with torch.Tensor.masked_fill.
inline Value masked_fill(const Value& x, const Value& mask, float value,
                         std::source_location where = std::source_location::current()) {
  return layer("masked_fill", {{"value", double(value)}}, 2, where)(x, mask);
}
/// y[.., i, j] = j - i <= diagonal ? x : value, over the last two axes. The gradient passes where x
/// does. With value 0 torch.tril; with minus infinity the causal mask of attention scores.
inline BluePrint tril(std::int64_t diagonal = 0, float value = 0,
                      std::source_location where = std::source_location::current()) {
  return layer("tril", {{"diagonal", diagonal}, {"value", double(value)}}, 1, where);
}
/// y[.., i, j] = j - i >= diagonal ? x : value. With value 0 torch.triu.
inline BluePrint triu(std::int64_t diagonal = 0, float value = 0,
                      std::source_location where = std::source_location::current()) {
  return layer("triu", {{"diagonal", diagonal}, {"value", double(value)}}, 1, where);
}

}  // namespace tr

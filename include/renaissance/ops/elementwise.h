// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

// Activations: y = f(x), element by element, any floating dtype, shape of x. Derivatives and what
// is saved for the backward pass (x or y, no copy) stand beside the functors in
// src/backend/elementwise_functors.h. Each agrees with the function of its name in PyTorch.
// Attributes out of range are refused by compile(), which names the layer and its place.

/// y = max(x, 0). Saves y.
inline BluePrint relu(std::source_location where = std::source_location::current()) {
  return layer("relu", {}, 1, where);
}
/// y = min(max(x, 0), 6). Saves y.
inline BluePrint relu6(std::source_location where = std::source_location::current()) {
  return layer("relu6", {}, 1, where);
}
/// y = x > 0 ? x : slope * x. Saves y.
/// @throws InvalidArgument  slope < 0: y would not tell the sign of x.
inline BluePrint leaky_relu(float slope = 0.01f,
                            std::source_location where = std::source_location::current()) {
  return layer("leaky_relu", {{"alpha", double(slope)}}, 1, where);
}
/// y = x > 0 ? x : alpha * (exp(x) - 1). Saves y. @throws InvalidArgument  alpha < 0.
inline BluePrint elu(float alpha = 1.0f,
                     std::source_location where = std::source_location::current()) {
  return layer("elu", {{"alpha", double(alpha)}}, 1, where);
}
/// y = x > 0 ? x : alpha * (exp(x / alpha) - 1). Saves y. @throws InvalidArgument  alpha <= 0.
inline BluePrint celu(float alpha = 1.0f,
                      std::source_location where = std::source_location::current()) {
  return layer("celu", {{"alpha", double(alpha)}}, 1, where);
}
/// y = s * elu(x, a) with the fixed point's s = 1.0507.., a = 1.6732... Source: arXiv:1706.02515.
/// Saves y.
inline BluePrint selu(std::source_location where = std::source_location::current()) {
  return layer("selu", {}, 1, where);
}
/// y = 1 / (1 + exp(-x)). Saves y.
inline BluePrint sigmoid(std::source_location where = std::source_location::current()) {
  return layer("sigmoid", {}, 1, where);
}
/// y = log(sigmoid(x)). Saves x.
inline BluePrint log_sigmoid(std::source_location where = std::source_location::current()) {
  return layer("log_sigmoid", {}, 1, where);
}
/// y = tanh(x). Saves y.
inline BluePrint tanh(std::source_location where = std::source_location::current()) {
  return layer("tanh", {}, 1, where);
}
/// The articles' name of tanh().
inline BluePrint tanh_act(std::source_location where = std::source_location::current()) {
  return layer("tanh", {}, 1, where);
}
/// y = x - tanh(x). Saves x.
inline BluePrint tanhshrink(std::source_location where = std::source_location::current()) {
  return layer("tanhshrink", {}, 1, where);
}
/// y = x * sigmoid(x). Source: arXiv:1702.03118. Saves x.
inline BluePrint silu(std::source_location where = std::source_location::current()) {
  return layer("silu", {}, 1, where);
}

/// y = x * tanh(log(1 + exp(x))). Source: arXiv:1908.08681. Saves x.
inline BluePrint mish(std::source_location where = std::source_location::current()) {
  return layer("mish", {}, 1, where);
}

enum class GeluApproximation { NONE, TANH };
/// NONE: y = x * (1 + erf(x / sqrt 2)) / 2.
/// TANH: y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2.
/// Source: arXiv:1606.08415. Saves x.
inline BluePrint gelu(GeluApproximation approximation = GeluApproximation::NONE,
                      std::source_location where = std::source_location::current()) {
  return layer(approximation == GeluApproximation::TANH ? "gelu_tanh" : "gelu", {}, 1, where);
}
/// y = log(1 + exp(beta * x)) / beta, and x where beta * x > 20. Saves x.
/// @throws InvalidArgument  beta <= 0.
inline BluePrint softplus(float beta = 1.0f,
                          std::source_location where = std::source_location::current()) {
  return layer("softplus", {{"alpha", double(beta)}}, 1, where);
}
/// y = x / (1 + |x|). Saves x.
inline BluePrint softsign(std::source_location where = std::source_location::current()) {
  return layer("softsign", {}, 1, where);
}
/// y = min(max(x, -1), 1). Saves y.
inline BluePrint hardtanh(std::source_location where = std::source_location::current()) {
  return layer("hardtanh", {}, 1, where);
}
/// y = min(max(x / 6 + 1/2, 0), 1). Saves y.
inline BluePrint hardsigmoid(std::source_location where = std::source_location::current()) {
  return layer("hardsigmoid", {}, 1, where);
}
/// y = x * hardsigmoid(x). Source: arXiv:1905.02244. Saves x.
inline BluePrint hardswish(std::source_location where = std::source_location::current()) {
  return layer("hardswish", {}, 1, where);
}
/// y = |x| > lambda ? x : 0. Saves y. @throws InvalidArgument  lambda < 0.
inline BluePrint hardshrink(float lambda = 0.5f,
                            std::source_location where = std::source_location::current()) {
  return layer("hardshrink", {{"alpha", double(lambda)}}, 1, where);
}
/// y = x > lambda ? x - lambda : x < -lambda ? x + lambda : 0. Saves y.
/// @throws InvalidArgument  lambda < 0.
inline BluePrint softshrink(float lambda = 0.5f,
                            std::source_location where = std::source_location::current()) {
  return layer("softshrink", {{"alpha", double(lambda)}}, 1, where);
}

/// y = exp(x). Saves y.
inline BluePrint exp(std::source_location where = std::source_location::current()) {
  return layer("exp", {}, 1, where);
}
/// y = |x|. Saves x.
inline BluePrint abs(std::source_location where = std::source_location::current()) {
  return layer("abs", {}, 1, where);
}
/// y = x^2. Saves x.
inline BluePrint square(std::source_location where = std::source_location::current()) {
  return layer("square", {}, 1, where);
}
/// y = -x. Saves y, unread.
inline BluePrint neg(std::source_location where = std::source_location::current()) {
  return layer("neg", {}, 1, where);
}

/// In training y = x / (1 - p) with probability 1 - p, else 0; outside training y = x. The mask is
/// drawn from (seed, DROPOUT, step, layer, sample, element), and again in the backward pass:
/// nothing is saved.
/// @param p  probability of a zero, 0 <= p < 1
/// @throws InvalidArgument  p is outside [0, 1).
/// Agrees with torch.nn.Dropout in distribution.
inline BluePrint dropout(float p, std::source_location where = std::source_location::current()) {
  return layer("dropout", {{"p", double(p)}}, 1, where);
}

/// dropout of whole channels of a sample: x [N, ..., C] keeps or loses all places of a channel.
/// Agrees with torch.nn.Dropout2d, channels last, in distribution.
inline BluePrint dropout_channels(float p,
                                  std::source_location where = std::source_location::current()) {
  return layer("dropout", {{"p", double(p)}, {"per", std::string("channel")}}, 1, where);
}
/// For networks of selu: in training a dropped element becomes selu's limit -1.7581 instead of 0,
/// and all are scaled and shifted so that mean 0 and variance 1 stay; outside training y = x.
/// @throws InvalidArgument  p is outside [0, 1).
/// Source: arXiv:1706.02515. Agrees with torch.nn.AlphaDropout in distribution.
inline BluePrint alpha_dropout(float p,
                               std::source_location where = std::source_location::current()) {
  return layer("alpha_dropout", {{"p", double(p)}}, 1, where);
}
/// The same of whole channels of a sample, [N, ..., C]. Agrees with torch.nn.FeatureAlphaDropout,
/// channels last, in distribution.
inline BluePrint alpha_dropout_channels(
    float p, std::source_location where = std::source_location::current()) {
  return layer("alpha_dropout", {{"p", double(p)}, {"per", std::string("channel")}}, 1, where);
}

/// In training y = x > 0 ? x : slope x with a slope for each element, drawn from [lower, upper);
/// outside training slope = (lower + upper) / 2. Draws as dropout's. Saves x.
/// @throws InvalidArgument  lower > upper.
/// Source: arXiv:1505.00853. Agrees with torch.nn.RReLU, in training in distribution.
inline BluePrint rrelu(float lower = 1.0f / 8, float upper = 1.0f / 3,
                       std::source_location where = std::source_location::current()) {
  return layer("rrelu", {{"lower", double(lower)}, {"upper", double(upper)}}, 1, where);
}

/// dropout of whole samples, at the end of a residual's body: its block is left out with
/// probability p. Source: arXiv:1603.09382. Agrees with torchvision.ops.StochasticDepth(p, "row")
/// in distribution.
inline BluePrint stochastic_depth(float p,
                                  std::source_location where = std::source_location::current()) {
  return layer("dropout", {{"p", double(p)}, {"per", std::string("sample")}}, 1, where);
}

/// y = x. Vanishes at compile time.
inline BluePrint identity(std::source_location where = std::source_location::current()) {
  return layer("identity", {}, 1, where);
}

/// y = x, and no gradient passes. Agrees with torch.Tensor.detach.
inline BluePrint stop_gradient(std::source_location where = std::source_location::current()) {
  return layer("stop_gradient", {}, 1, where);
}

/// y = a + b, a layer of two inputs, broadcast to one shape: axes of size 1, or missing at the
/// front, are repeated, and the gradient of what was repeated is summed over those axes.
/// @throws InvalidArgument  at compile(): the shapes do not broadcast, or the dtypes differ.
inline BluePrint add(std::source_location where = std::source_location::current()) {
  return layer("add", {}, 2, where);
}
/// a + b
inline Value add(const Value& a, const Value& b,
                 std::source_location where = std::source_location::current()) {
  return add(where)(a, b);
}

/// y = a * b, broadcast as in add, a channel's factor for instance: x [N, H, W, C] times
/// [N, 1, 1, C]. Saves both. Agrees with torch.mul.
/// @throws InvalidArgument  at compile(): the shapes do not broadcast, or the dtypes differ.
inline BluePrint mul(std::source_location where = std::source_location::current()) {
  return layer("mul", {}, 2, where);
}
/// mul()(a, b): the function on values.
inline Value mul(const Value& a, const Value& b,
                 std::source_location where = std::source_location::current()) {
  return mul(where)(a, b);
}

}  // namespace tr

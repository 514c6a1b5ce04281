// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>

#include "renaissance/core/export.h"
#include "renaissance/graph/blueprint.h"

namespace tr {

// Activations: y = f(x), element by element, any floating dtype, shape of x. Derivatives and what is
// saved for the backward pass (x or y, no copy) stand beside the functors in
// src/backend/elementwise_functors.h. Each agrees with the function of torch.nn.functional (or torch)
// of its name.

/// y = max(x, 0). Saves y.
TR_API BluePrint relu(std::source_location where = std::source_location::current());
/// y = min(max(x, 0), 6). Saves y.
TR_API BluePrint relu6(std::source_location where = std::source_location::current());
/// y = x > 0 ? x : slope * x. Saves y. @throws InvalidArgument  slope < 0 (y would not tell the
/// sign of x).
TR_API BluePrint leaky_relu(float slope = 0.01f,
                            std::source_location where = std::source_location::current());
/// y = x > 0 ? x : alpha * (exp(x) - 1). Saves y. @throws InvalidArgument  alpha < 0.
TR_API BluePrint elu(float alpha = 1.0f, std::source_location where = std::source_location::current());
/// y = x > 0 ? x : alpha * (exp(x / alpha) - 1). Saves y. @throws InvalidArgument  alpha <= 0.
TR_API BluePrint celu(float alpha = 1.0f, std::source_location where = std::source_location::current());
/// y = s * elu(x, a) with the fixed point's s = 1.0507.., a = 1.6732... Source: arXiv:1706.02515.
/// Saves y.
TR_API BluePrint selu(std::source_location where = std::source_location::current());
/// y = 1 / (1 + exp(-x)). Saves y.
TR_API BluePrint sigmoid(std::source_location where = std::source_location::current());
/// y = log(sigmoid(x)). Saves x.
TR_API BluePrint log_sigmoid(std::source_location where = std::source_location::current());
/// y = tanh(x). Saves y.
TR_API BluePrint tanh(std::source_location where = std::source_location::current());
/// The articles' name of tanh().
TR_API BluePrint tanh_act(std::source_location where = std::source_location::current());
/// y = x - tanh(x). Saves x.
TR_API BluePrint tanhshrink(std::source_location where = std::source_location::current());
/// y = x * sigmoid(x). Source: arXiv:1702.03118. Saves x.
TR_API BluePrint silu(std::source_location where = std::source_location::current());

enum class GeluApproximation { NONE, TANH };
/// NONE: y = x * (1 + erf(x / sqrt 2)) / 2. TANH: y = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715
/// x^3))) / 2.
/// Source: arXiv:1606.08415. Saves x.
TR_API BluePrint gelu(GeluApproximation approximation = GeluApproximation::NONE,
                      std::source_location where = std::source_location::current());
/// y = log(1 + exp(beta * x)) / beta, and x where beta * x > 20. Saves x. @throws InvalidArgument
/// beta <= 0.
TR_API BluePrint softplus(float beta = 1.0f,
                          std::source_location where = std::source_location::current());
/// y = x / (1 + |x|). Saves x.
TR_API BluePrint softsign(std::source_location where = std::source_location::current());
/// y = min(max(x, -1), 1). Saves y.
TR_API BluePrint hardtanh(std::source_location where = std::source_location::current());
/// y = min(max(x / 6 + 1/2, 0), 1). Saves y.
TR_API BluePrint hardsigmoid(std::source_location where = std::source_location::current());
/// y = x * hardsigmoid(x). Source: arXiv:1905.02244. Saves x.
TR_API BluePrint hardswish(std::source_location where = std::source_location::current());
/// y = |x| > lambda ? x : 0. Saves y. @throws InvalidArgument  lambda < 0.
TR_API BluePrint hardshrink(float lambda = 0.5f,
                            std::source_location where = std::source_location::current());
/// y = x > lambda ? x - lambda : x < -lambda ? x + lambda : 0. Saves y. @throws InvalidArgument
/// lambda < 0.
TR_API BluePrint softshrink(float lambda = 0.5f,
                            std::source_location where = std::source_location::current());

/// y = exp(x). Saves y.
TR_API BluePrint exp(std::source_location where = std::source_location::current());
/// y = |x|. Saves x.
TR_API BluePrint abs(std::source_location where = std::source_location::current());
/// y = x^2. Saves x.
TR_API BluePrint square(std::source_location where = std::source_location::current());
/// y = -x. Saves y, unread.
TR_API BluePrint neg(std::source_location where = std::source_location::current());

/// In training y = x / (1 - p) with probability 1 - p, else 0; outside training y = x. The mask is
/// drawn from
/// (seed, DROPOUT, step, layer, sample, element) and drawn again in the backward pass: nothing is
/// saved.
/// @param p  probability of a zero, 0 <= p < 1
/// @throws InvalidArgument  p is outside [0, 1). Agrees with torch.nn.Dropout in distribution.
TR_API BluePrint dropout(float p, std::source_location where = std::source_location::current());

/// y = x. Vanishes at compile time.
TR_API BluePrint identity(std::source_location where = std::source_location::current());

/// y = x, and no gradient passes. Agrees with torch.Tensor.detach.
TR_API BluePrint stop_gradient(std::source_location where = std::source_location::current());

/// y = a + b, a layer of two inputs. Shape and dtype of a; b may broadcast to a (its axes of size
/// 1, or missing at the
/// front, are repeated), and its gradient is then summed over those axes.
/// @throws InvalidArgument  b does not broadcast to a.
TR_API BluePrint add(std::source_location where = std::source_location::current());
/// a + b
TR_API Value add(const Value& a, const Value& b,
                 std::source_location where = std::source_location::current());

}  // namespace tr

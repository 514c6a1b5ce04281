// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "renaissance/core/shape.h"
#include "renaissance/graph/attrs.h"
#include "renaissance/tensor/tensor.h"

namespace tr::test {

/// A tensor in double, for references written as plainly as their formulas.
struct Array {
  Shape shape;
  std::vector<double> values;

  explicit Array(const Shape& shape) : shape(shape), values(std::size_t(shape.num_elements())) {}
  double& operator[](std::int64_t i) { return values[std::size_t(i)]; }
  double operator[](std::int64_t i) const { return values[std::size_t(i)]; }
};
/// Elements as numbers, whatever the dtype.
Array array_of(const Tensor& tensor);
Tensor tensor_of(const Array& array, DType dtype = DType::FP32);

namespace ref {

/// f of an activation by the formula in include/renaissance/ops/elementwise.h; attributes by their
/// names there. @throws InvalidArgument  no such activation.
double activation(const std::string& op, const Attrs& attrs, double x);
/// Points where f or its derivative jumps.
std::vector<double> kinks(const std::string& op, const Attrs& attrs);
/// Names of every activation that this file knows.
std::vector<std::string> activation_names();

/// y[n, o] = sum_k x[n, k] weight[o, k] (+ bias[o]); x may have any rank >= 1.
Array fc(const Array& x, const Array& weight, const Array* bias);
/// a + b, b repeated along its axes of size 1 or missing at the front.
Array add(const Array& a, const Array& b);
/// a * b, b repeated as in add.
Array mul(const Array& a, const Array& b);
/// Sum of x over the axes that `like` lacks or has as 1.
Array reduce_to(const Array& x, const Shape& like);
Array concat(const std::vector<Array>& parts, int axis);
/// x - log(sum exp x) over the last axis.
Array log_softmax(const Array& x);
/// Scalar: sum over samples of the cross entropy of log-probabilities. `labels` are [N] classes or
/// [N, C].
Array nll(const Array& logp, const Array& labels, double smoothing);
/// Scalars: sum over samples of the mean over a sample's elements.
Array mse(const Array& y, const Array& target);
Array bce_with_logits(const Array& x, const Array& target);
/// Scalar: sum over samples of the mean (or, if not `mean`, the sum) over a sample's elements of
/// f(y, target, element).
using ElementLoss = std::function<double(double y, double target, std::int64_t i)>;
Array pair_loss(const Array& y, const Array& target, const ElementLoss& f, bool mean = true);
/// Scalar: norm times the sum over samples of -sum w[c] ((1 - s) q[c] + s / C) logp[c]; samples
/// labelled `ignored` count nothing.
struct WeightedNll {
  double smoothing = 0;
  std::int64_t ignored = -1;
};
Array weighted_nll(const Array& logp, const Array& labels, const Array* weight, double norm,
                   const WeightedNll& options);

// Images [N, H, W, C] (reference_image.cpp).

/// Along height and width.
using Pair = std::array<std::int64_t, 2>;
struct Window {
  Pair kernel{1, 1}, stride{1, 1}, padding{0, 0}, dilation{1, 1};
  bool ceil_mode = false;
  bool count_padding = true;  // in the divisor of avgpool
};
/// weight [O, R, S, C / groups].
Array conv(const Array& x, const Array& weight, const Array* bias, const Window& window,
           std::int64_t groups);
Array maxpool(const Array& x, const Window& window);
Array avgpool(const Array& x, const Window& window);
Array adaptive_avgpool(const Array& x, const Pair& size);
/// Zero channels behind those of x until there are `channels`.
Array pad_channels(const Array& x, std::int64_t channels);
struct Statistics {
  Array mean, var;
};
/// (x - mean) / sqrt(var + eps) over all axes but the last.
Array normalise(const Array& x, const Statistics& statistics, double eps);
/// x scaled and shifted a channel.
Array affine(const Array& x, const Array& weight, const Array& bias);
/// With the statistics of x (biased variance).
Array batch_norm(const Array& x, const Array& weight, const Array& bias, double eps);

}  // namespace ref

using Function = std::function<Array(const std::vector<Array>&)>;

/// Gradient of sum(dy * f(inputs)) with respect to inputs[which], by central differences in double.
/// f must be smooth within 1e-4 of the inputs; relative error about 1e-9.
Array finite_difference(const Function& f, const std::vector<Array>& inputs, std::size_t which,
                        const Array& dy);

}  // namespace tr::test

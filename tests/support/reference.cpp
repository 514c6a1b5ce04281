// SPDX-License-Identifier: Apache-2.0
#include "support/reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/check.h"

namespace tr::test {

Array array_of(const Tensor& tensor) {
  Array array(tensor.shape());
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i) array[i] = tensor.at(i);
  return array;
}

Tensor tensor_of(const Array& array, DType dtype) {
  Tensor tensor(array.shape, DType::FP32);
  for (std::int64_t i = 0; i < tensor.num_elements(); ++i)
    tensor.data<float>()[i] = float(array[i]);
  return tensor.to(dtype);
}

namespace ref {

Array fc(const Array& x, const Array& weight, const Array* bias) {
  const std::int64_t features = weight.shape[1], outputs = weight.shape[0];
  const std::int64_t rows = x.shape.num_elements() / features;
  Array y(x.shape.with_dim(-1, outputs));
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = bias ? (*bias)[o] : 0;
      for (std::int64_t k = 0; k < features; ++k)
        sum += x[n * features + k] * weight[o * features + k];
      y[n * outputs + o] = sum;
    }
  }
  return y;
}

namespace {

// Flat index into `small` of element `flat` of `large`, to whose shape it broadcasts.
std::int64_t broadcast_index(const Shape& small, const Shape& large, std::int64_t flat) {
  std::int64_t index = 0, stride = 1;
  for (int back = 1; back <= large.rank(); ++back) {
    const std::int64_t i = flat % large[-back];
    flat /= large[-back];
    if (back > small.rank()) continue;
    if (small[-back] != 1) index += i * stride;
    stride *= small[-back];
  }
  return index;
}

}  // namespace

Array add(const Array& a, const Array& b) {
  Array y = a;
  for (std::int64_t i = 0; i < a.shape.num_elements(); ++i) {
    y[i] += b[broadcast_index(b.shape, a.shape, i)];
  }
  return y;
}

Array mul(const Array& a, const Array& b) {
  Array y = a;
  for (std::int64_t i = 0; i < a.shape.num_elements(); ++i) {
    y[i] *= b[broadcast_index(b.shape, a.shape, i)];
  }
  return y;
}

Array reduce_to(const Array& x, const Shape& like) {
  Array y(like);
  for (std::int64_t i = 0; i < x.shape.num_elements(); ++i) {
    y[broadcast_index(like, x.shape, i)] += x[i];
  }
  return y;
}

Array concat(const std::vector<Array>& parts, int axis) {
  const Shape& first = parts.front().shape;
  if (axis < 0) axis += first.rank();
  std::int64_t length = 0, outer = 1, inner = 1;
  for (const Array& part : parts) length += part.shape[axis];
  for (int i = 0; i < axis; ++i) outer *= first[i];
  for (int i = axis + 1; i < first.rank(); ++i) inner *= first[i];
  Array y(first.with_dim(axis, length));
  std::int64_t begin = 0;
  for (const Array& part : parts) {
    const std::int64_t run = part.shape[axis] * inner;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t i = 0; i < run; ++i) y[o * length * inner + begin + i] = part[o * run + i];
    }
    begin += run;
  }
  return y;
}

Array log_softmax(const Array& x) {
  Array y(x.shape);
  const std::int64_t classes = x.shape.back();
  for (std::int64_t row = 0; row < x.shape.num_elements(); row += classes) {
    double largest = x[row], sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) largest = std::max(largest, x[row + c]);
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(x[row + c] - largest);
    for (std::int64_t c = 0; c < classes; ++c) y[row + c] = x[row + c] - largest - std::log(sum);
  }
  return y;
}

Array nll(const Array& logp, const Array& labels, double smoothing) {
  Array loss(Shape{});
  const std::int64_t classes = logp.shape.back();
  for (std::int64_t n = 0; n < logp.shape[0]; ++n) {
    for (std::int64_t c = 0; c < classes; ++c) {
      const double q =
          labels.shape.rank() == 2 ? labels[n * classes + c] : double(labels[n] == double(c));
      loss[0] -= ((1 - smoothing) * q + smoothing / double(classes)) * logp[n * classes + c];
    }
  }
  return loss;
}

Array pair_loss(const Array& y, const Array& target, const ElementLoss& f, bool mean) {
  Array loss(Shape{});
  const std::int64_t elements = y.shape.num_elements();
  for (std::int64_t i = 0; i < elements; ++i) loss[0] += f(y[i], target[i], i);
  if (mean) loss[0] *= double(y.shape[0]) / double(elements);
  return loss;
}

Array weighted_nll(const Array& logp, const Array& labels, const Array* weight, double norm,
                   const WeightedNll& options) {
  Array loss(Shape{});
  const std::int64_t classes = logp.shape.back();
  const bool soft = labels.shape.rank() == 2;
  for (std::int64_t n = 0; n < logp.shape[0]; ++n) {
    if (!soft && std::int64_t(labels[n]) == options.ignored) continue;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double q = soft ? labels[n * classes + c] : double(labels[n] == double(c));
      const double target = (1 - options.smoothing) * q + options.smoothing / double(classes);
      loss[0] -= norm * (weight ? (*weight)[c] : 1) * target * logp[n * classes + c];
    }
  }
  return loss;
}

Array mse(const Array& y, const Array& target) {
  Array loss(Shape{});
  const std::int64_t elements = y.shape.num_elements();
  for (std::int64_t i = 0; i < elements; ++i) loss[0] += (y[i] - target[i]) * (y[i] - target[i]);
  loss[0] *= double(y.shape[0]) / double(elements);
  return loss;
}

Array bce_with_logits(const Array& x, const Array& target) {
  Array loss(Shape{});
  const std::int64_t elements = x.shape.num_elements();
  for (std::int64_t i = 0; i < elements; ++i) {
    loss[0] += std::max(x[i], 0.0) - x[i] * target[i] + std::log1p(std::exp(-std::abs(x[i])));
  }
  loss[0] *= double(x.shape[0]) / double(elements);
  return loss;
}

}  // namespace ref

Array finite_difference(const Function& f, const std::vector<Array>& inputs, std::size_t which,
                        const Array& dy) {
  std::vector<Array> moved = inputs;
  const auto objective = [&] {
    const Array y = f(moved);
    TR_CHECK(y.shape == dy.shape, "finite_difference: f gives {}, dy is {}", y.shape.str(),
             dy.shape.str());
    return std::inner_product(y.values.begin(), y.values.end(), dy.values.begin(), 0.0);
  };
  Array gradient(inputs[which].shape);
  for (std::int64_t i = 0; i < gradient.shape.num_elements(); ++i) {
    const double x = inputs[which][i];
    const double h = 1e-5 * std::max(1.0, std::abs(x));
    moved[which][i] = x + h;
    const double up = objective();
    moved[which][i] = x - h;
    gradient[i] = (up - objective()) / (2 * h);
    moved[which][i] = x;
  }
  return gradient;
}

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "op/op_harness.h"

namespace tr::test {
namespace {

constexpr double kEps = 1e-3;

/// Largest 1 / sigma of a channel.
double largest_rstd(const Array& x) {
  const std::int64_t channels = x.shape.back(), rows = x.shape.num_elements() / channels;
  double largest = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    double mean = 0, squares = 0;
    for (std::int64_t r = 0; r < rows; ++r) mean += x[r * channels + c] / double(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      squares += (x[r * channels + c] - mean) * (x[r * channels + c] - mean);
    }
    largest = std::max(largest, 1 / std::sqrt(squares / double(rows) + kEps));
  }
  return largest;
}

/// x around `middle`; running statistics that are far from those of x.
OpCase norm_case(const std::string& op, const std::string& name, const Shape& x, float middle = 0) {
  const Shape channels{x.back()};
  OpCase c{.name = op + "_" + name, .op = op, .attrs = {{"eps", kEps}}};
  c.inputs = {Tensor::uniform(x, middle - 1, middle + 1, 1), Tensor::uniform(channels, 0.5, 2, 2),
              Tensor::uniform(channels, -1, 1, 3),
              Tensor::uniform(channels, middle - 0.5f, middle + 0.5f, 4),
              Tensor::uniform(channels, 0.5, 1.5, 5)};
  c.low = {0};
  c.summed = x.num_elements() / x.back();
  // What is subtracted has the size of `middle` and is divided by sigma; dx sums three terms.
  c.scale = 4 * (1 + std::abs(middle)) * std::max(2.0, largest_rstd(array_of(c.inputs[0])));
  c.refusals = {
      {"weight of another length",
       {c.inputs[0], Tensor::zeros({x.back() + 1}), c.inputs[2], c.inputs[3], c.inputs[4]},
       c.attrs,
       {"weight is fp32", "one a channel of x"}}};
  return c;
}

OpCase training(const std::string& name, const Shape& x, float middle = 0) {
  OpCase c = norm_case("bn", name, x, middle);
  c.forward = [](const std::vector<Array>& in) {
    return ref::batch_norm(in[0], in[1], in[2], kEps);
  };
  c.differentiable = {0, 1, 2};
  std::vector<Tensor> one = c.inputs;
  one[0] = Tensor::zeros({1, x.back()});
  c.refusals.push_back({"one value a channel", one, c.attrs, {"one value a channel", "variance"}});
  return c;
}

OpCase running(const std::string& op, const std::string& name, const Shape& x) {
  OpCase c = norm_case(op, name, x);
  c.forward = [](const std::vector<Array>& in) {
    return ref::affine(ref::normalise(in[0], {in[3], in[4]}, kEps), in[1], in[2]);
  };
  if (op == "bn_frozen") c.differentiable = {0, 1, 2};
  return c;
}

}  // namespace

std::vector<OpCase> norm_cases() {
  OpCase far = training("far_from_zero", {33, 3}, 100);
  far.dtypes = {DType::FP32};  // in 16 bits all values would be a few
  return {training("rows", {7, 5}),
          training("two_rows", {2, 1}),
          training("image", {2, 3, 4, 6}),
          training("many_rows", {131, 3}),
          training("wide", {3, 530}),
          far,
          running("bn_eval", "image", {2, 3, 4, 6}),
          running("bn_eval", "one_value", {1, 5}),
          running("bn_frozen", "image", {2, 3, 4, 6}),
          running("bn_frozen", "one_value", {1, 5}),
          running("bn_frozen", "wide", {3, 530})};
}

std::vector<OpCase> large_norm_cases() {
  return {training("large", {16, 28, 28, 96}),
          training("large_few", {9, 113, 112, 3}),
          training("large_odd", {5003, 33}),
          training("large_wide", {37, 2048}),
          running("bn_eval", "large", {7, 27, 28, 65}),
          running("bn_frozen", "large", {16, 28, 28, 96})};
}

}  // namespace tr::test

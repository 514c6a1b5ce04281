// SPDX-License-Identifier: Apache-2.0
#include "op/op_harness.h"

namespace tr::test {
namespace {

OpCase fc_case(const std::string& name, const Shape& x, std::int64_t outputs, bool bias) {
  const std::int64_t features = x.back();
  OpCase c{.name = "fc_" + name, .op = "fc", .attrs = {{"bias", bias}}};
  c.inputs = {Tensor::uniform(x, -1, 1, 1), Tensor::uniform({outputs, features}, -1, 1, 2),
              bias ? Tensor::uniform({outputs}, -1, 1, 3) : Tensor()};
  c.forward = [](const std::vector<Array>& in) {
    return ref::fc(in[0], in[1], in.size() > 2 ? &in[2] : nullptr);
  };
  c.differentiable = {0, 1, 2};
  c.low = {0, 1};
  c.summed = std::max({features, outputs, x.num_elements() / features});
  const Tensor weight = c.inputs[1];
  c.refusals = {
      {"weight of another width",
       {Tensor::zeros({3, features + 1}), weight, c.inputs[2]},
       c.attrs,
       {std::to_string(features), std::to_string(features + 1)}},
      {"integers",
       {Tensor::zeros({3, features}, DType::INT32), weight, c.inputs[2]},
       c.attrs,
       {"int32"}},
  };
  if (bias) {
    c.refusals.push_back({"bias of another length",
                          {Tensor::zeros({3, features}), weight, Tensor::zeros({outputs + 1})},
                          c.attrs,
                          {"bias", std::to_string(outputs + 1)}});
  }
  return c;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  return {fc_case("one", {1, 1}, 1, true),           fc_case("odd", {7, 33}, 5, true),
          fc_case("odd_no_bias", {7, 33}, 5, false), fc_case("row", {1, 130}, 3, true),
          fc_case("typical", {20, 64}, 48, true),    fc_case("rank3", {2, 3, 17}, 9, true),
          fc_case("one_output", {9, 21}, 1, false)};
}

std::vector<OpCase> large_linear_cases() {
  return {fc_case("large", {517, 784}, 257, true), fc_case("large_no_bias", {64, 1031}, 130, false),
          fc_case("large_rank3", {9, 33, 130}, 65, true)};
}

}  // namespace tr::test

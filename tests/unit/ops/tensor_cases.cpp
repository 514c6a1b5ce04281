// SPDX-License-Identifier: Apache-2.0
#include "op_cases.h"

namespace tr::test {
namespace {

using Axes = std::vector<std::int64_t>;
const Shape kX{4, 5};

void add_binary(std::vector<ShapeCase>& cases) {
  for (const std::string op : {"sub", "div", "pow", "minimum", "maximum"}) {
    cases.push_back({"Crossed", op, {}, {f16({4, 1}), f16({1, 5})}, {f16(kX)}, {}});
    cases.push_back({"Apart", op, {}, {f32(kX), f32({4})}, {}, {"b has shape [4]", "[4, 5]"}});
    cases.push_back({"Mixed", op, {}, {f32(kX), f16(kX)}, {}, {"b has dtype fp16"}});
    for (const std::string part : {"_da", "_db"}) {
      const TensorType out = part == "_da" ? f32({4, 1}) : f32({5});
      cases.push_back({"Good", op + part, {}, {f32(kX), f32({4, 1}), f32({5})}, {out}, {}});
      cases.push_back({"Dy",
                       op + part,
                       {},
                       {f32({5}), f32({4, 1}), f32({5})},
                       {},
                       {"dy is fp32 [5], expected fp32 [4, 5] (a and b, broadcast)"}});
    }
  }
  cases.push_back({"Channels", "prelu", {}, {f16(kX), f32({5})}, {f16(kX)}, {}});
  cases.push_back({"LowWeight", "prelu", {}, {f16(kX), f16({5})}, {}, {"weight has dtype fp16"}});
  cases.push_back({"Good", "prelu_da", {}, {f16(kX), f16(kX), f32({1})}, {f16(kX)}, {}});
  cases.push_back({"Dy", "prelu_da", {}, {f32(kX), f16(kX), f32({1})}, {}, {"dy is fp32 [4, 5]"}});
  cases.push_back({"Good", "prelu_db", {}, {f16(kX), f16(kX), f32({5})}, {f32({5})}, {}});
  cases.push_back({"Long", "prelu_db", {}, {f16(kX), f16(kX), f32({4})}, {}, {"weight has shape"}});
}

void add_comparisons(std::vector<ShapeCase>& cases) {
  for (const std::string op : {"equal", "not_equal", "less", "less_equal", "greater",
                               "greater_equal", "logical_and", "logical_or", "logical_xor"}) {
    cases.push_back({"Good", op, {}, {i64(kX), i64({5})}, {boolean(kX)}, {}});
    cases.push_back({"Bytes", op, {}, {u8(kX), u8(kX)}, {}, {"a has dtype uint8, expected a"}});
    cases.push_back({"Mixed", op, {}, {f32(kX), i32(kX)}, {}, {"b has dtype int32"}});
  }
  cases.push_back({"Bool", "less", {}, {boolean(kX), boolean(kX)}, {}, {"a has dtype bool"}});
}

void add_selection(std::vector<ShapeCase>& cases) {
  cases.push_back({"Crossed", "where", {}, {boolean({4, 1}), f16({5}), f16({1})}, {f16(kX)}, {}});
  cases.push_back({"Numbers",
                   "where",
                   {},
                   {f32(kX), f32(kX), f32(kX)},
                   {},
                   {"condition has dtype fp32, expected bool"}});
  const Attrs fill = {{"value", 1.0}};
  cases.push_back({"Rows", "masked_fill", fill, {f16(kX), boolean({4, 1})}, {f16(kX)}, {}});
  cases.push_back({"Larger",
                   "masked_fill",
                   fill,
                   {f16({5}), boolean(kX)},
                   {},
                   {"mask has shape [4, 5], expected [5]"}});
  for (const std::string op : {"tril", "triu"}) {
    cases.push_back({"Good", op, {}, {f32({2, 4, 5})}, {f32({2, 4, 5})}, {}});
    cases.push_back({"Vector", op, {}, {f32({5})}, {}, {"x has shape [5], expected [..., rows"}});
  }
}

void add_reductions(std::vector<ShapeCase>& cases) {
  for (const std::string op : {"sum", "mean", "amax", "amin", "prod", "var"}) {
    const TensorType x = f16({2, 3, 4});
    cases.push_back({"Middle", op, {{"axes", Axes{1}}}, {x}, {f16({2, 4})}, {}});
    cases.push_back(
        {"Kept", op, {{"axes", Axes{-1, 0}}, {"keepdims", true}}, {x}, {f16({1, 3, 1})}, {}});
    cases.push_back({"All", op, {}, {x}, {f16({})}, {}});
    cases.push_back({"Range", op, {{"axes", Axes{3}}}, {x}, {}, {"axis is 3, expected -3 to 2"}});
    const bool saves_y = op == "amax" || op == "amin";
    std::vector<TensorType> in = {f16({2, 4}), x};
    if (saves_y) in.push_back(f16({2, 4}));
    cases.push_back({"Good", op + "_backward", {{"axes", Axes{1}}}, in, {x}, {}});
    in[0] = f16({2, 3});
    cases.push_back({"Dy",
                     op + "_backward",
                     {{"axes", Axes{1}}},
                     in,
                     {},
                     {"dy is fp16 [2, 3], expected fp16 [2, 4] (x, reduced)"}});
  }
  cases.push_back({"Correction",
                   "var",
                   {{"axes", Axes{1}}, {"correction", std::int64_t{4}}},
                   {f32({2, 4})},
                   {},
                   {"correction is 4, expected 0 to 3"}});
  cases.push_back({"Empty", "amax", {{"axes", Axes{1}}}, {f32({2, 0})}, {}, {"no elements"}});
}

void add_layout(std::vector<ShapeCase>& cases) {
  const Attrs sample = {{"shape", Axes{2, -1}}, {"keep_batch", true}};
  cases.push_back({"Sample", "reshape", sample, {i32({3, 8})}, {i32({3, 2, 4})}, {}});
  cases.push_back(
      {"Count", "reshape", sample, {i32({3, 7})}, {}, {"shape is [2, -1], expected 7"}});
  cases.push_back({"Two", "reshape", {{"shape", Axes{-1, -1}}}, {f32(kX)}, {}, {"at most once"}});
  cases.push_back(
      {"Good", "permute", {{"axes", Axes{2, 0, -2}}}, {f16({2, 3, 4})}, {f16({4, 2, 3})}, {}});
  cases.push_back(
      {"Short", "permute", {{"axes", Axes{0}}}, {f32(kX)}, {}, {"a permutation of the 2"}});
  const Attrs last = {{"axis0", std::int64_t{-1}}, {"axis1", std::int64_t{-2}}};
  cases.push_back({"Good", "transpose", last, {f16({2, 3, 4})}, {f16({2, 4, 3})}, {}});
  cases.push_back({"Vector", "transpose", last, {f32({3})}, {}, {"axis is -2, expected -1 to 0"}});
  const auto cut = [](std::int64_t axis, std::int64_t start, std::int64_t end, std::int64_t step) {
    return Attrs{
        {"axes", Axes{axis}}, {"starts", Axes{start}}, {"ends", Axes{end}}, {"steps", Axes{step}}};
  };
  cases.push_back({"Python", "slice", cut(-1, -2, 100, 1), {i64(kX)}, {i64({4, 2})}, {}});
  cases.push_back({"Backwards", "slice", cut(0, -1, -100, -2), {f32(kX)}, {f32({2, 5})}, {}});
  cases.push_back({"Step", "slice", cut(0, 0, 1, 0), {f32(kX)}, {}, {"the step of axis 0 is 0"}});
  cases.push_back(
      {"Good", "slice_backward", cut(1, 1, 3, 1), {f16({4, 2}), f16(kX)}, {f16(kX)}, {}});
  cases.push_back({"Dy",
                   "slice_backward",
                   cut(1, 1, 4, 1),
                   {f16({4, 2}), f16(kX)},
                   {},
                   {"dy has shape [4, 2], expected [4, 3] (the slice of x)"}});
}

void add_lookup(std::vector<ShapeCase>& cases) {
  const Attrs last = {{"axis", std::int64_t{-1}}};
  cases.push_back({"Good", "gather", last, {f16(kX), i64({4, 2})}, {f16({4, 2})}, {}});
  cases.push_back({"Rows", "gather", last, {f16(kX), i64({3, 2})}, {}, {"index has shape [3, 2]"}});
  cases.push_back(
      {"Good", "gather_backward", last, {f16({4, 2}), i64({4, 2}), f16(kX)}, {f16(kX)}, {}});
  cases.push_back({"Dy",
                   "gather_backward",
                   last,
                   {f16({4, 3}), i64({4, 2}), f16(kX)},
                   {},
                   {"dy is fp16 [4, 3], expected fp16 [4, 2] (x at index)"}});
  cases.push_back({"Good", "embedding", {}, {i32({2, 3}), f16({7, 5})}, {f16({2, 3, 5})}, {}});
  cases.push_back({"Floats", "embedding", {}, {f32({2}), f32({7, 5})}, {}, {"ids has dtype fp32"}});
  cases.push_back(
      {"Good", "embedding_dweight", {}, {f16({2, 5}), i32({2}), f32({7, 5})}, {f32({7, 5})}, {}});
  cases.push_back({"Dy",
                   "embedding_dweight",
                   {},
                   {f16({3, 5}), i32({2}), f32({7, 5})},
                   {},
                   {"dy has shape [3, 5], expected [2, 5]"}});
  cases.push_back(
      {"Good", "position_embedding", {}, {f16({2, 3, 4}), f32({3, 4})}, {f16({2, 3, 4})}, {}});
  cases.push_back({"Longer",
                   "position_embedding",
                   {},
                   {f16({2, 3, 4}), f32({5, 4})},
                   {},
                   {"weight has shape [5, 4], expected [3, 4] (a sample of x)"}});
  const Attrs two = {{"tokens", std::int64_t{2}}};
  cases.push_back(
      {"Good", "prepend_tokens", two, {f16({2, 3, 4}), f32({2, 4})}, {f16({2, 5, 4})}, {}});
  cases.push_back({"One",
                   "prepend_tokens",
                   two,
                   {f16({2, 3, 4}), f32({1, 4})},
                   {},
                   {"weight has shape [1, 4], expected [2, 4]"}});
}

void add_products_and_norms(std::vector<ShapeCase>& cases) {
  const Attrs scores = {{"transpose_b", true}};
  cases.push_back({"Scores",
                   "matmul",
                   scores,
                   {f16({2, 3, 4, 5}), f16({2, 3, 6, 5})},
                   {f16({2, 3, 4, 6})},
                   {}});
  cases.push_back(
      {"Repeated", "matmul", {}, {f32({2, 1, 4, 5}), f32({3, 5, 6})}, {f32({2, 3, 4, 6})}, {}});
  cases.push_back(
      {"Terms", "matmul", {}, {f32(kX), f32(kX)}, {}, {"b has shape [4, 5], expected 5"}});
  cases.push_back(
      {"Batch", "matmul", {}, {f32({2, 4, 5}), f32({3, 5, 6})}, {}, {"b has shape [3]"}});
  for (const std::string op : {"softmax", "log_softmax_axis"}) {
    cases.push_back(
        {"Middle", op, {{"axis", std::int64_t{1}}}, {f16({2, 3, 4})}, {f16({2, 3, 4})}, {}});
    cases.push_back({"Empty", op, {}, {f32({2, 0})}, {}, {"expected elements along axis -1"}});
    cases.push_back({"Good", op + "_backward", {}, {f16(kX), f16(kX)}, {f16(kX)}, {}});
    cases.push_back({"Y", op + "_backward", {}, {f16(kX), f32(kX)}, {}, {"y is fp32 [4, 5]"}});
  }
  const Attrs middle = {{"axis", std::int64_t{1}}, {"gate", std::string("silu")}};
  cases.push_back({"Middle", "glu", middle, {f16({2, 6, 4})}, {f16({2, 3, 4})}, {}});
  cases.push_back({"Odd", "glu", {}, {f32(kX)}, {}, {"expected an even length along axis -1"}});
  cases.push_back(
      {"Good", "glu_backward", middle, {f16({2, 3, 4}), f16({2, 6, 4})}, {f16({2, 6, 4})}, {}});
  cases.push_back({"Dy", "glu_backward", middle, {f16({2, 6, 4}), f16({2, 6, 4})}, {}, {"dy is"}});
  const TensorType x = f16({2, 3, 6});
  const auto add_norm = [&](const std::string& op, const Attrs& attrs,
                            const TensorType& statistic) {
    const bool centres = op != "rms_norm";
    std::vector<TensorType> in = {x, f32({6})}, out = {x, statistic},
                            back = {x, x, f32({6}), statistic};
    std::vector<TensorType> gradients = {x, f32({6})};
    if (centres) {
      in.push_back(f32({6}));
      out.push_back(statistic);
      back.push_back(statistic);
      gradients.push_back(f32({6}));
    }
    cases.push_back({"Good", op, attrs, in, out, {}});
    in[1] = f16({6});
    cases.push_back({"LowWeight", op, attrs, in, {}, {"weight is fp16 [6], expected fp32 [6]"}});
    cases.push_back({"Good", op + "_backward", attrs, back, gradients, {}});
    back.back() = f32({2});
    cases.push_back({"Rstd", op + "_backward", attrs, back, {}, {"rstd is fp32 [2], expected"}});
  };
  add_norm("layer_norm", {}, f32({6, 1}));
  add_norm("rms_norm", {}, f32({6, 1}));
  add_norm("group_norm", {{"groups", std::int64_t{3}}}, f32({2, 3}));
  cases.push_back({"Groups",
                   "group_norm",
                   {{"groups", std::int64_t{4}}},
                   {x, f32({6}), f32({6})},
                   {},
                   {"groups is 4, expected a divisor of 6"}});
  cases.push_back({"Axes",
                   "layer_norm",
                   {{"num_axes", std::int64_t{3}}},
                   {x, f32({6}), f32({6})},
                   {},
                   {"num_axes is 3, expected 1 to 2"}});
}

}  // namespace

std::vector<ShapeCase> tensor_cases() {
  std::vector<ShapeCase> cases;
  add_binary(cases);
  add_comparisons(cases);
  add_selection(cases);
  add_reductions(cases);
  add_layout(cases);
  add_lookup(cases);
  add_products_and_norms(cases);
  return cases;
}

}  // namespace tr::test

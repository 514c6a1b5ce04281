// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "op_cases.h"

namespace tr::test {
namespace {

const TensorType kScalar = f32({}), kScores = f32({6, 10}), kLow = f16({6, 10}), kLabels = i32({6});
const Attrs kTooSmooth = {{"label_smoothing", 1.5}};
const Attrs kFp16 = {{"dtype", std::string("fp16")}};

std::vector<ShapeCase> log_softmax_cases() {
  return {
      {"Low", "log_softmax", {}, {kLow}, {kScores}, {}},
      {"Image",
       "log_softmax",
       {},
       {f16({6, 1, 1, 10})},
       {},
       {"x has shape [6, 1, 1, 10], expected [N, C] (flatten() an image first)"}},
      {"ByInput", "log_softmax_backward", {}, {kScores, kScores, kLow}, {kLow}, {}},
      {"ByAttribute", "log_softmax_backward", kFp16, {kScores, kScores}, {kLow}, {}},
      {"OtherShape",
       "log_softmax_backward",
       {},
       {kScores, f32({6, 9})},
       {},
       {"logp is fp32 [6, 9]"}},
  };
}

std::vector<ShapeCase> nll_cases() {
  return {
      {"Hard", "nll", {}, {kScores, kLabels}, {kScalar}, {}},
      {"HardLong", "nll", {}, {kScores, i64({6})}, {kScalar}, {}},
      {"Soft", "nll", {{"label_smoothing", 1.0}}, {kScores, kScores}, {kScalar}, {}},
      {"LowScores", "nll", {}, {kLow, kLabels}, {}, {"logp has dtype fp16, expected fp32"}},
      {"Count",
       "nll",
       {},
       {kScores, i32({5})},
       {},
       {"labels has shape [5], expected [6] (a class number a sample)"}},
      {"Bytes",
       "nll",
       {},
       {kScores, u8({6})},
       {},
       {"labels has dtype uint8, expected int32 or int64 (class numbers) or fp32 (probabilities)"}},
      {"SoftShape",
       "nll",
       {},
       {kScores, f32({6})},
       {},
       {"labels is fp32 [6], expected fp32 [6, 10]"}},
      {"Smoothing",
       "nll",
       kTooSmooth,
       {kScores, kLabels},
       {},
       {"label_smoothing is 1.5, expected 0 <= label_smoothing <= 1"}},
      {"Good", "nll_backward", {}, {kScalar, kScores, kLabels}, {kScores}, {}},
      {"Seed",
       "nll_backward",
       {},
       {f32({1}), kScores, kLabels},
       {},
       {"seed is fp32 [1], expected fp32 []"}},
  };
}

std::vector<ShapeCase> fused_cases() {
  return {
      {"Good", "softmax_cross_entropy", {}, {kLow, kLabels}, {kScalar, kScores}, {}},
      {"Smoothing",
       "softmax_cross_entropy",
       kTooSmooth,
       {kLow, kLabels},
       {},
       {"label_smoothing is 1.5"}},
      {"ByAttribute",
       "softmax_cross_entropy_backward",
       kFp16,
       {kScalar, kScores, kLabels},
       {kLow},
       {}},
      {"ByInput",
       "softmax_cross_entropy_backward",
       {},
       {kScalar, kScores, kLabels, kLow},
       {kLow},
       {}},
      {"LowScores",
       "softmax_cross_entropy_backward",
       {},
       {kScalar, kLow, kLabels},
       {},
       {"logp has dtype fp16"}},
  };
}

std::vector<ShapeCase> pair_cases() {
  return {
      {"Low", "mse", {}, {kLow, kScores}, {kScalar}, {}},
      {"Vector", "mse", {}, {f32({6}), f32({6})}, {kScalar}, {}},
      {"Shape",
       "mse",
       {},
       {f32({6, 1}), f32({6})},
       {},
       {"target has shape [6], expected [6, 1] (that of y)"}},
      {"Target", "mse", {}, {kScores, i32({6, 10})}, {}, {"target has dtype int32, expected fp32"}},
      {"Scalar", "mse", {}, {kScalar, kScalar}, {}, {"y has shape [], expected [N, ...]"}},
      {"Good", "mse_backward", {}, {kScalar, kLow, kScores}, {kLow}, {}},
      {"Seed",
       "mse_backward",
       {},
       {kLabels, kLow, kScores},
       {},
       {"seed is int32 [6], expected fp32 []"}},
      {"Good", "bce_with_logits", {}, {kScores, kScores}, {kScalar}, {}},
      {"Shape", "bce_with_logits", {}, {kScores, f32({6, 9})}, {}, {"target has shape [6, 9]"}},
      {"Good", "bce_with_logits_backward", {}, {kScalar, kScores, kScores}, {kScores}, {}},
      {"Shape",
       "bce_with_logits_backward",
       {},
       {kScalar, kScores, f32({6, 9})},
       {},
       {"target has shape [6, 9]"}},
  };
}

/// A good case and one of another shape for each loss of the table and its gradient.
std::vector<ShapeCase> more_pair_cases() {
  std::vector<ShapeCase> cases;
  for (const char* op : {"l1", "huber", "smooth_l1", "focal", "kl_div"}) {
    const std::string backward = std::string(op) + "_backward";
    cases.push_back({"Good", op, {}, {kLow, kScores}, {kScalar}, {}});
    cases.push_back({"Shape",
                     op,
                     {},
                     {kScores, f32({6, 9})},
                     {},
                     {"target has shape [6, 9], expected [6, 10]"}});
    cases.push_back({"Good", backward, {}, {kScalar, kLow, kScores}, {kLow}, {}});
    cases.push_back({"Seed",
                     backward,
                     {},
                     {kLabels, kLow, kScores},
                     {},
                     {"seed is int32 [6], expected fp32 []"}});
  }
  const std::vector<ShapeCase> options = {
      {"Delta", "huber", {{"delta", 0.0}}, {kScores, kScores}, {}, {"delta is 0, expected a pos"}},
      {"Beta", "smooth_l1", {{"beta", -1.0}}, {kScores, kScores}, {}, {"beta is -1"}},
      {"Alpha", "focal", {{"alpha", 1.5}}, {kScores, kScores}, {}, {"alpha is 1.5"}},
      {"Gamma", "focal", {{"gamma", -1.0}}, {kScores, kScores}, {}, {"gamma is -1"}},
      {"Weight", "bce_with_logits", {}, {kScores, kScores, f32({10})}, {kScalar}, {}},
      {"OneWeight", "bce_with_logits", {}, {kScores, kScores, f32({1})}, {kScalar}, {}},
      {"Weights",
       "bce_with_logits",
       {},
       {kScores, kScores, f32({6})},
       {},
       {"pos_weight has shape [6], expected [10] (the last axis of y [6, 10]) or [1]"}}};
  cases.insert(cases.end(), options.begin(), options.end());
  return cases;
}

std::vector<ShapeCase> weighted_cases() {
  const TensorType weight = f32({10});
  return {
      {"Good", "class_norm", {}, {kLabels, weight}, {kScalar}, {}},
      {"Alone", "class_norm", {}, {i64({6})}, {kScalar}, {}},
      {"Soft", "class_norm", {}, {kScores, weight}, {kScalar}, {}},
      {"Vector", "class_norm", {}, {f32({6})}, {}, {"labels has shape [6], expected [N, C]"}},
      {"Good", "weighted_nll", {}, {kScores, kLabels, weight, kScalar}, {kScalar}, {}},
      {"Soft", "weighted_nll", {}, {kScores, kScores, weight}, {kScalar}, {}},
      {"Weights",
       "weighted_nll",
       {},
       {kScores, kLabels, f32({9})},
       {},
       {"class_weight is fp32 [9], expected fp32 [10] (a weight a class)"}},
      {"Good",
       "weighted_nll_backward",
       {},
       {kScalar, kScores, kLabels, weight, kScalar},
       {kScores},
       {}},
      {"Norm",
       "weighted_nll_backward",
       {},
       {kScalar, kScores, kLabels, weight, f32({2})},
       {},
       {"norm is fp32 [2], expected fp32 []"}},
      {"Good", "scale", {{"factor", 2.0}}, {kLow}, {kLow}, {}},
      {"Labels", "scale", {{"factor", 2.0}}, {kLabels}, {}, {"x has dtype int32"}},
      {"Good", "full_like", {{"value", 2.0}}, {kLow}, {kScores}, {}},
      {"Value",
       "full_like",
       {{"value", std::numeric_limits<double>::infinity()}},
       {kLow},
       {},
       {"value is inf"}},
  };
}

std::vector<ShapeCase> metric_cases() {
  return {
      {"Good", "topk_correct", {}, {kLow, i64({6})}, {i32({2})}, {}},
      {"Soft",
       "topk_correct",
       {},
       {kScores, kScores},
       {},
       {"labels has dtype fp32, expected int32 or int64"}},
      {"K", "topk_correct", {{"k", std::int64_t{0}}}, {kLow, i64({6})}, {}, {"k is 0, expected"}},
      {"Good", "confusion_matrix", {}, {kLow, kLabels, i32({10, 10})}, {}, {}},
      {"Matrix",
       "confusion_matrix",
       {},
       {kLow, kLabels, i32({6, 6})},
       {},
       {"matrix is int32 [6, 6], expected int32 [10, 10]"}},
      {"Good", "loss_seed", {}, {i64({8}), f32({32, 6}), kScalar}, {kScalar}, {}},
      {"Table",
       "loss_seed",
       {},
       {i64({8}), f32({32, 2}), kScalar},
       {},
       {"step_floats is fp32 [32, 2]"}},
      {"Scale",
       "loss_seed",
       {},
       {i64({8}), f32({32, 6}), i32({})},
       {},
       {"loss_scale is int32 [], expected fp32 []"}},
  };
}

}  // namespace

std::vector<ShapeCase> loss_cases() {
  std::vector<ShapeCase> all;
  for (auto* family : {log_softmax_cases, nll_cases, fused_cases, pair_cases, more_pair_cases,
                       weighted_cases, metric_cases}) {
    for (ShapeCase& c : family()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.h"
#include "graph/step_tables.h"
#include "op_cases.h"

namespace tr::test {
namespace {

const TensorType kScalar = f32({}), kFlag = i32({}), kNone{};
const TensorType kCounters = i64({kNumCounters}), kTable = f32({16, 10});

using Ints = std::vector<std::int64_t>;
using Types = std::vector<TensorType>;

Types replaced(Types in, std::size_t index, const TensorType& by) {
  in[index] = by;
  return in;
}

// Two layers, 5 -> 4 with a bias and 4 -> 3 without: 20 + 4 + 12 elements.
const TensorType kWeights = f32({128}), kDy0 = f16({7, 4}), kX0 = f16({7, 5}), kDy1 = f16({7, 3}),
                 kX1 = f16({7, 4});

Attrs update_attrs(const std::string& optimizer, Attrs more = {}) {
  more.set("optimizer", optimizer);
  more.set("biases", Ints{1, 0});
  return more;
}

/// weights ... loss_scale, both moments, the 16-bit copy, the operands of both layers.
Types update_inputs(const TensorType& moment1, const TensorType& moment2, const TensorType& cast) {
  const TensorType segments = u8({3 * std::int64_t(sizeof(Segment))});
  return {kWeights, kWeights, segments, kTable, kCounters, kScalar, moment1,
          moment2,  cast,     kDy0,     kX0,    kDy1,      kX1};
}

const Types kUpdated = {kFlag, kScalar, f32({4, 5}), f32({4}), f32({3, 4})};

std::vector<ShapeCase> good_updates() {
  const Attrs momentum = {{"momentum", 0.9}};
  // Layers of one chain may have rows of their own: a sequence, then what it was reduced to.
  const Types sequence =
      replaced(replaced(update_inputs(kNone, kNone, kNone), 9, f16({7, 2, 4})), 10, f16({7, 2, 5}));
  return {
      {"Plain", "fc_update", update_attrs("sgd"), update_inputs(kNone, kNone, kNone), kUpdated, {}},
      {"Momentum",
       "fc_update",
       update_attrs("sgd", momentum),
       update_inputs(kWeights, kNone, f16({128})),
       kUpdated,
       {}},
      {"Adam",
       "fc_update",
       update_attrs("adam"),
       update_inputs(kWeights, kWeights, f16({128})),
       kUpdated,
       {}},
      {"Sequence", "fc_update", update_attrs("sgd"), sequence, kUpdated, {}},
  };
}

std::vector<ShapeCase> bad_update_attrs() {
  const Types plain = update_inputs(kNone, kNone, kNone),
              adam = update_inputs(kWeights, kWeights, kNone);
  return {
      {"Optimizer",
       "fc_update",
       update_attrs("lion"),
       plain,
       {},
       {"optimizer is 'lion', expected sgd or adam"}},
      {"Biases",
       "fc_update",
       {{"optimizer", std::string("sgd")}, {"biases", Ints{1}}},
       plain,
       {},
       {"there are 4 operands, expected dy and x for each entry of biases (1)"}},
      {"Beta",
       "fc_update",
       update_attrs("adam", {{"beta1", 1.0}}),
       adam,
       {},
       {"beta1 is 1, expected 0 <= beta1 < 1"}},
      {"Clip",
       "fc_update",
       update_attrs("adam", {{"clip_value", -1.0}}),
       adam,
       {},
       {"clip_value is -1, expected at least 0"}},
  };
}

std::vector<ShapeCase> bad_updates() {
  const Types plain = update_inputs(kNone, kNone, kNone);
  const auto bad = [](const char* name, const Types& in, const char* words) {
    return ShapeCase{name, "fc_update", update_attrs("sgd"), in, {}, {words}};
  };
  return {
      bad("LowWeights", replaced(plain, 0, f16({128})), "weights is fp16 [128], expected fp32"),
      bad("Gradients", replaced(plain, 1, f32({64})), "gradients has shape [64], expected [128]"),
      bad("Segments", replaced(plain, 2, f32({9})), "segments is fp32 [9], expected uint8"),
      bad("Table", replaced(plain, 3, f32({16, 9})), "step_floats is fp32 [16, 9]"),
      bad("Counters", replaced(plain, 4, i32({8})), "counters is int32 [8], expected int64 [8]"),
      bad("Scale", replaced(plain, 5, kFlag), "loss_scale is int32 [], expected fp32 []"),
      bad("MomentGiven", replaced(plain, 6, kWeights), "moment1 is given, expected it missing"),
      bad("Moment2Given", replaced(plain, 7, kWeights), "moment2 is given, expected it missing"),
      bad("Cast", replaced(plain, 8, kWeights), "weight_cast has dtype fp32, expected fp16"),
      bad("CastLength", replaced(plain, 8, f16({64})), "weight_cast has shape [64]"),
      bad("IntegerDy", replaced(plain, 9, i32({7, 4})), "dy of layer 0 has dtype int32"),
      bad("FlatX", replaced(plain, 12, f16({28})),
          "x of layer 1 has shape [28], expected [N, ..., features]"),
      bad("Rows", replaced(plain, 12, f16({6, 4})),
          "x of layer 1 has shape [6, 4], expected the rows of dy [7, 3]"),
      bad("Elements", replaced(plain, 10, f16({7, 500})),
          "weights has 128 elements, expected at least the 2016 of the layers"),
  };
}

std::vector<ShapeCase> adam_without_moments() {
  return {{"MomentMissing",
           "fc_update",
           update_attrs("adam"),
           update_inputs(kWeights, kNone, kNone),
           {},
           {"moment1 or moment2 is missing"}}};
}

std::vector<ShapeCase> classifier_cases() {
  const Attrs gradient = {{"gradient", true}, {"dtype", std::string("fp16")}};
  const Attrs forward = {{"gradient", false}};
  const TensorType logits = f16({6, 10}), labels = i32({6}), correct = i32({2});
  const Types whole = {logits, labels, kCounters, kTable, kScalar};
  const auto bad = [](const char* name, const Attrs& attrs, const Types& in, const char* words) {
    return ShapeCase{name, "classifier_loss", attrs, in, {}, {words}};
  };
  return {
      {"Training", "classifier_loss", gradient, whole, {kScalar, correct, logits}, {}},
      {"Validation", "classifier_loss", forward, {logits, i64({6})}, {kScalar, correct}, {}},
      bad("Image", forward, {f16({6, 1, 1, 10}), labels}, "logits has shape [6, 1, 1, 10]"),
      bad("Soft", forward, {logits, f32({6, 10})}, "labels has dtype fp32, expected int32"),
      bad("Count", forward, {logits, i32({5})}, "labels has shape [5], expected [6]"),
      bad("Smoothing", {{"gradient", false}, {"label_smoothing", 1.5}}, {logits, labels},
          "label_smoothing is 1.5"),
      bad("NoTable", gradient, {logits, labels}, "there are 2 inputs, expected 5 (gradient is on)"),
      bad("TableForNothing", forward, whole, "there are 5 inputs, expected 2 (gradient is off)"),
      bad("Counters", gradient, replaced(whole, 2, kTable), "counters is fp32 [16, 10]"),
      bad("Table", gradient, replaced(whole, 3, f32({16, 2})), "step_floats is fp32 [16, 2]"),
      bad("Scale", gradient, replaced(whole, 4, kFlag), "loss_scale is int32 []"),
      bad("DType", {{"gradient", true}, {"dtype", std::string("int32")}}, whole,
          "dtype is int32, expected fp32, fp16 or bf16"),
  };
}

std::vector<ShapeCase> finish_cases() {
  const Attrs training = {{"scaling", false}, {"last_micro", true}, {"training", true}};
  const Attrs scaling = {{"scaling", true}, {"last_micro", true}, {"training", true}};
  const Attrs negative = {{"scaling", true},
                          {"growth_interval", std::int64_t{-1}},
                          {"last_micro", true},
                          {"training", true}};
  const TensorType results = f32({16, kResultColumns});
  const Types whole = {results, kCounters, kScalar, i32({2}), kFlag, kScalar, kScalar};
  const auto bad = [](const char* name, const Attrs& attrs, const Types& in, const char* words) {
    return ShapeCase{name, "finish_step", attrs, in, {}, {words}};
  };
  return {
      {"Training", "finish_step", training, whole, {}, {}},
      {"Scaling", "finish_step", scaling, whole, {}, {}},
      {"Validation", "finish_step", training, {results, kCounters, kScalar}, {}, {}},
      bad("Columns", training, replaced(whole, 0, f32({16, 3})), "results is fp32 [16, 3]"),
      bad("Counters", training, replaced(whole, 1, i64({3})), "counters is int64 [3]"),
      bad("Loss", training, replaced(whole, 2, f32({6})), "loss_sum is fp32 [6]"),
      bad("Correct", training, replaced(whole, 3, i32({1})), "correct is int32 [1]"),
      bad("FoundInf", training, replaced(whole, 4, i64({})), "found_inf is int64 []"),
      bad("Norm", training, replaced(whole, 5, f32({1})), "grad_sumsq is fp32 [1]"),
      bad("Scale", training, replaced(whole, 6, kFlag), "loss_scale is int32 []"),
      bad("NothingToScale", scaling, {results, kCounters, kScalar},
          "found_inf or loss_scale is missing, expected both where scaling is on"),
      bad("Interval", negative, whole, "growth_interval is -1, expected at least 0"),
  };
}

}  // namespace

std::vector<ShapeCase> fused_step_cases() {
  std::vector<ShapeCase> all;
  for (auto* family : {good_updates, bad_update_attrs, bad_updates, adam_without_moments,
                       classifier_cases, finish_cases}) {
    for (ShapeCase& c : family()) all.push_back(std::move(c));
  }
  return all;
}

}  // namespace tr::test

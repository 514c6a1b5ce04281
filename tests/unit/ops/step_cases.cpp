// SPDX-License-Identifier: Apache-2.0
#include "graph/memory_plan.h"
#include "graph/step_tables.h"
#include "op_cases.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;

const TensorType kRange = f32({1024}), kCounters = i64({kNumCounters}), kNone{};

/// weights ... grad_sumsq, then what is given.
std::vector<TensorType> optimizer_inputs(std::vector<TensorType> more) {
  std::vector<TensorType> in = {kRange,        kRange,    u8({3 * std::int64_t(sizeof(Segment))}),
                                f32({16, 10}), kCounters, f32({}),
                                i32({}),       f32({})};
  in.insert(in.end(), more.begin(), more.end());
  return in;
}

std::vector<TensorType> replaced(std::vector<TensorType> in, std::size_t index, TensorType by) {
  in[index] = by;
  return in;
}

std::vector<ShapeCase> optimizer_cases() {
  const Attrs momentum = {{"momentum", 0.9}};
  const std::vector<TensorType> plain = optimizer_inputs({}),
                                with_moment = optimizer_inputs({kRange});
  return {
      {"Plain", "sgd", {}, plain, {}, {}},
      {"PlainWithCast", "sgd", {}, optimizer_inputs({kNone, f16({1024})}), {}, {}},
      {"Momentum", "sgd", momentum, with_moment, {}, {}},
      {"MomentMissing",
       "sgd",
       momentum,
       plain,
       {},
       {"moment1 is missing, expected it given (momentum 0.9)"}},
      {"MomentGiven",
       "sgd",
       {},
       with_moment,
       {},
       {"moment1 is given, expected it missing (momentum 0)"}},
      {"Nesterov", "sgd", {{"nesterov", true}}, plain, {}, {"nesterov is on and momentum 0"}},
      {"LargeMomentum",
       "sgd",
       {{"momentum", 1.0}},
       with_moment,
       {},
       {"momentum is 1, expected 0 <= momentum < 1"}},
      {"Clip", "sgd", {{"clip_norm", -1.0}}, plain, {}, {"clip_norm is -1, expected at least 0"}},
      {"Gradients",
       "sgd",
       {},
       replaced(plain, 1, f32({1000})),
       {},
       {"gradients has shape [1000], expected [1024]"}},
      {"Weights",
       "sgd",
       {},
       replaced(plain, 0, f16({1024})),
       {},
       {"weights is fp16 [1024], expected fp32 [elements]"}},
      {"Segments", "sgd", {}, replaced(plain, 2, u8({33})), {}, {"segments is uint8 [33]"}},
      {"Table", "sgd", {}, replaced(plain, 3, f32({16, 9})), {}, {"step_floats is fp32 [16, 9]"}},
      {"Cycle", "sgd_cycle", {{"nesterov", true}}, with_moment, {}, {}},
      {"CycleMoment", "sgd_cycle", {}, optimizer_inputs({kNone}), {}, {"moment1 is missing"}},
      {"Cycle",
       "adam_cycle",
       {{"group", std::int64_t{1}}},
       optimizer_inputs({kRange, kRange, f16({1024})}),
       {},
       {}},
      {"CycleGroup",
       "adam_cycle",
       {{"group", std::int64_t{2}}},
       optimizer_inputs({kRange, kRange}),
       {},
       {"group is 2, expected one of the 2 in step_floats"}},
      {"Moments", "adam", {}, optimizer_inputs({kRange, kRange, f16({1024})}), {}, {}},
      {"MomentMissing",
       "adam",
       {},
       optimizer_inputs({kRange}),
       {},
       {"moment1 or moment2 is missing"}},
      {"Beta",
       "adam",
       {{"beta2", 1.0}},
       optimizer_inputs({kRange, kRange}),
       {},
       {"beta2 is 1, expected 0 <= beta2 < 1"}},
      {"Eps",
       "adam",
       {{"eps", 0.0}},
       optimizer_inputs({kRange, kRange}),
       {},
       {"eps is 0, expected a positive number"}},
      {"Cast",
       "adam",
       {},
       optimizer_inputs({kRange, kRange, kRange}),
       {},
       {"weight_cast has dtype fp32"}},
  };
}

std::vector<ShapeCase> preconditioned_cases() {
  const auto own_state = [](std::int64_t elements) {
    return optimizer_inputs({kRange, kRange, f32({elements})});
  };
  return {
      {"Shampoo", "shampoo", {{"matrices", Ints{0, 8, 16}}}, own_state(656), {}, {}},
      {"ShampooBlocks",
       "shampoo",
       {{"matrices", Ints{0, 8, 16, 256, 4, 128}}, {"block_size", std::int64_t{8}}},
       own_state(16 + 2 * 256 + 16 + 16 * 160),
       {},
       {}},
      {"ShampooState",
       "shampoo",
       {{"matrices", Ints{0, 8, 16}}},
       own_state(4),
       {},
       {"preconditioners", "fp32 [656]"}},
      {"ShampooGrafting",
       "shampoo",
       {{"grafting", std::string("lamb")}},
       own_state(1),
       {},
       {"grafting is 'lamb', expected none, sgd or adam"}},
      {"ShampooEvery",
       "shampoo",
       {{"every", std::int64_t{0}}},
       own_state(1),
       {},
       {"every is 0, expected at least 1"}},
      {"Soap", "soap", {{"matrices", Ints{0, 8, 16}}}, own_state(656), {}, {}},
      {"SoapSide",
       "soap",
       {{"matrices", Ints{0, 8, 16}}, {"max_dim", std::int64_t{8}}},
       own_state(144),
       {},
       {}},
      {"SoapBeta",
       "soap",
       {{"preconditioner_beta", 1.0}},
       own_state(1),
       {},
       {"preconditioner_beta is 1, expected below 1"}},
      {"SoapRidge",
       "soap",
       {{"ridge", 0.0}},
       own_state(1),
       {},
       {"ridge is 0, expected a positive"}},
  };
}

std::vector<ShapeCase> adaptive_optimizer_cases() {
  const std::vector<TensorType> none = optimizer_inputs({}), one = optimizer_inputs({kRange}),
                                two = optimizer_inputs({kRange, kRange}),
                                three = optimizer_inputs({kRange, kRange, kRange});
  const Attrs momentum = {{"momentum", 0.9}};
  return {
      {"Lion", "lion", {}, one, {}, {}},
      {"LionWithCast", "lion", {}, optimizer_inputs({kRange, f16({1024})}), {}, {}},
      {"LionBeta", "lion", {{"beta2", 1.0}}, one, {}, {"beta2 is 1, expected 0 <= beta2 < 1"}},
      {"Rmsprop", "rmsprop", {}, one, {}, {}},
      {"RmspropMomentum", "rmsprop", momentum, two, {}, {}},
      {"RmspropAll", "rmsprop", {{"momentum", 0.9}, {"centered", true}}, three, {}, {}},
      {"RmspropMoments",
       "rmsprop",
       momentum,
       three,
       {},
       {"moment3 is given, expected the first 2 of 3 moments"}},
      {"RmspropAlpha", "rmsprop", {{"alpha", 1.0}}, one, {}, {"alpha is 1"}},
      {"Adagrad", "adagrad", {}, one, {}, {}},
      {"AdagradDecay", "adagrad", {{"lr_decay", -1.0}}, one, {}, {"lr_decay is -1"}},
      {"Lars", "lars", {}, none, {}, {}},
      {"LarsMomentum", "lars", momentum, one, {}, {}},
      {"LarsMoments",
       "lars",
       momentum,
       none,
       {},
       {"moment1 is missing, expected the first 1 of 1 moments"}},
      {"LarsCoefficient",
       "lars",
       {{"trust_coefficient", 0.0}},
       none,
       {},
       {"trust_coefficient is 0, expected a positive number"}},
      {"Lamb", "lamb", {}, optimizer_inputs({kRange, kRange, {{1024}, DType::BF16}}), {}, {}},
      {"LambRange", "lamb", {}, optimizer_inputs({kRange, f32({7})}), {}, {"moment2"}},
      {"Muon", "muon", {{"matrices", Ints{0, 8, 16, 256, 4, 128}}}, two, {}, {}},
      {"MuonSteps",
       "muon",
       {{"steps", std::int64_t{0}}},
       two,
       {},
       {"steps is 0, expected 1 to 99"}},
      {"MuonMatrix",
       "muon",
       {{"matrices", Ints{0, 8, 16, 100, 4, 128}}},
       two,
       {},
       {"a matrix of 4 x 128 begins at element 100, expected it behind 128"}},
      {"MuonNumbers", "muon", {{"matrices", Ints{0, 8}}}, two, {}, {"matrices has 2 numbers"}},
      {"LambEps", "lamb", {{"eps", 0.0}}, two, {}, {"eps is 0, expected a positive number"}},
  };
}

}  // namespace

std::vector<ShapeCase> step_cases() {
  const Attrs micro = {{"first", true}, {"last", false}};
  const Attrs advance = {{"last_micro", true}, {"training", true}};
  const TensorType scalar = f32({}), flag = i32({}), results = f32({16, kResultColumns});
  std::vector<ShapeCase> cases = {
      {"Good", "accumulate_grads", micro, {kRange, kRange}, {}, {}},
      {"Length",
       "accumulate_grads",
       micro,
       {kRange, f32({8})},
       {},
       {"accumulated has shape [8], expected [1024]"}},
      {"Good", "finite_check", {}, {kRange}, {flag, scalar}, {}},
      {"Shape",
       "finite_check",
       {},
       {f32({2, 2})},
       {},
       {"gradients is fp32 [2, 2], expected fp32 [elements]"}},
      {"Good", "join_checks", {}, {flag, scalar, flag, scalar}, {flag, scalar}, {}},
      {"Odd", "join_checks", {}, {flag}, {}, {"there are 1 inputs, expected found_inf and"}},
      {"Order", "join_checks", {}, {scalar, flag}, {}, {"found_inf is fp32 []"}},
      {"Good", "ema_update", {{"decay", 0.99}}, {kRange, kRange, flag}, {}, {}},
      {"Decay",
       "ema_update",
       {{"decay", 1.0}},
       {kRange, kRange, flag},
       {},
       {"decay is 1, expected 0 < decay < 1"}},
      {"Good", "commit_buffers", {}, {kRange, kRange, flag}, {}, {}},
      {"Flag",
       "commit_buffers",
       {},
       {kRange, kRange, scalar},
       {},
       {"found_inf is fp32 [], expected int32 []"}},
      {"Good", "all_reduce", {}, {kRange}, {}, {}},
      {"DType", "all_reduce", {}, {f16({8})}, {}, {"range is fp16 [8], expected fp32 [elements]"}},
      {"Good", "all_reduce_flag", {}, {flag}, {}, {}},
      {"DType", "all_reduce_flag", {}, {scalar}, {}, {"flag is fp32 []"}},
      {"All",
       "record_step",
       {},
       {results, kCounters, scalar, i32({2}), flag, scalar, scalar},
       {},
       {}},
      {"Eval", "record_step", {}, {results, kCounters, scalar}, {}, {}},
      {"Columns",
       "record_step",
       {},
       {f32({16, 3}), kCounters, scalar},
       {},
       {"results is fp32 [16, 3]"}},
      {"FoundInf",
       "record_step",
       {},
       {results, kCounters, scalar, i32({2}), i64({})},
       {},
       {"found_inf is int64 [], expected int32 []"}},
      {"Good", "update_loss_scale", {}, {scalar, flag, kCounters}, {}, {}},
      {"Interval",
       "update_loss_scale",
       {{"growth_interval", std::int64_t{-1}}},
       {scalar, flag, kCounters},
       {},
       {"growth_interval is -1, expected at least 0"}},
      {"Good", "advance_counters", advance, {kCounters, flag}, {}, {}},
      {"Counters",
       "advance_counters",
       advance,
       {i64({3})},
       {},
       {"counters is int64 [3], expected int64 [8]"}},
      {"FoundInf",
       "advance_counters",
       advance,
       {kCounters, i64({})},
       {},
       {"found_inf is int64 [], expected int32 []"}},
  };
  for (ShapeCase& c : optimizer_cases()) cases.push_back(std::move(c));
  for (ShapeCase& c : adaptive_optimizer_cases()) cases.push_back(std::move(c));
  for (ShapeCase& c : preconditioned_cases()) cases.push_back(std::move(c));
  return cases;
}

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
// Whole training runs against PyTorch's: same initial weights and batches; the loss of every step
// and the final weights must agree. tests/correction/generate/trajectories.py made them. One
// program for each device: TR_TEST_DEVICE is its DeviceKind.
#include <cmath>

#include "correction/golden_run.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "renaissance/ops/norm.h"
#include "renaissance/ops/reduction.h"
#include "renaissance/ops/sequence.h"
#include "renaissance/ops/shape.h"
#include "support/compare.h"

namespace tr::test {
namespace {

using Activation = BluePrint (*)(std::source_location);

BluePrint mlp(int outputs = 5, Activation activation = relu) {
  const auto here = std::source_location::current();
  return seq(fc(16, true), activation(here), fc(8, true), activation(here), fc(outputs, true));
}

BluePrint two_input() {
  const Value a = input("a"), b = input("b");
  const Value h = relu()(add(fc(10, true).named("left")(a), fc(10, true).named("right")(b)));
  return model({a, b}, {fc(5, true).named("head")(concat({h, b}))});
}

BluePrint tied() {
  const Value x = input("image");
  const BluePrint inner = shared(fc(12, true).named("inner"));
  const Value h = tanh()(inner(tanh()(inner(x))));
  return model(x, fc(5, true).named("head")(h));
}

BluePrint branching() {
  const Value image = input("image");
  const Value x = relu()(fc(10, true).named("stem")(image));
  const Value body = fc(10, true).named("body1")(relu()(fc(10, true).named("body0")(x)));
  const Value y = add(body, x);
  const Value side = silu()(fc(6, true).named("side")(y));
  return model(image, fc(5, true).named("head")(concat({y, side})));
}

BluePrint transformer() {
  const Value image = input("image");
  const Value stem = fc(8, true).named("stem")(reshape({4, 3})(image));
  const Value x = position_embedding().named("positions")(prepend_tokens().named("tokens")(stem));
  const Value y = transformer_block(8, 2, {.causal = true}).named("block")(x);
  return model(image, fc(5, true).named("head")(mean({1})(layer_norm().named("norm")(y))));
}

struct Row {
  std::string name;
  BluePrint model;
  Loss loss;
  Optimizer optimizer;
  double lr;
  RunOptions options = {};
  // Adam and its like: small gradients give full steps; layer norm divides too.
  bool normalising = false;
};

Optimizer momentum(double decay = 0, bool nesterov = false) {
  return SGD().momentum(0.9).weight_decay(decay).nesterov(nesterov);
}

/// Rates that fall towards the input, decays by kind and by layer: those of _by_name() of
/// generate/trajectories.py.
RunOptions grouped() {
  std::vector<ParamGroup> groups = layer_decay(0.5, {"0.", "2.", "4."});
  groups.push_back({.kinds = ParamKinds::BIASES, .weight_decay = 0.02});
  groups.push_back({.match = "0.w", .decay_scale = 0.2});
  groups.push_back({.match = "4.weight", .weight_decay = 0});
  RunOptions options;
  options.groups = std::move(groups);
  return options;
}

/// The same with momenta, or betas, by layer: those of _by_name().
RunOptions grouped_momenta(bool adam) {
  RunOptions options = grouped();
  if (adam) {
    options.groups.push_back({.match = "0.", .beta1 = 0.8, .beta2 = 0.99});
    options.groups.push_back({.match = "4.", .beta1 = 0.95, .beta2 = 0.98});
  } else {
    options.groups.push_back({.match = "0.", .momentum = 0.5});
    options.groups.push_back({.match = "4.", .momentum = 0});
  }
  return options;
}

Optimizer lars() { return LARS().momentum(0.9).trust_coefficient(0.02).weight_decay(0.01); }

std::vector<Row> rows() {
  const Loss ce = CrossEntropyLoss();
  const Optimizer adamw = AdamW().weight_decay(0.05);
  return {
      {"sgd", mlp(), ce, SGD().weight_decay(0.01), 0.1},
      {"sgd_momentum", mlp(), ce, momentum(0.001), 0.05},
      {"sgd_nesterov", mlp(), ce, momentum(0.001, true), 0.05},
      {"adam", mlp(), ce, Adam().weight_decay(0.01), 0.01, {}, true},
      {"adamw", mlp(), ce, adamw, 0.01, {}, true},
      {"clip_norm", mlp(), ce, momentum(), 0.05, {.clip_norm = 0.5f}},
      {"clip_value", mlp(), ce, momentum(), 0.05, {.clip_value = 0.02f}},
      {"accumulate", mlp(), ce, momentum(), 0.05, {.micro_batches = 3, .epochs = 2}},
      {"ragged", mlp(), ce, momentum(), 0.05, {.epochs = 6}},
      {"accumulate_ragged", mlp(), ce, momentum(), 0.05, {.micro_batches = 3, .epochs = 10}},
      {"ema", mlp(), ce, adamw, 0.01, {.ema_decay = 0.95f}, true},
      {"smoothing", mlp(), CrossEntropyLoss().label_smoothing(0.1f), momentum(), 0.05},
      {"soft_labels", mlp(), CrossEntropyLoss().label_smoothing(0.1f), momentum(), 0.05},
      {"cosine_warmup", mlp(), ce, momentum(), 0.05, {.epochs = 10, .cosine = true, .warmup = 3}},
      {"mse", mlp(3, tanh), MSELoss(), adamw, 0.01, {}, true},
      {"bce", mlp(4, silu), BCEWithLogitsLoss(), adamw, 0.01, {}, true},
      {"two_input", two_input(), ce, momentum(), 0.05},
      {"tied", tied(), ce, adamw, 0.01, {}, true},
      {"branching", branching(), ce, adamw, 0.01, {}, true},
      {"lion", mlp(), ce, Lion().weight_decay(0.1), 0.003, {}, true},
      {"rmsprop", mlp(), ce, RMSprop().momentum(0.5).weight_decay(0.01), 0.002, {}, true},
      {"adagrad", mlp(), ce, Adagrad().weight_decay(0.01), 0.05, {}, true},
      {"lars", mlp(), ce, lars(), 0.1},
      {"lamb", mlp(), ce, LAMB().weight_decay(0.05), 0.02, {}, true},
      {"muon", mlp(), ce, Muon().adam_rate(0.5).weight_decay(0.1), 0.02, {}, true},
      {"groups_sgd", mlp(), ce, momentum(0.05), 0.05, grouped()},
      {"groups_adamw", mlp(), ce, adamw, 0.01, grouped(), true},
      {"groups_lars", mlp(), ce, lars(), 0.1, grouped()},
      {"groups_lamb", mlp(), ce, LAMB().weight_decay(0.05), 0.02, grouped(), true},
      {"groups_momentum", mlp(), ce, momentum(0.05, true), 0.05, grouped_momenta(false)},
      {"groups_betas", mlp(), ce, adamw, 0.01, grouped_momenta(true), true},
      {"transformer", transformer(), ce, momentum(), 0.05, {}, true},
  };
}

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

/// Of all elements of the weights at the end.
double rms_of_weights(const GoldenRun& run, const SafetensorsFile& file) {
  double squares = 0, count = 0;
  for (const NamedTensor& weight : run.weights) {
    const auto elements = double(weight.tensor.num_elements());
    const double rms = rms_distance(weight.tensor, file.at("final." + weight.name));
    squares += rms * rms * elements;
    count += elements;
  }
  return std::sqrt(squares / count);
}

/// Two roundings of the same run lie about as far apart as each of them from the exact one, times
/// the root of two.
double bf16_band(const SafetensorsFile& file, const std::string& what) {
  return 2 * std::stod(file.metadata.at(what + "_rms_of_bf16"));
}

/// A run in bf16 stays within twice the distance that PyTorch's own keep from full precision.
void expect_within_bf16(const GoldenRun& run, const SafetensorsFile& file) {
  EXPECT_LT(rms_distance(run.losses, file.at("losses")), bf16_band(file, "losses"));
  EXPECT_LT(rms_of_weights(run, file), bf16_band(file, "weights"));
}

class RunGolden : public DeviceTest<kRunDevice, testing::TestWithParam<Row>> {
 protected:
  const SafetensorsFile file_ = golden("run_" + GetParam().name);
};

TEST_P(RunGolden, LossesAndWeightsEqualPyTorch) {
  const Row& row = GetParam();
  RunOptions options = row.options;
  options.lr = row.lr;
  const GoldenRun run = train(file_, row.model, row.loss, row.optimizer, options);
  // A GPU's Muon multiplies in bf16 (docs/numerics.md).
  if (kRunDevice != DeviceKind::CPU && row.name == "muon") return expect_within_bf16(run, file_);
  const Tolerance close = run_tolerance(run.losses.num_elements(), row.normalising);
  EXPECT_TRUE(is_close(run.losses, file_.at("losses"), close, "losses"));
  EXPECT_FALSE(run.weights.empty());
  for (const NamedTensor& weight : run.weights) {
    EXPECT_TRUE(is_close(weight.tensor, file_.at("final." + weight.name), close, weight.name));
  }
  for (const NamedTensor& weight : run.ema) {
    EXPECT_TRUE(
        is_close(weight.tensor, file_.at("ema." + weight.name), close, "ema of " + weight.name));
  }
  EXPECT_EQ(run.ema.empty(), row.options.ema_decay == 0);
}

INSTANTIATE_TEST_SUITE_P(All, RunGolden, testing::ValuesIn(rows()),
                         [](const auto& info) { return info.param.name; });

TEST(RunGoldenFiles, EachHasARow) {
  std::size_t files = 0;
  for (const std::string& name : golden_names()) files += name.starts_with("run_");
  EXPECT_EQ(files, rows().size());
}

// Rounded activations and casts leave a run where it was, up to the rounding: a wrong cast or scale
// would not.
using RunGoldenAmp = RunTest;
TEST_F(RunGoldenAmp, MixedPrecisionStaysNearFullPrecision) {
  const SafetensorsFile file = golden("run_sgd_nesterov");
  for (const DType low : {DType::FP16, DType::BF16}) {
    RunOptions options;
    options.lr = 0.05;
    options.amp = std::string(name_of(low));
    const GoldenRun run = train(file, mlp(), CrossEntropyLoss(), momentum(0.001, true), options);
    EXPECT_TRUE(is_close(run.losses, file.at("losses"), low_run_tolerance(low), options.amp));
    EXPECT_FALSE(is_close(run.losses, file.at("losses"), run_tolerance(50, false)))
        << options.amp << " is in effect";
    EXPECT_EQ(run.result.history.at(0).skipped_steps, 0);
  }
}

// Negative control: small mistakes of a training step leave the tolerance within 50 steps.
using RunGoldenControl = RunTest;
TEST_F(RunGoldenControl, SmallMistakesAreSeen) {
  const Loss ce = CrossEntropyLoss();
  const auto close = [&](const std::string& name, const Optimizer& optimizer, double lr,
                         RunOptions options, bool normalising) {
    const SafetensorsFile file = golden("run_" + name);
    options.lr = lr;
    const GoldenRun run = train(file, mlp(), ce, optimizer, options);
    return bool(is_close(run.losses, file.at("losses"), run_tolerance(50, normalising)));
  };
  EXPECT_FALSE(close("sgd_nesterov", momentum(0.001, false), 0.05, {}, false)) << "no Nesterov";
  EXPECT_FALSE(close("sgd_momentum", momentum(0.0011, false), 0.05, {}, false)) << "decay";
  EXPECT_FALSE(close("sgd", SGD().weight_decay(0.01), 0.10001, {}, false))
      << "lr by 1e-4 of itself";
  EXPECT_FALSE(close("adamw", Adam().weight_decay(0.05), 0.01, {}, true)) << "coupled decay";
  EXPECT_FALSE(close("adam", Adam().weight_decay(0.01).eps(1e-5), 0.01, {}, true)) << "eps";
  EXPECT_FALSE(close("clip_norm", momentum(), 0.05, {.clip_norm = 0.5001f}, false)) << "limit";
  EXPECT_FALSE(close("lion", Lion().beta2(0.999).weight_decay(0.1), 0.003, {}, true)) << "beta2";
  const Optimizer paper =
      LARS().momentum(0.9).trust_coefficient(0.0201).weight_decay(0.01).rate_in_momentum();
  EXPECT_FALSE(close("lars", paper, 0.1, {}, false)) << "trust coefficient";
  RunOptions groups = grouped();
  groups.groups.back().weight_decay = 0.001;
  EXPECT_FALSE(close("groups_sgd", momentum(0.05), 0.05, groups, false)) << "a group's decay";
}

// The band that a GPU's Muon is held to.
TEST_F(RunGoldenControl, MistakesOfMuonLeaveTheBandOfBf16) {
  const SafetensorsFile file = golden("run_muon");
  const auto expect_outside = [&](const Optimizer& optimizer, double lr, const char* what) {
    RunOptions options;
    options.lr = lr;
    const GoldenRun run = train(file, mlp(), CrossEntropyLoss(), optimizer, options);
    EXPECT_GT(rms_of_weights(run, file), bf16_band(file, "weights")) << what;
  };
  const Muon right = Muon().adam_rate(0.5).weight_decay(0.1);
  expect_outside(Muon(right).nesterov(false), 0.02, "no Nesterov");
  expect_outside(Muon(right).weight_decay(0), 0.02, "no decay");
  expect_outside(right, 0.0215, "a rate");
}

}  // namespace
}  // namespace tr::test

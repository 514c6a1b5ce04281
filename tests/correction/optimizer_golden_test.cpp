// SPDX-License-Identifier: Apache-2.0
// Optimizers on given gradients against PyTorch: ten or fifty steps, weights, moments, clipping,
// EMA, loss scale.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/format.h"
#include "graph/memory_plan.h"
#include "graph/op_def.h"
#include "graph/step_tables.h"
#include "renaissance/task/simple_task.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"

namespace tr::test {
namespace {

constexpr DeviceKind kHere = DeviceKind::TR_TEST_DEVICE;
constexpr std::int64_t kCapacity = 4;
constexpr std::int64_t kGiven = 10;  // gradients in a file

// Parameters side by side in one range, as a compiled model has them.
class Ranges {
 public:
  explicit Ranges(const SafetensorsFile& file) : file_(file) {
    for (int i = 0; file.contains(fmt::format("p{}.initial", i)); ++i) {
      const Shape& shape = file.at(fmt::format("p{}.initial", i)).shape();
      const std::int64_t count = shape.num_elements();
      segments_.push_back({.begin = elements_, .count = count, .param = i, .decay_scale = 1});
      if (shape.rank() == 2) {
        segments_.back().rows = std::int32_t(shape[0]);
        matrices_.insert(matrices_.end(), {elements_, shape[0], shape[1]});
      }
      elements_ += (count + kParamAlignment - 1) / kParamAlignment * kParamAlignment;
    }
  }

  Tensor zeros() const { return Tensor::zeros({elements_}); }
  Tensor range(const std::string& part) const {
    Tensor all = zeros();
    for (const Segment& s : segments_) {
      const Tensor& one = file_.at(fmt::format("p{}.{}", s.param, part));
      std::memcpy(all.data<float>() + s.begin, one.raw(), one.num_bytes());
    }
    return all;
  }
  std::int64_t num_steps() const { return file_.at("lr").num_elements(); }
  Tensor gradients(std::int64_t step, float scale) const {
    Tensor all = zeros();
    if (file_.contains("factor")) scale *= file_.at("factor").data<float>()[step];
    for (const Segment& s : segments_) {
      const Tensor& given = file_.at(fmt::format("p{}.grads", s.param));
      const float* g = given.data<float>() + step % kGiven * s.count;
      for (std::int64_t i = 0; i < s.count; ++i) all.data<float>()[s.begin + i] = g[i] * scale;
    }
    return all;
  }
  Tensor segment_table() const {
    std::vector<std::uint8_t> bytes(segments_.size() * sizeof(Segment));
    std::memcpy(bytes.data(), segments_.data(), bytes.size());
    return Tensor::from({std::int64_t(bytes.size())}, bytes);
  }
  std::vector<Segment>& segments() { return segments_; }
  const std::vector<Segment>& segments() const { return segments_; }
  std::int64_t num_elements() const { return elements_; }
  /// Begin, rows and columns of each parameter of two axes.
  const std::vector<std::int64_t>& matrices() const { return matrices_; }

 private:
  const SafetensorsFile& file_;
  std::vector<Segment> segments_;
  std::vector<std::int64_t> matrices_;
  std::int64_t elements_ = 0;
};

struct State {
  Tensor weights, ema;
  std::vector<Tensor> moments;
  Tensor own = Tensor::zeros({1});  // OpDef::own_state
  State clone() const {
    State copy{weights.clone(), ema.clone(), {}, own.clone()};
    for (const Tensor& m : moments) copy.moments.push_back(m.clone());
    return copy;
  }
};

testing::AssertionResult same_state(const State& got, const State& want) {
  for (std::size_t m = 0; m < want.moments.size(); ++m) {
    const auto same = same_bytes(got.moments[m], want.moments[m], fmt::format("moment{}", m + 1));
    if (!same) return same;
  }
  const auto own = same_bytes(got.own, want.own, "own state");
  if (!own) return own;
  const auto weights = same_bytes(got.weights, want.weights, "weights");
  return weights ? same_bytes(got.ema, want.ema, "ema") : weights;
}

struct Settings {
  std::string op;
  Attrs attrs;
  double decay = 0;
  int num_moments = 0;
};

Settings settings_of(const std::string& name, const SafetensorsFile& file) {
  const auto json = nlohmann::json::parse(file.metadata.at("settings"));
  Settings s;
  s.op = name.substr(0, name.find('_'));
  if (s.op == "adamw") s.op = "adam";
  for (const auto& [key, value] : json.items()) {
    if (key == "weight_decay") {
      s.decay = value;
    } else if (value.is_boolean()) {
      s.attrs.set(key, value.get<bool>());
    } else if (value.is_string()) {
      s.attrs.set(key, value.get<std::string>());
    } else if (value.is_number_integer()) {
      s.attrs.set(key, value.get<std::int64_t>());
    } else {
      s.attrs.set(key, value.get<double>());
    }
  }
  while (file.contains(fmt::format("p0.moment{}.step1", s.num_moments + 1))) ++s.num_moments;
  return s;
}

struct Step {
  std::int64_t number = 0;   // 0-based
  std::int64_t updates = 0;  // done before
  float lr = 0;
  float loss_scale = 1;
  int threads = 0;
};

bool has_own_state(const std::string& op) { return bool(OpRegistry::instance().get(op).own_state); }

Attrs attrs_of(const Settings& s, const Ranges& ranges) {
  Attrs attrs = s.attrs;
  if (s.op == "muon" || has_own_state(s.op)) attrs.set("matrices", ranges.matrices());
  return attrs;
}

// One step by the ops of docs/execution.md: finite_check, the optimizer, ema_update.
void run_step(const Settings& s, const Ranges& ranges, const Tensor& gradients, const Step& step,
              State& state) {
  const TaskDevice device{kHere, step.threads};
  std::vector<std::int64_t> counters(kNumCounters, 0);
  counters[kCounterRow] = counters[kCounterStep] = step.number;
  counters[kCounterUpdates] = step.updates;
  Tensor floats = Tensor::zeros({kCapacity, step_floats_columns(1)});
  float* row = floats.data<float>() + (step.number % kCapacity) * step_floats_columns(1);
  row[kFloatInvWeight] = 1;
  row[kFloatHeader + int(kGroupLr)] = step.lr;
  row[kFloatHeader + int(kGroupDecay)] = float(s.decay);
  const std::vector<Tensor> check = run_op("finite_check", {gradients}, {}, device);
  std::vector<Tensor> inputs = {state.weights,
                                gradients,
                                ranges.segment_table(),
                                floats,
                                Tensor::from({kNumCounters}, counters),
                                Tensor::full({}, step.loss_scale),
                                check[0],
                                check[1]};
  inputs.insert(inputs.end(), state.moments.begin(), state.moments.end());
  if (has_own_state(s.op)) inputs.push_back(state.own);
  const std::vector<Tensor> changed = run_op(s.op, inputs, attrs_of(s, ranges), device);
  state.weights = changed[0];
  for (std::size_t m = 0; m < state.moments.size(); ++m) state.moments[m] = changed[m + 1];
  if (has_own_state(s.op)) state.own = changed[state.moments.size() + 1];
  state.ema =
      run_op("ema_update", {state.ema, state.weights, check[0]}, {{"decay", 0.9}}, device)[0];
}

State initial_state(const Ranges& ranges, const Settings& settings) {
  const Tensor weights = ranges.range("initial");
  State state{weights, weights.clone(), {}};
  const OpDef& def = OpRegistry::instance().get(settings.op);
  if (def.own_state) {
    state.own = Tensor::zeros({def.own_state(complete_attrs(def, attrs_of(settings, ranges)))});
  }
  for (int m = 0; m < settings.num_moments; ++m) state.moments.push_back(ranges.zeros());
  return state;
}

std::vector<std::string> optimizers() {
  std::vector<std::string> names;
  for (const std::string& file : golden_names()) {
    // A GPU's muon multiplies in bf16: cuda_kernels_test has it beside the CPU's.
    if (kHere != DeviceKind::CPU && file.starts_with("optimizer_muon")) continue;
    if (file.starts_with("optimizer_")) names.push_back(file.substr(10));
  }
  return names;
}

class OptimizerGolden : public DeviceTest<kHere, testing::TestWithParam<std::string>> {
 protected:
  SafetensorsFile file_ = golden("optimizer_" + GetParam());
  Settings settings_ = settings_of(GetParam(), file_);
  float rate_factor_ = 1;

  Tolerance tolerance_after(std::int64_t steps) const {
    const bool normalises = settings_.op != "sgd" && settings_.op != "lars";
    if (settings_.op != "soap") return run_tolerance(steps, normalises);
    Tolerance close = turned_basis_tolerance(steps);
    const double factor = kHere == DeviceKind::CPU ? 1 : kSplitOperands;
    close.rtol *= factor;
    close.atol *= factor;
    return close;
  }

  State run(float loss_scale, int threads,
            const std::function<void(std::int64_t, const State&)>& after = {}) {
    const Ranges ranges(file_);
    State state = initial_state(ranges, settings_);
    for (std::int64_t i = 0; i < ranges.num_steps(); ++i) {
      const Step step{i, i, rate_factor_ * file_.at("lr").data<float>()[i], loss_scale, threads};
      run_step(settings_, ranges, ranges.gradients(i, loss_scale), step, state);
      if (after) after(i, state);
    }
    return state;
  }
};

TEST_P(OptimizerGolden, StepsEqualPyTorch) {
  const Ranges ranges(file_);
  run(1, 0, [&](std::int64_t i, const State& state) {
    if (i != 0 && i != ranges.num_steps() - 1) return;
    const std::string suffix = std::to_string(i + 1);
    const Tolerance close = tolerance_after(i + 1);
    EXPECT_TRUE(is_close(state.weights, ranges.range("step" + suffix), close, "weights"));
    EXPECT_TRUE(is_close(state.ema, ranges.range("ema" + suffix), close, "ema"));
    for (std::size_t m = 0; m < state.moments.size(); ++m) {
      const std::string part = fmt::format("moment{}.step{}", m + 1, suffix);
      EXPECT_TRUE(is_close(state.moments[m], ranges.range(part), close, part));
    }
  });
}

TEST_P(OptimizerGolden, ARateThatIsOffByATwentiethIsSeen) {
  const Ranges ranges(file_);
  rate_factor_ = 1.05f;
  const State state = run(1, 0);
  const std::string last = "step" + std::to_string(ranges.num_steps());
  EXPECT_FALSE(
      is_close(state.weights, ranges.range(last), tolerance_after(ranges.num_steps()), "weights"));
}

// Powers of two scale exactly.
TEST_P(OptimizerGolden, AScaledLossGivesTheSameBytes) {
  EXPECT_TRUE(same_state(run(1024, 0), run(1, 0)));
}

TEST_P(OptimizerGolden, ThreadCountsGiveTheSameBytes) {
  EXPECT_TRUE(same_state(run(1, 3), run(1, 1)));
}

TEST_P(OptimizerGolden, AStepWithANonFiniteGradientChangesNothing) {
  const Ranges ranges(file_);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    State state = initial_state(ranges, settings_);
    run_step(settings_, ranges, ranges.gradients(0, 1), {0, 0, 0.1f}, state);
    State after = state.clone();
    Tensor gradients = ranges.gradients(1, 1);
    gradients.data<float>()[ranges.segments().back().begin + 3] = bad;
    run_step(settings_, ranges, gradients, {1, 1, 0.1f}, after);
    EXPECT_TRUE(same_state(after, state));
  }
}

TEST_P(OptimizerGolden, AFrozenSegmentIsNotTouched) {
  Ranges ranges(file_);
  ranges.segments()[1].frozen = 1;
  State state = initial_state(ranges, settings_);
  const State before = state.clone();
  // Two: the first step of soap moves no matrix.
  for (const std::int64_t i : {0, 1})
    run_step(settings_, ranges, ranges.gradients(i, 1), {i, i, 0.1f}, state);
  const Segment &frozen = ranges.segments()[1], &moving = ranges.segments()[2];
  const auto differ = [&](const Segment& s) {
    return std::memcmp(state.weights.data<float>() + s.begin,
                       before.weights.data<float>() + s.begin,
                       std::size_t(s.count) * sizeof(float)) != 0;
  };
  EXPECT_FALSE(differ(frozen));
  EXPECT_TRUE(differ(moving));
  for (const Tensor& moment : state.moments) {
    const float* values = moment.data<float>() + frozen.begin;
    EXPECT_TRUE(std::all_of(values, values + frozen.count, [](float v) { return v == 0; }));
  }
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerGolden, testing::ValuesIn(optimizers()),
                         [](const auto& info) { return info.param; });

using FiniteCheckGolden = DeviceTest<kHere>;
TEST_F(FiniteCheckGolden, GradNormEqualsPyTorch) {
  const SafetensorsFile file = golden("optimizer_sgd_clip_norm");
  const Ranges ranges(file);
  for (std::int64_t i = 0; i < ranges.num_steps(); ++i) {
    const std::vector<Tensor> check =
        run_op("finite_check", {ranges.gradients(i, 1)}, {}, {kHere, 0});
    EXPECT_EQ(check[0].item(), 0);
    const double norm = file.at("grad_norm").at(i);
    const Tolerance close = tolerance(DType::FP32, ranges.num_elements(), 1);
    EXPECT_NEAR(check[1].item(), norm * norm, close.atol + close.rtol * norm * norm);
  }
}

using LossScaleGolden = DeviceTest<kHere>;
TEST_F(LossScaleGolden, HalvesOnOverflowAndGrowsAfterGoodSteps) {
  const SafetensorsFile file = golden("loss_scale");
  const Tensor& found = file.at("found_inf");
  for (const std::string kind : {"fixed", "growing"}) {
    SCOPED_TRACE(kind);
    const std::int64_t interval =
        kind == "fixed" ? 0 : std::stoll(file.metadata.at("growth_interval"));
    Tensor scale = Tensor::full({}, 8192), counters = Tensor::zeros({kNumCounters}, DType::INT64);
    for (std::int64_t i = 0; i < found.num_elements(); ++i) {
      EXPECT_EQ(scale.item(), file.at(kind + ".scale").at(i)) << "before step " << i;
      const Tensor flag = Tensor::full({}, found.at(i), DType::INT32);
      const std::vector<Tensor> scaled = run_op("update_loss_scale", {scale, flag, counters},
                                                {{"growth_interval", interval}}, {kHere, 0});
      scale = scaled[0];
      if (scaled.size() > 1) counters = scaled[1];
      counters = run_op("advance_counters", {counters, flag},
                        {{"last_micro", true}, {"training", true}}, {kHere, 0})[0];
      EXPECT_EQ(counters.at(kCounterUpdates), file.at(kind + ".updates").at(i))
          << "after step " << i;
      EXPECT_EQ(counters.at(kCounterStep), i + 1);
    }
  }
}

}  // namespace
}  // namespace tr::test

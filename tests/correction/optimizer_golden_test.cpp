// SPDX-License-Identifier: Apache-2.0
// Optimizers on given gradients against torch.optim: ten steps, weights, moments, clipping, EMA,
// loss scale.
#include <cmath>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "core/format.h"
#include "graph/memory_plan.h"
#include "graph/step_tables.h"
#include "renaissance/task/simple_task.h"
#include "support/compare.h"
#include "support/golden.h"

namespace tr::test {
namespace {

constexpr std::int64_t kSteps = 10, kCapacity = 4;

// Parameters side by side in one range, as a compiled model has them.
class Ranges {
 public:
  explicit Ranges(const SafetensorsFile& file) : file_(file) {
    for (int i = 0; file.contains(fmt::format("p{}.initial", i)); ++i) {
      const std::int64_t count = file.at(fmt::format("p{}.initial", i)).num_elements();
      segments_.push_back({.begin = elements_, .count = count, .param = i, .decay_scale = 1});
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
  Tensor gradients(std::int64_t step, float scale) const {
    Tensor all = zeros();
    for (const Segment& s : segments_) {
      const float* g = file_.at(fmt::format("p{}.grads", s.param)).data<float>() + step * s.count;
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

 private:
  const SafetensorsFile& file_;
  std::vector<Segment> segments_;
  std::int64_t elements_ = 0;
};

struct State {
  Tensor weights, moment1, moment2, ema;
};

struct Settings {
  std::string op;
  Attrs attrs;
  double decay = 0;
  int num_moments = 0;
};

Settings settings_of(const std::string& name, const SafetensorsFile& file) {
  const auto json = nlohmann::json::parse(file.metadata.at("settings"));
  Settings s;
  s.op = name.starts_with("adam") ? "adam" : "sgd";
  s.decay = json.value("weight_decay", 0.0);
  s.attrs = {{"clip_norm", json.value("clip_norm", 0.0)},
             {"clip_value", json.value("clip_value", 0.0)}};
  s.attrs.set("decoupled", json.value("decoupled", name.starts_with("adamw")));
  if (s.op == "adam") {
    s.attrs.set("beta1", json.value("beta1", 0.9)).set("beta2", json.value("beta2", 0.999));
    s.attrs.set("eps", json.value("eps", 1e-8));
    s.num_moments = 2;
  } else {
    s.attrs.set("momentum", json.value("momentum", 0.0))
        .set("nesterov", json.value("nesterov", false));
    s.num_moments = json.value("momentum", 0.0) > 0 ? 1 : 0;
  }
  return s;
}

struct Step {
  std::int64_t number = 0;   // 0-based
  std::int64_t updates = 0;  // done before
  float lr = 0;
  float loss_scale = 1;
  int threads = 0;
};

// One step by the ops of docs/execution.md: finite_check, the optimizer, ema_update.
void run_step(const Settings& s, const Ranges& ranges, const Tensor& gradients, const Step& step,
              State& state) {
  const TaskDevice device{DeviceKind::CPU, step.threads};
  std::vector<std::int64_t> counters(kNumCounters, 0);
  counters[kCounterRow] = counters[kCounterStep] = step.number;
  counters[kCounterUpdates] = step.updates;
  Tensor floats = Tensor::zeros({kCapacity, step_floats_columns(1)});
  float* row = floats.data<float>() + (step.number % kCapacity) * step_floats_columns(1);
  row[kFloatInvWeight] = 1;
  row[kFloatHeader + int(kGroupLr)] = step.lr;
  row[kFloatHeader + int(kGroupDecay)] = float(s.decay);
  if (s.op == "sgd") row[kFloatHeader + int(kGroupMomentum)] = s.attrs.f32("momentum");
  const std::vector<Tensor> check = run_op("finite_check", {gradients}, {}, device);
  std::vector<Tensor> inputs = {state.weights,
                                gradients,
                                ranges.segment_table(),
                                floats,
                                Tensor::from({kNumCounters}, counters),
                                Tensor::full({}, step.loss_scale),
                                check[0],
                                check[1]};
  if (s.num_moments > 0) inputs.push_back(state.moment1);
  if (s.num_moments > 1) inputs.push_back(state.moment2);
  const std::vector<Tensor> changed = run_op(s.op, inputs, s.attrs, device);
  state.weights = changed[0];
  if (s.num_moments > 0) state.moment1 = changed[1];
  if (s.num_moments > 1) state.moment2 = changed[2];
  state.ema =
      run_op("ema_update", {state.ema, state.weights, check[0]}, {{"decay", 0.9}}, device)[0];
}

State initial_state(const Ranges& ranges) {
  const Tensor weights = ranges.range("initial");
  return {weights, ranges.zeros(), ranges.zeros(), weights.clone()};
}

std::vector<std::string> optimizers() {
  std::vector<std::string> names;
  for (const std::string& file : golden_names()) {
    if (file.starts_with("optimizer_")) names.push_back(file.substr(10));
  }
  return names;
}

class OptimizerGolden : public testing::TestWithParam<std::string> {
 protected:
  SafetensorsFile file_ = golden("optimizer_" + GetParam());
  Settings settings_ = settings_of(GetParam(), file_);

  State run(float loss_scale, int threads,
            const std::function<void(std::int64_t, const State&)>& after = {}) {
    const Ranges ranges(file_);
    State state = initial_state(ranges);
    for (std::int64_t i = 0; i < kSteps; ++i) {
      const Step step{i, i, file_.at("lr").data<float>()[i], loss_scale, threads};
      run_step(settings_, ranges, ranges.gradients(i, loss_scale), step, state);
      if (after) after(i, state);
    }
    return state;
  }
};

TEST_P(OptimizerGolden, TenStepsEqualPyTorch) {
  const Ranges ranges(file_);
  run(1, 0, [&](std::int64_t i, const State& state) {
    if (i != 0 && i != kSteps - 1) return;
    const std::string suffix = std::to_string(i + 1);
    const Tolerance close = run_tolerance(i + 1, settings_.op == "adam");
    EXPECT_TRUE(is_close(state.weights, ranges.range("step" + suffix), close, "weights"));
    EXPECT_TRUE(is_close(state.ema, ranges.range("ema" + suffix), close, "ema"));
    const Tensor* moments[] = {&state.moment1, &state.moment2};
    for (int m = 0; m < settings_.num_moments; ++m) {
      const std::string part = fmt::format("moment{}.step{}", m + 1, suffix);
      EXPECT_TRUE(is_close(*moments[m], ranges.range(part), close, part));
    }
  });
}

// Powers of two scale exactly.
TEST_P(OptimizerGolden, AScaledLossGivesTheSameBytes) {
  const State plain = run(1, 0), scaled = run(1024, 0);
  EXPECT_TRUE(same_bytes(scaled.weights, plain.weights, "weights"));
  EXPECT_TRUE(same_bytes(scaled.moment1, plain.moment1, "moment1"));
  EXPECT_TRUE(same_bytes(scaled.moment2, plain.moment2, "moment2"));
}

TEST_P(OptimizerGolden, ThreadCountsGiveTheSameBytes) {
  const State one = run(1, 1), three = run(1, 3);
  EXPECT_TRUE(same_bytes(three.weights, one.weights, "weights"));
  EXPECT_TRUE(same_bytes(three.moment1, one.moment1, "moment1"));
  EXPECT_TRUE(same_bytes(three.ema, one.ema, "ema"));
}

TEST_P(OptimizerGolden, AStepWithANonFiniteGradientChangesNothing) {
  const Ranges ranges(file_);
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    State state = initial_state(ranges);
    run_step(settings_, ranges, ranges.gradients(0, 1), {0, 0, 0.1f}, state);
    State after{state.weights.clone(), state.moment1.clone(), state.moment2.clone(),
                state.ema.clone()};
    Tensor gradients = ranges.gradients(1, 1);
    gradients.data<float>()[ranges.segments().back().begin + 3] = bad;
    run_step(settings_, ranges, gradients, {1, 1, 0.1f}, after);
    EXPECT_TRUE(same_bytes(after.weights, state.weights, "weights"));
    EXPECT_TRUE(same_bytes(after.moment1, state.moment1, "moment1"));
    EXPECT_TRUE(same_bytes(after.moment2, state.moment2, "moment2"));
    EXPECT_TRUE(same_bytes(after.ema, state.ema, "ema"));
  }
}

TEST_P(OptimizerGolden, AFrozenSegmentIsNotTouched) {
  Ranges ranges(file_);
  ranges.segments()[1].frozen = 1;
  State state = initial_state(ranges);
  const State before{state.weights.clone(), {}, {}, {}};
  run_step(settings_, ranges, ranges.gradients(0, 1), {0, 0, 0.1f}, state);
  const Segment &frozen = ranges.segments()[1], &moving = ranges.segments()[2];
  const auto differ = [&](const Segment& s) {
    return std::memcmp(state.weights.data<float>() + s.begin,
                       before.weights.data<float>() + s.begin,
                       std::size_t(s.count) * sizeof(float)) != 0;
  };
  EXPECT_FALSE(differ(frozen));
  EXPECT_TRUE(differ(moving));
}

INSTANTIATE_TEST_SUITE_P(All, OptimizerGolden, testing::ValuesIn(optimizers()),
                         [](const auto& info) { return info.param; });

TEST(FiniteCheckGolden, GradNormEqualsPyTorch) {
  const SafetensorsFile file = golden("optimizer_sgd_clip_norm");
  const Ranges ranges(file);
  for (std::int64_t i = 0; i < kSteps; ++i) {
    const std::vector<Tensor> check = run_op("finite_check", {ranges.gradients(i, 1)});
    EXPECT_EQ(check[0].item(), 0);
    const double norm = file.at("grad_norm").at(i);
    const Tolerance close = tolerance(DType::FP32, ranges.num_elements(), 1);
    EXPECT_NEAR(check[1].item(), norm * norm, close.atol + close.rtol * norm * norm);
  }
}

TEST(LossScaleGolden, HalvesOnOverflowAndGrowsAfterGoodSteps) {
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
      const std::vector<Tensor> scaled =
          run_op("update_loss_scale", {scale, flag, counters}, {{"growth_interval", interval}});
      scale = scaled[0];
      if (scaled.size() > 1) counters = scaled[1];
      counters = run_op("advance_counters", {counters, flag},
                        {{"last_micro", true}, {"training", true}})[0];
      EXPECT_EQ(counters.at(kCounterUpdates), file.at(kind + ".updates").at(i))
          << "after step " << i;
      EXPECT_EQ(counters.at(kCounterStep), i + 1);
    }
  }
}

}  // namespace
}  // namespace tr::test

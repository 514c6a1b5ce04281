// SPDX-License-Identifier: Apache-2.0
// Random DAGs of every op that has a gradient. A program's steps are the cases of the op tests;
// what a step reads is an input of its case, moved by a part of an earlier result that is smaller
// than the room which the case leaves around it. So every op stays where it is defined and smooth,
// whatever the DAG is. Gradients equal the chain of difference quotients in double, and that chain
// equals difference quotients of the program as a whole.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "core/format.h"
#include "graph/op_def.h"
#include "op/gradient_graph.h"
#include "op/op_harness.h"
#include "support/compare.h"

namespace tr::test {
namespace {

using Ints = std::vector<std::int64_t>;
constexpr int kPrograms = 90, kStepsOfAProgram = 6;
constexpr std::int64_t kMostElements = 260;  // of a case's inputs: each is moved by itself
constexpr double kStep = 1e-6;               // of difference quotients
constexpr std::size_t kMissing = std::size_t(-1);

/// Ops with a gradient rule that no program has.
const std::map<std::string, std::string> kNotDrawn = {
    {"stop_gradient", "its gradient is none, and not that of y = x"}};

OpCase view_case(const std::string& op, const Attrs& attrs, const Shape& x, const Shape& y) {
  OpCase c{.name = op, .op = op, .attrs = attrs};
  c.inputs = {Tensor::uniform(x, -1, 1, 1)};
  if (op == "reshape_like") c.inputs.push_back(Tensor::zeros(y));
  c.forward = [y](const std::vector<Array>& in) {
    Array out(y);
    out.values = in[0].values;
    return out;
  };
  c.differentiable = {0};
  return c;
}

/// Small cases of ops with a gradient, all in fp32.
std::vector<OpCase> drawable_cases() {
  std::vector<OpCase> all = all_cases(), cases;
  for (OpCase& c : drawn_cases()) all.push_back(std::move(c));
  all.push_back(view_case("identity", {}, {3, 4}, {3, 4}));
  all.push_back(view_case("flatten", {}, {2, 3, 4}, {2, 12}));
  all.push_back(view_case("reshape", {{"shape", Ints{4, -1}}}, {2, 3, 4}, {4, 6}));
  all.push_back(view_case("reshape_like", {}, {2, 6}, {3, 4}));
  for (OpCase& c : all) {
    std::int64_t elements = 0;
    for (const int i : c.differentiable) elements += c.inputs[std::size_t(i)].num_elements();
    const bool low = c.op == "cast" && c.attrs.str("dtype") != "fp32";
    if (!c.differentiable.empty() && elements <= kMostElements && !low) {
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

/// Deals cases, each op once before one comes again.
class Deck {
 public:
  Deck(std::vector<OpCase> cases, std::uint64_t seed) : cases_(std::move(cases)), random_(seed) {
    for (const OpCase& c : cases_) by_op_[c.op].push_back(&c);
  }

  const OpCase& deal() {
    if (left_.empty()) {
      for (const auto& [op, cases] : by_op_) left_.push_back(op);
    }
    const std::size_t at = random_() % left_.size();
    const std::string op = left_[at];
    left_.erase(left_.begin() + std::ptrdiff_t(at));
    ++dealt_[op];
    const std::vector<const OpCase*>& cases = by_op_.at(op);
    return *cases[random_() % cases.size()];
  }
  const std::map<std::string, int>& dealt() const { return dealt_; }

 private:
  std::vector<OpCase> cases_;
  std::map<std::string, std::vector<const OpCase*>> by_op_;
  std::vector<std::string> left_;
  std::map<std::string, int> dealt_;
  std::mt19937_64 random_;
};

struct Step {
  const OpCase* of = nullptr;  // nullptr: inputs[1] + room * tanh(inputs[0]), repeated to fit
  double room = 0;
  std::vector<std::size_t> inputs;  // values; kMissing for an optional one
  std::size_t output = 0;
};

Array run(const Step& step, const std::vector<Array>& values) {
  if (step.of == nullptr) {
    const Array& fed = values[step.inputs[0]];
    Array y = values[step.inputs[1]];
    const std::int64_t n = fed.shape.num_elements();
    for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
      y[i] += step.room * std::tanh(fed[i % n]);
    }
    return y;
  }
  std::vector<Array> in;
  for (const std::size_t v : step.inputs) {
    if (v != kMissing) in.push_back(values[v]);
  }
  return step.of->forward(in);
}

class Program {
 public:
  Program(Deck& deck, std::uint64_t seed, int steps = kStepsOfAProgram) : random_(seed) {
    for (int i = 0; i < steps; ++i) grow(deck.deal());
  }

  struct Value {
    Tensor given;         // empty: a step makes it
    bool wanted = false;  // its gradient is
    int readers = 0;
  };
  const std::vector<Value>& values() const { return values_; }
  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<Array>& exact() const { return exact_; }

  bool is_end(std::size_t v) const { return values_[v].given.empty() && values_[v].readers == 0; }
  Tensor dy(std::size_t v) const { return Tensor::uniform(exact_[v].shape, -1, 1, 1000 + v); }

  std::string text() const {
    std::string all;
    for (const Step& step : steps_) {
      if (step.of != nullptr) all += " " + step.of->name;
    }
    return all;
  }

 private:
  std::uint64_t below(std::uint64_t n) { return random_() % n; }

  std::size_t keep(Tensor given, bool wanted) {
    exact_.push_back(array_of(given));
    values_.push_back({std::move(given), wanted, 0});
    return values_.size() - 1;
  }
  std::size_t keep(Step step) {
    step.output = values_.size();
    exact_.push_back(run(step, exact_));
    values_.push_back({});
    for (const std::size_t v : step.inputs) {
      if (v != kMissing) ++values_[v].readers;
    }
    steps_.push_back(std::move(step));
    return values_.size() - 1;
  }

  void grow(const OpCase& c) {
    Step step{&c};
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const Tensor& input = c.inputs[i];
      const bool moves = std::find(c.differentiable.begin(), c.differentiable.end(), int(i)) !=
                         c.differentiable.end();
      std::size_t value = kMissing;
      if (!input.empty()) value = keep(input, moves);
      if (value != kMissing && moves && !results_.empty() && input.shape().rank() > 0 &&
          below(4) > 0) {
        value = keep(Step{nullptr, c.room, {results_[below(results_.size())], value}});
      }
      step.inputs.push_back(value);
    }
    results_.push_back(keep(std::move(step)));
  }

  std::mt19937_64 random_;
  std::vector<Value> values_;
  std::vector<Array> exact_;
  std::vector<Step> steps_;
  std::vector<std::size_t> results_;
};

/// Sum of dy times value over the ends.
double objective(const Program& program, std::vector<Array> values) {
  for (const Step& step : program.steps()) values[step.output] = run(step, values);
  double sum = 0;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (!program.is_end(v)) continue;
    const Array dy = array_of(program.dy(v));
    for (std::int64_t i = 0; i < dy.shape.num_elements(); ++i) sum += dy[i] * values[v][i];
  }
  return sum;
}

/// A gradient and what may be wrong with one that is computed in fp32.
struct Gradient {
  Array value, error;
  explicit Gradient(const Shape& shape) : value(shape), error(shape) {}
};

double largest(const Array& x) {
  double most = 0;
  for (const double value : x.values) most = std::max(most, std::abs(value));
  return most;
}

/// Adds to dx what comes back through `step` to its input `which`: the quotients of each output by
/// each input element, times dy. What dy is wrong by comes with the sizes of the same quotients.
/// The op adds its own error twice: the second stands for what the rounding of its inputs makes.
void pull(const Step& step, std::size_t which, const Gradient& dy, std::vector<Array>& values,
          Gradient& dx) {
  const std::size_t v = step.inputs[which];
  const Tolerance own = step.of != nullptr
                            ? tolerance(DType::FP32, step.of->summed, step.of->scale)
                            : tolerance(DType::FP32, values[step.output].shape.num_elements());
  // What is fed comes in by the room alone.
  const double most = largest(dy.value) * (step.of == nullptr && which == 0 ? step.room : 1);
  for (std::int64_t i = 0; i < values[v].shape.num_elements(); ++i) {
    const double start = values[v][i];
    values[v][i] = start + kStep;
    const Array up = run(step, values);
    values[v][i] = start - kStep;
    const Array down = run(step, values);
    values[v][i] = start;
    double value = 0, error = 0;
    for (std::int64_t o = 0; o < up.shape.num_elements(); ++o) {
      const double quotient = (up[o] - down[o]) / (2 * kStep);
      value += quotient * dy.value[o];
      error += std::abs(quotient) * dy.error[o];
    }
    dx.value[i] += value;
    dx.error[i] += error + 2 * (own.atol * most + own.rtol * std::abs(value));
  }
}

std::vector<Gradient> chained_gradients(const Program& program) {
  std::vector<Array> values = program.exact();
  std::vector<Gradient> gradients;
  for (std::size_t v = 0; v < values.size(); ++v) {
    gradients.emplace_back(values[v].shape);
    if (program.is_end(v)) gradients[v].value = array_of(program.dy(v));
  }
  for (std::size_t s = program.steps().size(); s-- > 0;) {
    const Step& step = program.steps()[s];
    for (std::size_t i = 0; i < step.inputs.size(); ++i) {
      const std::size_t v = step.inputs[i];
      if (v == kMissing || (!program.values()[v].given.empty() && !program.values()[v].wanted)) {
        continue;
      }
      pull(step, i, gradients[step.output], values, gradients[v]);
    }
  }
  return gradients;
}

/// values[1] + room * tanh(values[0]) as nodes: what is fed is flattened, repeated and cut.
TensorId add_feed(GradientGraph& graph, const Program& program, const Step& step,
                  const std::vector<TensorId>& ids) {
  GraphBuilder& builder = graph.builder();
  const Shape& to = program.exact()[step.inputs[1]].shape;
  const std::int64_t n = program.exact()[step.inputs[0]].shape.num_elements();
  const std::int64_t m = to.num_elements(), copies = (m + n - 1) / n;
  TensorId x = builder.add("reshape", {ids[step.inputs[0]]}, {{"shape", Ints{1, n}}});
  if (copies > 3) {  // [1, n] and [copies, 1] give as many rows
    const TensorId zeros =
        graph.place(fmt::format("zeros{}", step.output), Tensor::zeros({copies, 1}));
    x = builder.add("reshape", {builder.add("add", {x, zeros})}, {{"shape", Ints{1, -1}}});
  } else if (copies > 1) {
    x = builder.add("concat", std::vector<TensorId>(std::size_t(copies), x),
                    {{"axis", std::int64_t{1}}});
  }
  if (copies * n > m) {
    x = builder.add(
        "slice", {x},
        {{"axes", Ints{1}}, {"starts", Ints{0}}, {"ends", Ints{m}}, {"steps", Ints{1}}});
  }
  x = builder.add("reshape", {x}, {{"shape", Ints(to.dims().begin(), to.dims().end())}});
  x = builder.add("affine", {builder.add("tanh", {x})}, {{"scale", step.room}, {"shift", 0.0}});
  return builder.add("add", {ids[step.inputs[1]], x});
}

std::vector<Tensor> gradients_of(const Program& program, int threads = 1,
                                 const PlanOptions& memory = {}) {
  GradientGraph graph;
  std::vector<TensorId> ids, wanted;
  for (std::size_t v = 0; v < program.values().size(); ++v) {
    ids.push_back(graph.place(fmt::format("in{}", v), program.values()[v].given));
    if (program.values()[v].wanted) wanted.push_back(ids[v]);
  }
  for (const Step& step : program.steps()) {
    if (step.of == nullptr) {
      ids[step.output] = add_feed(graph, program, step, ids);
      continue;
    }
    std::vector<TensorId> in;
    for (const std::size_t v : step.inputs) in.push_back(v == kMissing ? kNoTensor : ids[v]);
    while (in.back() == kNoTensor) in.pop_back();
    ids[step.output] = graph.builder().add_op(step.of->op, in, step.of->attrs).front();
  }
  std::vector<std::pair<TensorId, TensorId>> seeds;
  for (std::size_t v = 0; v < ids.size(); ++v) {
    if (!program.is_end(v)) continue;
    seeds.emplace_back(ids[v], graph.place(fmt::format("dy{}", v), program.dy(v)));
  }
  return graph.run(seeds, wanted, threads, memory);
}

/// The largest part of its error that an element of a computed gradient takes; above 1, or infinite
/// where one is missing or no number, it is wrong.
double worst_of(const Program& program, const std::vector<Tensor>& got,
                const std::vector<Gradient>& want) {
  double worst = 0;
  std::size_t next = 0;
  for (std::size_t v = 0; v < program.values().size(); ++v) {
    if (!program.values()[v].wanted) continue;
    const Tensor& dx = got.at(next++);
    if (dx.empty()) return INFINITY;
    for (std::int64_t i = 0; i < dx.num_elements(); ++i) {
      const double off = std::abs(dx.at(i) - want[v].value[i]);
      if (off > 0) worst = std::max(worst, off / want[v].error[i]);
      if (!std::isfinite(off)) return INFINITY;
    }
  }
  return worst;
}

/// The chain's gradients, along random directions, are the slopes of the whole program.
testing::AssertionResult chain_is_the_whole(const Program& program,
                                            const std::vector<Gradient>& chain) {
  std::mt19937_64 random(7);
  for (int direction = 0; direction < 2; ++direction) {
    std::vector<Array> up = program.exact(), down = up;
    double slope = 0, size = 1;
    for (std::size_t v = 0; v < up.size(); ++v) {
      if (!program.values()[v].wanted) continue;
      for (std::int64_t i = 0; i < up[v].shape.num_elements(); ++i) {
        const double way = random() % 2 == 0 ? 1 : -1;
        up[v][i] += way * kStep;
        down[v][i] -= way * kStep;
        slope += way * chain[v].value[i];
        size += std::abs(chain[v].value[i]);
      }
    }
    const double whole = (objective(program, up) - objective(program, down)) / (2 * kStep);
    if (!(std::abs(whole - slope) <= 1e-6 * size)) {  // a NaN is no slope either
      return testing::AssertionFailure() << "slope " << whole << ", by the chain " << slope
                                         << ", of sizes " << size << ":" << program.text();
    }
  }
  return testing::AssertionSuccess();
}

TEST(RandomOpTest, GradientsOfEveryOpEqualFiniteDifferences) {
  Deck deck(drawable_cases(), 1);
  double worst = 0;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program(deck, seed);
    const std::vector<Gradient> want = chained_gradients(program);
    EXPECT_TRUE(chain_is_the_whole(program, want));
    const double off = worst_of(program, gradients_of(program), want);
    EXPECT_LE(off, 1) << program.text();
    worst = std::max(worst, off);
  }
  RecordProperty("worst_part_of_the_error", fmt::format("{:.3f}", worst));

  std::set<std::string> missed;
  for (const std::string& name : OpRegistry::instance().names()) {
    const bool has_gradient = bool(OpRegistry::instance().get(name).gradient);
    if (!has_gradient || name.starts_with("test_")) continue;
    if (!deck.dealt().contains(name)) missed.insert(name);
  }
  std::set<std::string> listed;
  for (const auto& [name, reason] : kNotDrawn) listed.insert(name);
  EXPECT_EQ(missed, listed) << "ops with a gradient that no program has";
  EXPECT_GE(deck.dealt().size(), 100u);
  for (const auto& [name, count] : deck.dealt()) EXPECT_GE(count, 3) << name;
}

TEST(RandomOpTest, ThreadsAndSharedMemoryChangeNoByte) {
  Deck deck(drawable_cases(), 2);
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Program program(deck, seed);
    const std::vector<Tensor> one = gradients_of(program);
    const std::vector<Tensor> three = gradients_of(program, 3);
    const std::vector<Tensor> apart = gradients_of(program, 1, {.reuse = false, .in_place = false});
    for (std::size_t i = 0; i < one.size(); ++i) {
      ASSERT_FALSE(one[i].empty());
      EXPECT_TRUE(same_bytes(three[i], one[i], "three threads")) << program.text();
      EXPECT_TRUE(same_bytes(apart[i], one[i], "separate memory")) << program.text();
    }
  }
}

// Ops of negative_control_test.cpp: twice x, the second with dx = dy.
TEST(RandomOpTest, AWrongGradientAnywhereInAProgramIsSeen) {
  for (const std::string op : {"test_sound", "test_wrong_gradient", "test_lost_gradient"}) {
    Deck deck({doubling_case(op), view_case("flatten", {}, {2, 3, 4}, {2, 12})}, 3);
    const Program program(deck, 4);
    const double off = worst_of(program, gradients_of(program), chained_gradients(program));
    EXPECT_EQ(off <= 1, op == "test_sound") << op << ": " << off;
  }
}

}  // namespace
}  // namespace tr::test

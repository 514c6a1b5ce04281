// SPDX-License-Identifier: Apache-2.0
#include "graph/recompute.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "core/fnv.h"
#include "core/format.h"
#include "graph/aliases.h"
#include "graph/live_profile.h"
#include "graph/plan_report.h"
#include "graph_fixture.h"
#include "plan_checker.h"
#include "random_graph.h"
#include "renaissance/core/error.h"
#include "zoo/models.h"

namespace tr {
namespace {

/// What each node computes, as a hash of its op, attributes, kernel and of what it reads, followed
/// through the whole graph: nodes of equal hash write equal bytes. By owner of bytes; what is
/// written in parts or in place counts with its history.
class Meaning {
 public:
  explicit Meaning(const LoweredGraph& graph) : graph_(graph) {
    for (const LoweredNode& node : graph.nodes) run(node);
  }

  /// Of every persistent tensor by name, as it is after the last node.
  std::map<std::string, std::uint64_t> of_persistent() const {
    std::map<std::string, std::uint64_t> found;
    for (const auto& [owner, hash] : value_) {
      const LoweredTensor& t = graph_.tensor(owner);
      if (is_persistent(t.role)) found[t.name] = hash;
    }
    return found;
  }

 private:
  std::uint64_t value(TensorId id) const {
    if (id == kNoTensor) return 1;
    const LoweredTensor& t = graph_.tensor(id);
    const TensorId owner = owner_of(graph_, id);
    const auto known = value_.find(owner);
    const std::string name = known == value_.end() ? graph_.tensor(owner).name : "";
    return fnv1a64(fmt::format("{} {} {} {}", known == value_.end() ? 0 : known->second, name,
                               t.view_offset, t.bytes));
  }

  void run(const LoweredNode& node) {
    const std::string head = fmt::format("{} {} {}", node.op, node.attrs.text(), node.kernel);
    std::string all = head, batch = head;
    for (const TensorId id : node.inputs) {
      const std::string word = fmt::format(" {}", value(id));
      all += word;
      // Statistics of a batch do not depend on the running ones, which the norm may have changed.
      const bool running = id != kNoTensor && (graph_.tensor(id).role == Role::BUFFER ||
                                               graph_.tensor(id).role == Role::BUFFER_NEXT);
      batch += running && node.op == "bn" ? " running" : word;
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (shows_an_input(node, node.outputs[i])) continue;
      const bool next = graph_.tensor(node.outputs[i]).role == Role::BUFFER_NEXT;
      write(node.outputs[i], next ? all : batch, i);
    }
    for (const int i : node.state_writes)
      write(node.inputs[std::size_t(i)], all, 100 + std::size_t(i));
  }

  /// A view of bytes that the node reads: nothing is moved.
  bool shows_an_input(const LoweredNode& node, TensorId out) const {
    if (graph_.tensor(out).view_of == kNoTensor) return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId in) {
      return in != kNoTensor && owner_of(graph_, in) == owner_of(graph_, out);
    });
  }

  void write(TensorId id, const std::string& text, std::size_t place) {
    const LoweredTensor& t = graph_.tensor(id);
    const TensorId owner = owner_of(graph_, id);
    const bool whole = t.view_of == kNoTensor;
    value_[owner] =
        fnv1a64(fmt::format("{} {} {} {}", text, place, t.view_offset, whole ? 0 : value(owner)));
  }

  const LoweredGraph& graph_;
  std::map<TensorId, std::uint64_t> value_;
};

int num_again(const LoweredGraph& graph) {
  int count = 0;
  for (const LoweredNode& node : graph.nodes) count += node.again;
  return count;
}

/// A random graph on one stream whose second half is the backward pass.
LoweredGraph random_training(std::uint64_t seed) {
  LoweredGraph graph = test::RandomGraph::make(seed, 1);
  for (std::size_t n = graph.nodes.size() / 2; n < graph.nodes.size(); ++n)
    graph.nodes[n].label = GraphId::BACKWARD;
  return graph;
}

TEST(Recomputation, OfAnyNodesThatMayRunAgainMeansTheSame) {
  constexpr int kGraphs = 60;
  int ran = 0;
  for (std::uint64_t seed = 0; seed < kGraphs; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const LoweredGraph graph = random_training(seed);
    std::vector<bool> again = may_run_again(graph);
    std::mt19937_64 random(seed);
    for (std::size_t n = 0; n < again.size(); ++n) again[n] = again[n] && random() % 3 != 0;
    LoweredGraph rewritten = with_recomputation(graph, again);
    ran += num_again(rewritten);
    EXPECT_EQ(Meaning(rewritten).of_persistent(), Meaning(graph).of_persistent());

    const std::vector<std::int64_t> live = LiveProfile(graph, first_backward(graph)).bytes(again);
    EXPECT_EQ(live.size(), rewritten.nodes.size()) << "the estimate is of the same steps";
    const MemoryPlan plan = plan_transients(rewritten, 0, {});
    EXPECT_EQ(test::PlanChecker(rewritten).fault(plan), "");
  }
  EXPECT_GT(ran, 5 * kGraphs);
}

/// "reads" makes t of a weight; in the backward pass "changes" rewrites the weight, if it stands
/// there, and "uses" makes a gradient of t.
LoweredGraph changing(bool weight_changes) {
  LoweredGraph graph;
  const auto tensor = [&](const char* name, Role role) {
    LoweredTensor t;
    t.name = name;
    t.role = role;
    t.type = {Shape{256}, DType::UINT8};
    t.bytes = 256;
    graph.tensors.push_back(std::move(t));
    return TensorId(graph.tensors.size() - 1);
  };
  const auto node = [&](const char* op, GraphId label, std::vector<TensorId> in,
                        std::vector<TensorId> out) -> LoweredNode& {
    LoweredNode n;
    n.op = op;
    n.label = label;
    n.inputs = std::move(in);
    n.outputs = std::move(out);
    graph.nodes.push_back(std::move(n));
    return graph.nodes.back();
  };
  const TensorId weight = tensor("weight", Role::WEIGHT), t = tensor("t", Role::FEATURE),
                 gradient = tensor("gradient", Role::GRADIENT);
  node("reads", GraphId::FORWARD, {weight}, {t});
  if (weight_changes) node("changes", GraphId::BACKWARD, {weight}, {}).state_writes = {0};
  node("uses", GraphId::BACKWARD, {t}, {gradient});
  derive_dependencies(graph);
  return graph;
}

// Negative control: what may_run_again() refuses would compute something else.
TEST(Recomputation, OfANodeWhoseInputsHaveChangedMeansSomethingElse) {
  const LoweredGraph still = changing(false), changes = changing(true);
  EXPECT_TRUE(may_run_again(still)[0]);
  EXPECT_FALSE(may_run_again(changes)[0]);
  const auto again = [](const LoweredGraph& graph) {
    std::vector<bool> first(graph.nodes.size(), false);
    first[0] = true;
    return Meaning(with_recomputation(graph, first)).of_persistent();
  };
  EXPECT_EQ(again(still), Meaning(still).of_persistent());
  EXPECT_NE(again(changes), Meaning(changes).of_persistent());
}

struct Network {
  const char* name;
  BluePrint (*make)();
  double reach;  // part of the peak that running again reaches at least
};

CompileRequest request_of(const Network& network, std::int64_t batch, bool accumulate = false) {
  const Shape image{224, 224, 3};
  const std::map<std::string, TensorType> fields{{"image", {image, DType::FP32}},
                                                 {"label", {Shape{}, DType::INT32}}};
  std::map<std::string, TensorType> given = fields;
  given["image"].dtype = DType::FP16;
  std::vector<VariantKey> variants = {test::variant(Mode::TRAIN, batch, given),
                                      test::variant(Mode::EVAL, batch, given)};
  if (accumulate) {
    variants = {test::variant(Mode::TRAIN, batch, given, {true, false}),
                test::variant(Mode::TRAIN, batch, given, {false, true})};
  }
  CompileRequest request = test::request_for(network.make(), fields, variants);
  request.optimizer = {"sgd", {{"momentum", 0.9}}, 1};
  request.graph.low_dtype = DType::FP16;
  request.graph.loss_scaling = true;
  if (accumulate) request.graph.accumulate_steps = 2;
  return request;
}

CompileResult compiled(CompileRequest request, std::int64_t recompute_bytes) {
  request.memory.recompute_bytes = recompute_bytes;
  return compile(request, PlanningOracle(DeviceKind::CUDA));
}

class RecomputedNetwork : public testing::TestWithParam<Network> {};

TEST_P(RecomputedNetwork, IsWithinItsBudgetAndMeansTheSame) {
  for (const bool accumulate : {false, true}) {
    const CompileRequest request = request_of(GetParam(), 32, accumulate);
    const CompileResult plain = compiled(request, 0);
    const std::int64_t peak = plain.memory.peak_bytes();
    EXPECT_EQ(compiled(request, peak).lowered[0].text(), plain.lowered[0].text())
        << "what fits stays as it is";
    double former = 0;
    const double room = 1 - GetParam().reach;
    for (const double part : {1 - 0.2 * room, 1 - 0.6 * room, GetParam().reach}) {
      SCOPED_TRACE(part);
      const std::int64_t budget = std::int64_t(part * double(peak));
      const CompileResult result = compiled(request, budget);
      EXPECT_LE(result.memory.peak_bytes(), budget);
      for (std::size_t v = 0; v < result.lowered.size(); ++v) {
        EXPECT_EQ(test::PlanChecker(result.lowered[v]).fault(result.memory.variants[v]), "");
        EXPECT_EQ(Meaning(result.lowered[v]).of_persistent(),
                  Meaning(plain.lowered[v]).of_persistent());
      }
      const PlanReport report = report_plan(result.lowered, result.arch, result.memory);
      const double time = report.recomputed.flops / 128 + report.recomputed.bytes;
      EXPECT_GT(time, former) << "less room costs more";
      former = time;
      EXPECT_NE(report.text().find("run again: "), std::string::npos) << report.text();
    }
  }
}

TEST_P(RecomputedNetwork, RefusalNamesTheSmallestBudget) {
  const CompileRequest request = request_of(GetParam(), 32);
  const std::string text = test::message_of<OutOfMemory>([&] { compiled(request, 1 << 20); });
  const std::string words = "was found to reach is ";
  const std::size_t at = text.find(words);
  ASSERT_NE(at, std::string::npos) << text;
  const std::size_t open = text.find('(', at);
  const std::int64_t smallest = std::stoll(text.substr(open + 1));
  EXPECT_LE(compiled(request, smallest).memory.peak_bytes(), smallest);
  EXPECT_THROW(compiled(request, std::int64_t(0.96 * double(smallest))), OutOfMemory);
  const std::int64_t peak = compiled(request, 0).memory.peak_bytes();
  EXPECT_LE(double(smallest), GetParam().reach * double(peak));
}

INSTANTIATE_TEST_SUITE_P(All, RecomputedNetwork,
                         testing::Values(Network{"vgg16bn", [] { return zoo::vgg16bn(); }, 0.80},
                                         Network{"resnet50", [] { return zoo::resnet50(); }, 0.50},
                                         Network{"mobilenet", [] { return zoo::mobilenet_v2(); },
                                                 0.50}),
                         [](const auto& info) { return std::string(info.param.name); });

// A 1x1 convolution of few channels moves less memory than the norm and the rectifier behind it.
TEST(Recomputation, TakesCheapNodesFirst) {
  const CompileRequest request = request_of({"", [] { return zoo::resnet50(); }, 0}, 32);
  const std::int64_t peak = compiled(request, 0).memory.peak_bytes();
  const CompileResult result = compiled(request, std::int64_t(0.85 * double(peak)));
  int convolutions = 0, others = 0;
  for (const LoweredNode& node : result.lowered[0].nodes) {
    const bool wide = node.op == "conv" && node.attrs.ints("kernel")[0] > 1;
    if (node.again) ++(wide ? convolutions : others);
  }
  EXPECT_EQ(convolutions, 0);
  EXPECT_GT(others, 5);
}

TEST(Recomputation, DoesNotHelpAVariantWithoutABackwardPass) {
  CompileRequest request = request_of({"", [] { return zoo::resnet50(); }, 0}, 32);
  request.variants.erase(request.variants.begin());
  const std::string text = test::message_of<OutOfMemory>([&] { compiled(request, 1 << 20); });
  EXPECT_NE(text.find("memory_budget is 1.00 MiB (1048576 bytes)"), std::string::npos) << text;
}

}  // namespace
}  // namespace tr

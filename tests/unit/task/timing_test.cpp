// SPDX-License-Identifier: Apache-2.0
// Timed steps: what is measured, how it is summed up, traces and graphs with times.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/input_file.h"
#include "support/dot_parser.h"
#include "support/temp_folder.h"
#include "task/spans.h"
#include "task/step_times.h"
#include "toy.h"

namespace tr {
namespace {

using Json = nlohmann::json;

DeepLearningTask task_with(const std::string& timed_steps, int ranks = 1, int micro = 1) {
  Session session = toy::make_session();
  session.global.cpu_ranks(ranks).accumulate_steps(micro);
  DeepLearningTask task = toy::make_task(session, toy::make_data(), 2);  // 11 steps an epoch
  task.set("timed_steps", timed_steps);
  return task;
}

std::string weights_of(DeepLearningTask& task) {
  const toy::Quiet quiet;
  task.compile(CompileInfo::NONE);
  return task.run().weights_sha256;
}

TEST(TimedSteps, ChangeNoByteOnAnyNumberOfRanks) {
  for (const auto& [ranks, micro] : {std::pair(1, 1), std::pair(2, 1), std::pair(1, 2)}) {
    SCOPED_TRACE(10 * ranks + micro);
    DeepLearningTask plain = task_with("0", ranks, micro), timed = task_with("13", ranks, micro);
    EXPECT_EQ(weights_of(timed), weights_of(plain));
    EXPECT_TRUE(plain.step_times().empty());
    std::int64_t trained = 0;
    for (const VariantTimes& times : timed.step_times())
      if (times.variant.starts_with("train")) trained += times.num_steps;
    EXPECT_EQ(trained, 13 * micro);
  }
}

TEST(TimedSteps, EndWithARunThatIsShorter) {
  DeepLearningTask task = task_with("1000");
  weights_of(task);
  std::int64_t trained = 0;
  for (const VariantTimes& times : task.step_times())
    if (times.variant.starts_with("train")) trained += times.num_steps;
  EXPECT_EQ(trained, 22);
}

TEST(TimedSteps, EveryNodeHasATimeAndAShare) {
  DeepLearningTask task = task_with("10");
  weights_of(task);
  const std::vector<VariantTimes> all = task.step_times();
  ASSERT_FALSE(all.empty());
  const VariantTimes& times = all.front();
  const Json nodes = Json::parse(task.graph(GraphFormat::JSON)).at("graphs")[0].at("nodes");
  EXPECT_EQ(times.ops.size(), nodes.size());
  EXPECT_GT(times.step_seconds, 0);
  double share = 0;
  for (const PartTime& op : times.ops) {
    EXPECT_GE(op.seconds, 0) << op.name;
    EXPECT_DOUBLE_EQ(op.share, op.seconds / times.step_seconds);
    share += op.share;
  }
  EXPECT_GT(share, 0.5);
  std::vector<std::string> stages;
  for (const PartTime& stage : times.stages) stages.push_back(stage.name);
  for (const GraphId id : {GraphId::FORWARD, GraphId::LOSS, GraphId::BACKWARD, GraphId::OPTIMIZER})
    EXPECT_EQ(std::count(stages.begin(), stages.end(), name_of(id)), 1) << name_of(id);
  for (std::size_t i = 0; i < nodes.size(); ++i)
    EXPECT_DOUBLE_EQ(nodes[i].at("us").get<double>(), times.ops[i].seconds * 1e6);
  EXPECT_EQ(to_json(all)[0].at("ops").size(), nodes.size());
}

TEST(TimedSteps, TheGraphOfATaskIsOneForGraphviz) {
  DeepLearningTask task = task_with("3");
  weights_of(task);
  const test::DotGraph dot = test::parse_dot(task.graph(GraphFormat::DOT));
  const Json graphs = Json::parse(task.graph(GraphFormat::JSON)).at("graphs");
  ASSERT_EQ(dot.clusters.size(), graphs.size());
  std::size_t nodes = 0, edges = 0;
  for (const Json& graph : graphs) {
    for (const Json& node : graph.at("nodes")) ++nodes, edges += node.at("after").size();
  }
  EXPECT_EQ(dot.nodes.size(), nodes);
  EXPECT_EQ(dot.edges.size(), edges);
  EXPECT_NE(dot.nodes.at("n0_0").find(" us"), std::string::npos);
}

TEST(StepTimes, AreMediansOverStepsOfSumsOverNodes) {
  CompileResult compiled;
  compiled.variants.resize(2);
  compiled.variants[0].name = "train";
  compiled.variants[1].name = "never";
  LoweredGraph graph;
  for (const GraphId label : {GraphId::FORWARD, GraphId::BACKWARD, GraphId::FORWARD}) {
    graph.nodes.emplace_back().label = label;
    graph.nodes.back().op = "op";
  }
  compiled.lowered = {graph};
  compiled.atlas = GraphAtlas(2);
  compiled.atlas.set_whole(0, 0);
  compiled.atlas.set_whole(1, 0);
  std::vector<StepTiming> timings;
  for (const double scale : {3.0, 1.0, 2.0}) {
    timings.push_back({.variant = 0, .begin_ns = 0, .spans = {}});
    for (int node = NodeSpan::kInputs; node < 3; ++node)
      timings.back().spans.push_back({node, 0, scale * (node + 2)});
  }
  const std::vector<VariantTimes> all = summarize(timings, compiled);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].num_steps, 3);
  EXPECT_DOUBLE_EQ(all[0].step_seconds, 20);  // 2 * (1 + 2 + 3 + 4)
  ASSERT_EQ(all[0].stages.size(), 3u);
  EXPECT_EQ(all[0].stages[0].name, name_of(GraphId::TRANSFER));
  EXPECT_DOUBLE_EQ(all[0].stages[1].seconds, 12) << "both nodes of the forward pass";
  EXPECT_DOUBLE_EQ(all[0].stages[1].share, 0.6);
  EXPECT_EQ(all[0].ops[0].name, "inputs");
  EXPECT_EQ(node_medians(timings, compiled, 0), (std::vector<double>{4, 6, 8}));
  EXPECT_TRUE(node_medians({}, compiled, 0).empty());
}

TEST(Trace, HasTheHostAndTheNodesOfTheTimedSteps) {
  const test::TempFolder folder;
  DeepLearningTask task = task_with("3");
  task.set("trace_file", folder.path("trace.json")).save_every(folder.path("run"));
  weights_of(task);
  const Json trace = Json::parse(read_text(folder.path("trace.json")));
  std::map<std::string, int> host;
  int nodes = 0;
  double last_begin = -1;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") continue;
    ASSERT_EQ(event.at("ph"), "X");
    EXPECT_GE(event.at("ts").get<double>(), 0);
    EXPECT_GE(event.at("dur").get<double>(), 0);
    if (event.at("pid") == 1) {
      ++host[event.at("name")];
    } else {
      if (event.at("args").at("variant").get<std::string>().starts_with("train")) ++nodes;
      EXPECT_GE(event.at("ts").get<double>(), last_begin) << "nodes run one after another";
      last_begin = event.at("ts").get<double>();
    }
  }
  EXPECT_EQ(nodes, 3 * int(task.step_times().front().ops.size()));
  EXPECT_EQ(host.at("epoch 1"), 1);
  EXPECT_EQ(host.at("epoch 2"), 1);
  EXPECT_EQ(host.at("validation"), 2);
  EXPECT_GE(host.at("checkpoint"), 2);
  EXPECT_EQ(host.at("launch"), 2 * (11 + 4));
  EXPECT_EQ(host.at("wait for data"), 2 * (11 + 4));
}

TEST(Trace, WithoutANumberTwentyStepsAreTimed) {
  const test::TempFolder folder;
  DeepLearningTask task = task_with("0");
  task.set("trace_file", folder.path("trace.json"));
  weights_of(task);
  std::int64_t trained = 0;
  for (const VariantTimes& times : task.step_times())
    if (times.variant.starts_with("train")) trained += times.num_steps;
  EXPECT_EQ(trained, 20);
}

TEST(Trace, KeepsABoundedNumberOfSpansAndCountsTheRest) {
  Spans spans;
  { const Spans::Scope scope(&spans, "before"); }
  EXPECT_TRUE(spans.host_spans().empty()) << "nothing is kept until it is asked for";
  spans.keep();
  for (std::size_t i = 0; i < Spans::kMost + 7; ++i) const Spans::Scope scope(&spans, "span");
  EXPECT_EQ(spans.host_spans().size(), Spans::kMost);
  EXPECT_EQ(spans.num_dropped(), 7);
  const Json trace = Json::parse(chrome_trace(spans, {}, CompileResult(), "cpu"));
  EXPECT_EQ(trace.at("otherData").at("dropped_host_spans"), 7);
}

int begun = 0, ended = 0;
std::string last_begun;

TEST(Trace, AProfilerSeesTheRangesOfARun) {
  const ProfilerRanges former = profiler_ranges();
  const ProfilerRangesRegistration counting({[](const char* name) {
                                               ++begun;
                                               last_begun = name;
                                             },
                                             [] { ++ended; }});
  DeepLearningTask task = task_with("0");
  weights_of(task);
  const ProfilerRangesRegistration back(former);
  EXPECT_GE(begun, 2 * (2 + 3 * 15)) << "epochs, validations; launches with their waits";
  EXPECT_EQ(ended, begun);
  EXPECT_FALSE(last_begun.empty());
}

TEST(Trace, AnUnwritableFileIsAnErrorBeforeTheRun) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_with("0");
  task.set("trace_file", "/no/such/folder/trace.json");
  EXPECT_THROW(task.compile(CompileInfo::NONE), DataError);
}

}  // namespace
}  // namespace tr

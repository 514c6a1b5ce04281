// SPDX-License-Identifier: Apache-2.0
// Timed steps of a GPU, and its memory against what the driver says.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/input_file.h"
#include "graph/computation_graph.h"
#include "support/device.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tr {
namespace {

using CudaTiming = test::DeviceTest<DeviceKind::CUDA>;
using CudaMemory = test::DeviceTest<DeviceKind::CUDA>;
using Json = nlohmann::json;

DeepLearningTask task_of(const char* place, const char* timed_steps) {
  Session session;
  session.global.use_gpu("0").manual_seed(7).global_batch_size(20);
  DeepLearningTask task = toy::make_task(session, toy::make_data(), 3);
  task.set("data_place", place).set("timed_steps", timed_steps);
  return task;
}

TrainingResult run(DeepLearningTask& task) {
  const toy::Quiet quiet;
  task.compile(CompileInfo::NONE);
  return task.run();
}

TEST_F(CudaTiming, TimedStepsHaveTheBytesOfCapturedOnes) {
  for (const char* place : {"device", "host"}) {
    for (const char* amp : {"off", "fp16"}) {
      SCOPED_TRACE(std::string(place) + " " + amp);
      DeepLearningTask plain = task_of(place, "0"), some = task_of(place, "14"),
                       all = task_of(place, "1000");
      for (DeepLearningTask* task : {&plain, &some, &all}) task->set("amp", amp);
      const std::string want = run(plain).weights_sha256;
      EXPECT_EQ(run(some).weights_sha256, want);
      EXPECT_EQ(run(all).weights_sha256, want);
    }
  }
}

TEST_F(CudaTiming, EveryOpOfAStepTakesTime) {
  for (const char* place : {"device", "host"}) {
    SCOPED_TRACE(place);
    DeepLearningTask task = task_of(place, "30");
    run(task);
    const std::vector<VariantTimes> all = task.step_times();
    ASSERT_FALSE(all.empty());
    const VariantTimes& times = all.front();
    EXPECT_GE(times.num_steps, 25);
    EXPECT_EQ(times.stages.front().name, name_of(GraphId::TRANSFER));
    EXPECT_EQ(times.ops.front().name, "inputs");
    double share = 0;
    for (const PartTime& op : times.ops) {
      EXPECT_GT(op.seconds, 0) << op.name;
      EXPECT_LT(op.seconds, 1e-2) << op.name;
      share += op.share;
    }
    EXPECT_NEAR(share, 1, 0.2);
    const Json nodes = Json::parse(task.graph(GraphFormat::JSON)).at("graphs")[0].at("nodes");
    EXPECT_EQ(nodes.size() + 1, times.ops.size());
    for (const Json& node : nodes) EXPECT_GT(node.at("us").get<double>(), 0);
  }
}

TEST_F(CudaTiming, TheTraceHasTheDevice) {
  const test::TempFolder folder;
  DeepLearningTask task = task_of("device", "5");
  task.set("trace_file", folder.path("trace.json"));
  run(task);
  int nodes = 0;
  bool named = false;
  const Json trace = Json::parse(read_text(folder.path("trace.json")));
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M" && event.at("name") == "process_name")
      named |= event.at("args").at("name") == "GPU 0";
    if (event.at("ph") == "X" && event.at("pid") == 2) ++nodes;
  }
  EXPECT_TRUE(named);
  EXPECT_GT(nodes, 5 * 5);
}

std::int64_t free_bytes() {
  std::size_t free = 0, all = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &all), cudaSuccess);
  return std::int64_t(free);
}

TEST_F(CudaMemory, TheDriverCountsWhatIsPrinted) {
  const toy::Quiet quiet;
  for (const int width : {64, 3000}) {
    SCOPED_TRACE(width);
    const Tensor x = Tensor::uniform({3000, 784}, -1, 1, 1);
    const auto set =
        make_tensor_dataset({{"image", x}, {"label", Tensor::zeros({3000}, DType::INT32)}}, 10);
    Session session;
    session.global.use_gpu("0").global_batch_size(1000).amp(true);
    DeepLearningTask task = toy::make_task(session, {set, set}, 1);
    task.model(seq(fc(width, true), relu(), fc(width, true), relu(), fc(10, true)))
        .set("data_place", "device");
    const std::int64_t before = free_bytes();  // the context is there
    task.compile(CompileInfo::NONE);
    const std::int64_t taken = before - free_bytes(), printed = task.memory().total_bytes;
    EXPECT_GT(task.memory().data_bytes, 3000 * 784 * 4);  // both splits are one set
    EXPECT_LE(std::abs(taken - printed), std::max(printed / 20, std::int64_t{64} << 20))
        << taken << " taken, " << printed << " printed";
    task.run();
    EXPECT_LE(std::abs(before - free_bytes() - printed),
              std::max(printed / 20, std::int64_t{64} << 20))
        << "after the run";
  }
}

TEST_F(CudaMemory, ALimitIsHeldOnADeviceToo) {
  const toy::Quiet quiet;
  DeepLearningTask fits = task_of("device", "0");
  fits.compile(CompileInfo::NONE);
  const DeviceMemory memory = fits.memory();
  DeepLearningTask small = task_of("host", "0");
  small.set("memory_limit", std::to_string(memory.arena_bytes / 2));
  EXPECT_THROW(small.compile(CompileInfo::NONE), OutOfMemory);
  // Room for the arena alone: the sets stay on the host, unless they must not.
  DeepLearningTask beside = task_of("auto", "0");
  beside.set("memory_limit", std::to_string(memory.arena_bytes + 100));
  beside.compile(CompileInfo::NONE);
  EXPECT_EQ(beside.memory().data_bytes, 0);
  DeepLearningTask must = task_of("device", "0");
  must.set("memory_limit", std::to_string(memory.arena_bytes + 100));
  EXPECT_THROW(must.compile(CompileInfo::NONE), Unsupported);
}

}  // namespace
}  // namespace tr

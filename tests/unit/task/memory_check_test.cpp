// SPDX-License-Identifier: Apache-2.0
// Too little memory is told before the run, with what would fit.
#include "task/memory_check.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/host_memory.h"
#include "graph/plan_report.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

DeepLearningTask task_of(std::int64_t local_batch, std::int64_t limit, int ranks = 1) {
  Session session = toy::make_session(int(local_batch) * ranks);
  session.global.cpu_ranks(ranks);
  DeepLearningTask task = toy::make_task(session, toy::make_data(6000), 1);
  task.set("memory_limit", std::to_string(limit));
  return task;
}

std::string refusal(DeepLearningTask task) {
  try {
    task.compile(CompileInfo::NONE);
  } catch (const OutOfMemory& error) {
    return error.what();
  }
  return "";
}

std::int64_t arena_of(std::int64_t local_batch, int ranks = 1) {
  DeepLearningTask task = task_of(local_batch, 0, ranks);
  task.compile(CompileInfo::NONE);
  EXPECT_EQ(task.memory().total_bytes, task.memory().arena_bytes);
  return task.memory().arena_bytes;
}

TEST(MemoryLimit, IsHeldToTheByte) {
  const toy::Quiet quiet;
  const std::int64_t needed = arena_of(500);
  EXPECT_EQ(refusal(task_of(500, needed)), "");
  EXPECT_NE(refusal(task_of(500, needed - 1)), "");
}

TEST(MemoryLimit, SaysWhatIsNeededWhatThereIsAndWhatWouldFit) {
  const toy::Quiet quiet;
  for (const int ranks : {1, 2}) {
    SCOPED_TRACE(ranks);
    const std::int64_t limit = arena_of(300, ranks);
    const std::string message = refusal(task_of(1500, limit, ranks));
    EXPECT_NE(message.find("(" + std::to_string(arena_of(1500, ranks)) + ") of memory"),
              std::string::npos)
        << message;
    EXPECT_NE(message.find("memory_limit allows "), std::string::npos) << message;
    EXPECT_NE(message.find("(" + std::to_string(limit) + ")"), std::string::npos) << message;
    EXPECT_NE(message.find(", kept by every step"), std::string::npos) << message;
    EXPECT_NE(message.find(", live "), std::string::npos) << message;
    EXPECT_LE(std::count(message.begin(), message.end(), '\n'), 11) << "ten and the batch";

    const std::string words = "local_batch_size ";
    const std::size_t at = message.find(words);
    ASSERT_NE(at, std::string::npos) << message;
    const std::int64_t batch = std::stoll(message.substr(at + words.size()));
    EXPECT_GE(batch, 240) << "300, but for the last, partial batch that others have";
    EXPECT_LE(arena_of(batch, ranks), limit) << "it fits";
    EXPECT_GT(arena_of(batch + 1, ranks), limit) << "and the next one does not";
  }
}

TEST(MemoryLimit, SaysWhereNoBatchFits) {
  const toy::Quiet quiet;
  const std::string message = refusal(task_of(100, 1000));
  EXPECT_NE(message.find("not even a batch of one sample would fit"), std::string::npos) << message;
}

TEST(FittingCut, TakesTheFewestPartsThatFitAllRanks) {
  const BatchPlan batches{.local = 24, .global = 144, .world_size = 2, .accumulate_steps = 3};
  const PeakOfBatches peak = [](const BatchPlan& b) {
    EXPECT_EQ(b.global, 144);
    EXPECT_EQ(b.local * b.world_size * b.accumulate_steps, 144);
    return 100 + 10 * b.local;
  };
  EXPECT_EQ(fitting_cut(batches, 2 * 340, peak), 1);
  EXPECT_EQ(fitting_cut(batches, 2 * 340 - 1, peak), 2);
  EXPECT_EQ(fitting_cut(batches, 2 * 180, peak), 3);
  EXPECT_EQ(fitting_cut(batches, 2 * 180 - 1, peak), 4);
  EXPECT_EQ(fitting_cut(batches, 2 * 110, peak), 24);
  EXPECT_EQ(fitting_cut(batches, 2 * 110 - 1, peak), 0) << "not even one sample";
  EXPECT_EQ(cut(batches, 4).local, 6);
  EXPECT_EQ(cut(batches, 4).accumulate_steps, 12);
  EXPECT_EQ(possible_cuts({.local = 12}), (std::vector<int>{1, 2, 3, 4, 6, 12}));
}

// Engines that want more room than those that the planner takes by rank: the batch that is named
// has room for them, and is never the one that was refused.
TEST(ScaledPeaks, CountTheRoomOfMeasuredEnginesInProportion) {
  const BatchPlan batches{.local = 300, .global = 300};
  const PeakOfBatches by_rank = [](const BatchPlan& b) { return 1000 + 10 * b.local; };
  const PeakOfBatches peaks = scaled_peaks(batches, 4100, by_rank);
  EXPECT_EQ(peaks(batches), 4100);
  EXPECT_EQ(peaks({.local = 150, .global = 150}), 2500 + 50);
  EXPECT_EQ(peaks({.local = 1, .global = 1}), 1010 + 1) << "a third of a byte, rounded up";
  const auto peak_of = [&](std::int64_t b) { return peaks({.local = b, .global = b}); };
  EXPECT_EQ(largest_batch(4099, peak_of, 300), 299);
  EXPECT_EQ(scaled_peaks(batches, 3900, by_rank)(batches), 4000) << "less room: as planned";
}

/// What a GPU of 300 MiB leaves.
TEST(MemoryBudget, IsTheLesserOfLimitAndWhatTheDeviceLeaves) {
  DeviceBackend backend;
  backend.free_memory = [](int) { return std::int64_t{300} << 20; };
  const DeviceBackendRegistration registered(backend);
  const ResolvedDevice gpu{.kind = DeviceKind::CUDA, .gpus = {3}, .announcement = ""};
  Config config;
  const MemoryBudget free = memory_budget(config, gpu);
  EXPECT_EQ(free.bytes, std::int64_t{300 - 64} << 20);
  EXPECT_EQ(free.reason,
            "300 MiB (314572800) are free on GPU 3, 64.0 MiB of them kept for code and graphs");
  config.train.memory_limit = 100 << 20;
  EXPECT_EQ(memory_budget(config, gpu).bytes, 100 << 20);
  EXPECT_EQ(memory_budget(config, gpu).reason, "memory_limit allows 100 MiB (104857600)");
  config.train.memory_limit = std::int64_t{1} << 40;
  EXPECT_EQ(memory_budget(config, gpu).bytes, std::int64_t{300 - 64} << 20);
  EXPECT_EQ(memory_budget(config, {}).bytes, std::int64_t{1} << 40) << "the CPU";
  config.train.memory_limit = 0;
  EXPECT_EQ(memory_budget(config, {}).bytes, host_memory_bytes());
}

TEST(MemoryReport, StandsInTheLog) {
  const toy::Quiet quiet;
  std::string log;
  set_log_sink([&](LogLevel, std::string_view text) { log += std::string(text) + "\n"; });
  DeepLearningTask task = task_of(20, 0);
  task.compile(CompileInfo::NONE);
  EXPECT_NE(log.find("device memory: arena "), std::string::npos) << log;
  EXPECT_NE(log.find(", data 0 B, total "), std::string::npos) << log;
}

}  // namespace
}  // namespace tr

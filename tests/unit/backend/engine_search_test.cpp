// SPDX-License-Identifier: Apache-2.0
// The measured choice of engines, with a bench and a clock of the test's own: no device is needed.
#include "backend/engine_search.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "backend/executor.h"
#include "graph/op_def.h"
#include "renaissance/core/error.h"
#include "renaissance/core/log.h"

namespace tr::test {
namespace {

void no_work(const KernelArgs&) {}

const OpRegistration kOp{{.name = "search_test_op",
                          .inputs = {"x"},
                          .outputs = {"y"},
                          .infer = [](const Attrs&, std::span<const TensorType> in) {
                            return std::vector<TensorType>{in[0]};
                          }}};

/// In rank: "first", "library" with two algorithms, "last".
KernelDef kernel(const std::string& name) {
  KernelDef def;
  def.op = "search_test_op";
  def.name = name;
  def.launch = no_work;
  def.workspace_bytes = [](const KernelQuery& query) { return std::int64_t(query.config.size()); };
  return def;
}
KernelDef library() {
  KernelDef def = kernel("library");
  def.configs = [](const KernelQuery&) { return std::vector<std::string>{"a", "bb"}; };
  def.refuse_config = [](const KernelQuery& query) {
    return query.config == "a" || query.config == "bb" ? "" : "no such algorithm";
  };
  return def;
}
const KernelRegistration kFirst{kernel("first"), 3}, kLibrary{library(), 2}, kLast{kernel("last")};

const std::vector<TensorType> kTypes = {{Shape{4, 5}, DType::FP32}};
const std::vector<TensorType> kOther = {{Shape{6, 5}, DType::FP32}};

/// Engines with given times; those without one do not run. Each sample takes a second of the clock.
class FakeBench final : public EngineBench {
 public:
  struct State {
    std::map<std::string, double> us;
    std::vector<std::string> sampled;  // in order
    double clock = 0;
    bool no_room = false;
  };
  explicit FakeBench(State& state) : state_(state) {}

  void begin(const KernelQuery&) override {
    if (state_.no_room) throw OutOfMemory("the bench is full");
  }
  std::unique_ptr<TimedEngine> prepare(const Engine& engine, const KernelQuery&) override {
    if (!state_.us.contains(engine.text())) throw Unsupported("it does not run here");
    return std::make_unique<Timed>(state_, engine.text());
  }

 private:
  class Timed final : public TimedEngine {
   public:
    Timed(State& state, std::string name) : state_(state), name_(std::move(name)) {}
    double sample_us() override {
      state_.clock += 1;
      state_.sampled.push_back(name_);
      return state_.us.at(name_);
    }

   private:
    State& state_;
    std::string name_;
  };
  State& state_;
};

class EngineSearchTest : public testing::Test {
 protected:
  void SetUp() override {
    former_ = set_log_sink([this](LogLevel level, std::string_view text) {
      if (level != LogLevel::DEBUG) logged_ += std::string(text) + "\n";
    });
  }
  void TearDown() override { set_log_sink(former_); }

  EngineSearch make_search(double seconds = 1000) {
    return {std::make_unique<FakeBench>(bench_),
            {.seconds = seconds, .now = [this] { return bench_.clock; }}};
  }
  KernelChoice choose(EngineSearch* search, const std::vector<TensorType>& types = kTypes) {
    return make_kernel_oracle(DeviceKind::CPU, table_, {}, search)
        ->choose("search_test_op", {}, types, types);
  }
  std::string key() const { return table_.entries().begin()->first; }

  FakeBench::State bench_{.us = {{"first", 10}, {"library a", 8}, {"library bb", 4}, {"last", 9}},
                          .sampled = {},
                          .clock = 0,
                          .no_room = false};
  TuningTable table_;
  std::string logged_;
  LogSink former_;
};

TEST_F(EngineSearchTest, TheFastestIsTakenWithItsWorkspace) {
  EngineSearch search = make_search();
  const KernelChoice choice = choose(&search);
  EXPECT_EQ(choice.kernel, "library bb");
  EXPECT_EQ(choice.workspace_bytes, 2) << "that of the config, not of the kernel";
  EXPECT_EQ(table_.find(key()), "library bb");
  EXPECT_EQ(table_.us_of(key()), 4);
  EXPECT_EQ(search.num_searched(), 1);
}

TEST_F(EngineSearchTest, WithoutASearchTheRankDecides) {
  EXPECT_EQ(choose(nullptr).kernel, "first");
  EXPECT_TRUE(bench_.sampled.empty());
  EXPECT_EQ(table_.us_of(key()), 0);
}

TEST_F(EngineSearchTest, NearTiesGoToTheEarlierInRank) {
  bench_.us = {{"first", 4.1}, {"library a", 4.05}, {"library bb", 4}, {"last", 3.99}};
  EngineSearch search = make_search();
  EXPECT_EQ(choose(&search).kernel, "first") << "2.8 % behind is a tie";
  table_ = {};
  bench_.us["first"] = 4.2;
  EngineSearch again = make_search();
  EXPECT_EQ(choose(&again).kernel, "library a");
}

TEST_F(EngineSearchTest, WhatIsFarBehindIsMeasuredOnce) {
  bench_.us = {{"first", 4}, {"library a", 39}, {"library bb", 4.3}, {"last", 5}};
  EngineSearch search = make_search();
  choose(&search);
  const auto count = [&](const char* name) {
    return std::count(bench_.sampled.begin(), bench_.sampled.end(), name);
  };
  EXPECT_EQ(count("library a"), 1);
  EXPECT_EQ(count("last"), 3);
  EXPECT_EQ(count("first"), 6) << "again beside the one that is close";
  EXPECT_EQ(count("library bb"), 6);
}

TEST_F(EngineSearchTest, AKernelTenTimesBehindIsGivenUp) {
  bench_.us = {{"first", 4}, {"library a", 41}, {"library bb", 1}, {"last", 5}};
  EngineSearch search = make_search();
  EXPECT_EQ(choose(&search).kernel, "first");
  EXPECT_EQ(std::count(bench_.sampled.begin(), bench_.sampled.end(), "library bb"), 0);
}

TEST_F(EngineSearchTest, EnginesThatDoNotRunAreLeftOut) {
  bench_.us = {{"library a", 8}, {"last", 9}};
  EngineSearch search = make_search();
  EXPECT_EQ(choose(&search).kernel, "library a");
  bench_.us.clear();
  EXPECT_EQ(choose(&search, kOther).kernel, "first") << "none runs: by rank";
}

TEST_F(EngineSearchTest, TablesAndCacheAreNotMeasuredAgain) {
  EngineSearch search = make_search();
  choose(&search);
  bench_.sampled.clear();
  choose(&search);
  EXPECT_TRUE(bench_.sampled.empty()) << "the run's table knew it";
  table_ = {};
  EXPECT_EQ(choose(&search).kernel, "library bb");
  EXPECT_TRUE(bench_.sampled.empty()) << "the cache knew it";
  EXPECT_EQ(table_.us_of(key()), 4) << "the time comes with it";
  EXPECT_EQ(search.num_searched(), 1);
}

TEST_F(EngineSearchTest, TheRunsTableWinsOverTheCache) {
  EngineSearch search = make_search();
  choose(&search);
  table_.set(key(), "last");  // as a checkpoint brings it
  EXPECT_EQ(choose(&search).kernel, "last");
}

TEST_F(EngineSearchTest, EntriesAreValidatedWhenTheyAreUsed) {
  EngineSearch search = make_search();
  choose(&search);
  for (const char* stale : {"gone", "library c", "first a"}) {
    SCOPED_TRACE(stale);
    logged_.clear();
    table_ = {};
    search.cache().set(search.cache().entries().begin()->first, stale, 1);
    EXPECT_EQ(choose(&search).kernel, "library bb");
    EXPECT_NE(logged_.find("choosing anew"), std::string::npos) << logged_;
    EXPECT_EQ(search.cache().find(key()), "library bb") << "the stale entry is replaced";
  }
}

TEST_F(EngineSearchTest, TheBudgetIsForAllNodesTogether) {
  EngineSearch search = make_search(12);  // seconds; the first node takes 10 samples, one a second
  choose(&search);
  EXPECT_EQ(bench_.sampled.size(), 10u);
  EXPECT_EQ(search.spent_seconds(), 10);
  // Two seconds are left: the first engine alone has its turn.
  EXPECT_EQ(choose(&search, kOther).kernel, "first");
  EXPECT_EQ(search.num_out_of_time(), 1);
  EXPECT_EQ(search.cache().entries().size(), 1u) << "an unfinished search is not kept";
  const std::size_t sampled = bench_.sampled.size();
  const std::vector<TensorType> third = {{Shape{7, 5}, DType::FP32}};
  EXPECT_EQ(choose(&search, third).kernel, "first");
  EXPECT_EQ(bench_.sampled.size(), sampled) << "nothing is measured after the end";
  EXPECT_EQ(search.num_out_of_time(), 2);
}

TEST_F(EngineSearchTest, ZeroSecondsMeasureNothing) {
  EngineSearch search = make_search(0);
  EXPECT_EQ(choose(&search).kernel, "first");
  EXPECT_TRUE(bench_.sampled.empty());
}

TEST_F(EngineSearchTest, WithoutRoomTheRankDecidesAndTheLogSaysSo) {
  bench_.no_room = true;
  EngineSearch search = make_search();
  EXPECT_EQ(choose(&search).kernel, "first");
  EXPECT_NE(logged_.find("the bench is full"), std::string::npos) << logged_;
}

TEST_F(EngineSearchTest, NodesOfIndicesAreNotMeasured) {
  EngineSearch search = make_search();
  const std::vector<TensorType> places = {{Shape{4}, DType::INT32}};
  EXPECT_EQ(choose(&search, places).kernel, "first");
  EXPECT_TRUE(bench_.sampled.empty());
}

TEST(EngineTextTest, PartsAreSplitAtTheFirstSpace) {
  EXPECT_EQ(EngineText("cuda.fc.cublaslt fused 66#0a").kernel, "cuda.fc.cublaslt");
  EXPECT_EQ(EngineText("cuda.fc.cublaslt fused 66#0a").config, "fused 66#0a");
  EXPECT_EQ(EngineText("cpu.fc.packed").kernel, "cpu.fc.packed");
  EXPECT_EQ(EngineText("cpu.fc.packed").config, "");
}

}  // namespace
}  // namespace tr::test

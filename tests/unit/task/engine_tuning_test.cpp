// SPDX-License-Identifier: Apache-2.0
// Measured choices on disk: what a second process finds, and what it makes of files that are not
// what they should be. The device is a stand-in; its engines take the time that their names say.
#include "task/engine_tuning.h"

#include <gtest/gtest.h>

#include <unistd.h>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "backend/executor.h"
#include "renaissance/core/error.h"
#include "renaissance/core/log.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

const OpRegistration kOp{{.name = "tuning_test_op",
                          .inputs = {"x"},
                          .outputs = {"y"},
                          .infer = [](const Attrs&, std::span<const TensorType> in) {
                            return std::vector<TensorType>{in[0]};
                          }}};

KernelDef kernel(const std::string& name) {
  KernelDef def;
  def.op = "tuning_test_op";
  def.device = DeviceKind::CUDA;
  def.name = name;
  def.launch = [](const KernelArgs&) {};
  return def;
}
const KernelRegistration kSlow{kernel("takes_9"), 2}, kFast{kernel("takes_3"), 1};

int num_prepared = 0;

class FakeBench final : public EngineBench {
 public:
  void begin(const KernelQuery&) override {}
  std::unique_ptr<TimedEngine> prepare(const Engine& engine, const KernelQuery&) override {
    ++num_prepared;
    class Timed final : public TimedEngine {
     public:
      explicit Timed(double us) : us_(us) {}
      double sample_us() override { return us_; }

     private:
      double us_;
    };
    return std::make_unique<Timed>(double(engine.kernel->name.back() - '0'));
  }
};

DeviceBackend backend(const std::string& environment) {
  DeviceBackend all;
  all.kind = DeviceKind::CUDA;
  all.make_bench = [](int) { return std::make_unique<FakeBench>(); };
  all.tuning_environment = [environment](int) { return environment; };
  return all;
}

class EngineTuningTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TR_CACHE_DIR", folder_.path("cache").c_str(), 1);
    former_ = set_log_sink(
        [this](LogLevel, std::string_view text) { logged_ += std::string(text) + "\n"; });
  }
  void TearDown() override {
    set_log_sink(former_);
    unsetenv("TR_CACHE_DIR");
  }

  struct Outcome {
    std::string kernel;
    int prepared = 0;
    std::string path;
  };
  /// One process's compile: a node of `rows` rows.
  Outcome compile(const std::string& environment = "GPU A", const std::string& cache = "auto",
                  std::int64_t rows = 4, double seconds = 10) {
    const DeviceBackendRegistration device(backend(environment));
    const std::vector<TensorType> types = {{Shape{rows, 5}, DType::FP32}};
    EngineTuning tuning({.search_seconds = seconds, .cache = cache}, DeviceKind::CUDA, 0);
    TuningTable table;
    num_prepared = 0;
    logged_.clear();
    const std::string kernel = make_kernel_oracle(DeviceKind::CUDA, table, {}, tuning.search())
                                   ->choose("tuning_test_op", {}, types, types)
                                   .kernel;
    tuning.finish();
    return {kernel, num_prepared, tuning.cache_path()};
  }
  std::string text_of(const std::string& path) {
    std::stringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }

  TempFolder folder_;
  std::string logged_;
  LogSink former_;
};

TEST_F(EngineTuningTest, ASecondCompileMeasuresNothing) {
  const Outcome first = compile();
  EXPECT_EQ(first.kernel, "takes_3");
  EXPECT_EQ(first.prepared, 2);
  EXPECT_TRUE(first.path.starts_with(folder_.path("cache/tuning-"))) << first.path;
  EXPECT_TRUE(std::filesystem::exists(first.path));
  const std::string text = text_of(first.path);
  const Outcome second = compile();
  EXPECT_EQ(second.kernel, "takes_3");
  EXPECT_EQ(second.prepared, 0);
  EXPECT_EQ(text_of(first.path), text);
}

TEST_F(EngineTuningTest, AnotherEnvironmentHasAFileOfItsOwn) {
  const Outcome a = compile("GPU A"), b = compile("GPU B");
  EXPECT_NE(a.path, b.path);
  EXPECT_EQ(b.prepared, 2);
  EXPECT_EQ(compile("GPU A").prepared, 0);
  EXPECT_EQ(compile("GPU B").prepared, 0);
}

TEST_F(EngineTuningTest, AFileOfAnotherEnvironmentIsReplaced) {
  const std::string path = folder_.path("mine.json");
  EXPECT_EQ(compile("GPU A", path).path, path);
  EXPECT_EQ(compile("GPU B", path).prepared, 2);
  EXPECT_EQ(compile("GPU B", path).prepared, 0);
}

TEST_F(EngineTuningTest, FilesThatAreNotWhatTheyShouldBeMeanANewSearch) {
  const std::string path = compile().path;
  const std::string whole = text_of(path);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  const std::string damaged[] = {"",
                                 "not a table",
                                 whole.substr(0, whole.size() / 2),
                                 changed("takes_3", "takes_9"),
                                 changed("renaissance-tuning", "something-else"),
                                 changed("\"version\": 2", "\"version\": 3"),
                                 changed("\"measured_us\"", "\"measured\""),
                                 std::string(64, '\0')};
  for (const std::string& text : damaged) {
    SCOPED_TRACE(text.substr(0, 200));
    std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
    logged_.clear();
    const Outcome outcome = compile();
    EXPECT_EQ(outcome.kernel, "takes_3");
    EXPECT_EQ(outcome.prepared, 2);
    EXPECT_EQ(text_of(path), whole) << "the new search is kept";
  }
}

TEST_F(EngineTuningTest, TheLogSaysWhyAFileIsNotUsed) {
  const std::string path = compile().path;
  std::ofstream(path, std::ios::trunc) << "not a table";
  const DeviceBackendRegistration device(backend("GPU A"));
  logged_.clear();
  const EngineTuning tuning({.search_seconds = 10}, DeviceKind::CUDA, 0);
  EXPECT_NE(logged_.find(path), std::string::npos) << logged_;
  EXPECT_NE(logged_.find("choosing anew"), std::string::npos) << logged_;
}

TEST_F(EngineTuningTest, APlaceThatCannotBeWrittenIsLoggedAndNoError) {
  folder_.write("file", "x");
  const std::string path = folder_.path("file/tuning.json");  // below a file: no folder can be
  const Outcome outcome = compile("GPU A", path);
  EXPECT_EQ(outcome.kernel, "takes_3");
  EXPECT_NE(logged_.find("not saved"), std::string::npos) << logged_;
}

TEST_F(EngineTuningTest, TwoProcessesAtOnceLoseNothing) {
  const DeviceBackendRegistration device(backend("GPU A"));
  const auto choose = [&](EngineTuning& tuning, std::int64_t rows) {
    TuningTable table;
    const std::vector<TensorType> types = {{Shape{rows, 5}, DType::FP32}};
    make_kernel_oracle(DeviceKind::CUDA, table, {}, tuning.search())
        ->choose("tuning_test_op", {}, types, types);
  };
  const TuningOptions searching{.search_seconds = 10};
  EngineTuning one(searching, DeviceKind::CUDA, 0), other(searching, DeviceKind::CUDA, 0);
  choose(one, 4);
  choose(other, 6);
  one.finish();
  other.finish();  // which has not seen what the first has written
  EXPECT_EQ(compile("GPU A", "auto", 4).prepared, 0);
  EXPECT_EQ(compile("GPU A", "auto", 6).prepared, 0);
}

TEST_F(EngineTuningTest, OffKeepsNothing) {
  const Outcome outcome = compile("GPU A", "off");
  EXPECT_EQ(outcome.kernel, "takes_3");
  EXPECT_EQ(outcome.path, "");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("cache")));
}

TEST_F(EngineTuningTest, ZeroSecondsChooseByRankAndKeepNothing) {
  EXPECT_EQ(compile("GPU A", "auto", 4, 0).kernel, "takes_9");
  EXPECT_FALSE(std::filesystem::exists(folder_.path("cache")));
}

TEST_F(EngineTuningTest, TheCpuMeasuresNothing) {
  EngineTuning tuning({}, DeviceKind::CPU, 0);
  EXPECT_EQ(tuning.search(), nullptr);
  EXPECT_EQ(tuning.cache_path(), "");
  tuning.finish();
  EXPECT_FALSE(std::filesystem::exists(folder_.path("cache")));
}

}  // namespace
}  // namespace tr::test

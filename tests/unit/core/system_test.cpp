// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/cpu_info.h"
#include "core/env.h"
#include "core/host_memory.h"
#include "core/input_file.h"
#include "core/project_root.h"
#include "support/throws.h"

namespace tr {
namespace {

namespace fs = std::filesystem;
using test::throws;

/// Sets or removes a variable for the length of a test.
class EnvGuard {
 public:
  EnvGuard(std::string name, const char* value) : name_(std::move(name)) {
    if (const char* former = std::getenv(name_.c_str())) former_ = former;
    value == nullptr ? ::unsetenv(name_.c_str()) : ::setenv(name_.c_str(), value, 1);
  }
  ~EnvGuard() {
    former_ ? ::setenv(name_.c_str(), former_->c_str(), 1) : ::unsetenv(name_.c_str());
  }

 private:
  std::string name_;
  std::optional<std::string> former_;
};

TEST(EnvTest, ReadsDeclaredVariablesOnly) {
  const EnvGuard guard("TR_OVERRIDE", "device=cpu");
  EXPECT_EQ(read_env("TR_OVERRIDE"), "device=cpu");
  {
    const EnvGuard empty("TR_OVERRIDE", "");
    EXPECT_EQ(read_env("TR_OVERRIDE"), std::nullopt);
  }
  {
    const EnvGuard unset("TR_OVERRIDE", nullptr);
    EXPECT_EQ(read_env("TR_OVERRIDE"), std::nullopt);
  }
  EXPECT_TRUE(throws<InternalError>([] { read_env("TR_NOT_DECLARED"); }, "kVariables"));
}

TEST(EnvTest, NumbersAreCheckedWhole) {
  const auto value_of = [](const char* text) {
    const EnvGuard guard("TR_NUM_THREADS", text);
    return read_env_int("TR_NUM_THREADS", 1, 1024);
  };
  EXPECT_EQ(value_of("12"), 12);
  EXPECT_EQ(value_of(nullptr), std::nullopt);
  for (const char* bad : {"0", "-1", "1025", "4x", " 4", "4.0", "99999999999999999999"}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { value_of(bad); }, "TR_NUM_THREADS is \"")) << bad;
  }
}

TEST(EnvTest, ATypoIsReported) {
  const EnvGuard guard("TR_OVERIDE", "x");
  bool found = false;
  for (const std::string& message : unknown_env_messages()) {
    found |= message.find("\"TR_OVERIDE\"; did you mean \"TR_OVERRIDE\"?") != std::string::npos;
  }
  EXPECT_TRUE(found);
}

TEST(EnvTest, CacheFolderFollowsTheVariables) {
  const EnvGuard a("TR_CACHE_DIR", "/a"), b("XDG_CACHE_HOME", "/b"), c("HOME", "/c");
  EXPECT_EQ(cache_folder(), "/a");
  const EnvGuard no_a("TR_CACHE_DIR", nullptr);
  EXPECT_EQ(cache_folder(), "/b/renaissance");
  const EnvGuard no_b("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(cache_folder(), "/c/.cache/renaissance");
  const EnvGuard no_c("HOME", nullptr);
  EXPECT_EQ(cache_folder(), "");
}

TEST(EnvTest, TheDocumentationIsTheTable) {
  EXPECT_EQ(read_text(std::string(TR_SOURCE_FOLDER) + "/docs/env.md"), env_markdown())
      << "docs/env.md must hold what env_markdown() returns";
  std::set<std::string_view> names;
  for (const EnvVariable& v : env_variables()) EXPECT_TRUE(names.insert(v.name).second) << v.name;
}

TEST(EnvTest, NothingElseInTheLibraryReadsTheEnvironment) {
  int num_files = 0;
  for (const char* folder : {"/src", "/include", "/tools"}) {
    const std::string root = TR_SOURCE_FOLDER + std::string(folder);
    if (!fs::exists(root)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      const std::string name = entry.path().string();
      if (!name.ends_with(".cpp") && !name.ends_with(".h")) continue;
      ++num_files;
      const std::string text = read_text(name);
      if (name.ends_with("/core/env.cpp") || name.ends_with("/core/env.h")) continue;
      EXPECT_EQ(text.find("getenv("), std::string::npos) << name;
      EXPECT_EQ(text.find("environ;"), std::string::npos) << name;
    }
  }
  EXPECT_GT(num_files, 30);
}

TEST(CpuInfoTest, KnowsThisProcessor) {
  EXPECT_FALSE(cpu_info().model_name.empty());
  EXPECT_GE(cpu_info().num_processors, 1);
  EXPECT_TRUE(cpu_info().has("avx2"));
  EXPECT_FALSE(cpu_info().has("no_such_flag"));
  EXPECT_NO_THROW(require_supported_cpu());
}

TEST(CpuInfoTest, AnOldProcessorIsRefusedByName) {
  const CpuInfo old{"Old Chip 2010", 4, {"avx", "f16c"}};
  EXPECT_TRUE(throws<Unsupported>([&] { require_supported_cpu(old); },
                                  "processor \"Old Chip 2010\" lacks avx2, fma;"));
}

TEST(CpuInfoTest, ThreadsFollowTheVariableElseTheProcessors) {
  const EnvGuard set("TR_NUM_THREADS", "3");
  EXPECT_EQ(default_num_threads(), 3);
  const EnvGuard unset("TR_NUM_THREADS", nullptr);
  EXPECT_EQ(default_num_threads(), cpu_info().num_processors);
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  EXPECT_LE(default_num_threads(), CPU_COUNT(&allowed));
}

class ProjectRootTest : public testing::Test {
 protected:
  ProjectRootTest() {
    std::string pattern = testing::TempDir() + "project_root_test_XXXXXX";
    root_ = ::mkdtemp(pattern.data());
    make_folder(root_ + "/build/release/bin");
  }
  ~ProjectRootTest() override { fs::remove_all(root_); }

  std::string found() const { return project_root_above(root_ + "/build/release/bin/program"); }

  std::string root_;
};

TEST_F(ProjectRootTest, FindsTheSourceTree) {
  EXPECT_EQ(found(), "");
  write_file_atomically(root_ + "/README.md", "x");
  EXPECT_EQ(found(), "");  // one of the two is no proof
  make_folder(root_ + "/include");
  write_file_atomically(root_ + "/include/renaissance.h", "x");
  EXPECT_EQ(found(), root_);
}

TEST_F(ProjectRootTest, FindsTheNearestMarker) {
  write_file_atomically(root_ + "/.renaissance-root", "");
  EXPECT_EQ(found(), root_);
  write_file_atomically(root_ + "/build/.renaissance-root", "");
  EXPECT_EQ(found(), root_ + "/build");
}

TEST_F(ProjectRootTest, TheVariableWins) {
  const EnvGuard guard("TR_PROJECT_ROOT", (root_ + "//").c_str());
  EXPECT_EQ(std::string(TR_PROJECT_ROOT) + "/data/mnist", root_ + "/data/mnist");
  const EnvGuard wrong("TR_PROJECT_ROOT", "/no/such/folder");
  EXPECT_TRUE(
      throws<DataError>([] { project_root(); }, "\"/no/such/folder\", which is not a folder"));
}

TEST_F(ProjectRootTest, ElseAFolderThatExists) {
  const EnvGuard unset("TR_PROJECT_ROOT", nullptr);
  EXPECT_TRUE(fs::is_directory(TR_PROJECT_ROOT));
}

TEST(HostMemory, LessIsFreeThanThereIs) {
  EXPECT_GT(free_host_memory_bytes(), std::int64_t(1) << 20);
  EXPECT_LE(free_host_memory_bytes(), host_memory_bytes());
}

}  // namespace
}  // namespace tr

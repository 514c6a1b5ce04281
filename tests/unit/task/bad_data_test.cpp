// SPDX-License-Identifier: Apache-2.0
// Whole trainings over data that go bad on the way: files that vanish, a disk that fails or does
// not answer, a signal in the middle of an epoch.
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <thread>

#include "core/clock.h"
#include "data/file_reader.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

using test::LogCapture;
using test::throws;

/// Samples that lie one by one in files of eight floats, read with a time-out.
class Files final : public Dataset {
 public:
  Files(std::string folder, std::int64_t n, data::FileReaderOptions options = {})
      : folder_(std::move(folder)), n_(n), reader_(std::move(options)) {
    const auto set = toy::make_set(n, 1);
    for (std::int64_t id = 0; id < n; ++id) {
      char bytes[36];
      std::byte* out[] = {reinterpret_cast<std::byte*>(bytes),
                          reinterpret_cast<std::byte*>(bytes + 32)};
      set->read(id, out);
      std::ofstream(path(id), std::ios::binary).write(bytes, sizeof bytes);
    }
  }
  std::int64_t num_samples() const override { return n_; }
  int num_classes() const override { return 4; }
  std::vector<Field> fields() const override {
    return {{"image", {{8}, DType::FP32}}, {"label", {Shape{}, DType::INT32}}};
  }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    ++reads;
    std::vector<std::byte> bytes;
    reader_.read(path(id), bytes, {});
    std::memcpy(out[0], bytes.data(), 32);
    std::memcpy(out[1], bytes.data() + 32, 4);
  }
  std::string name() const override { return "files"; }
  std::string sample_name(std::int64_t id) const override { return path(id); }
  std::string path(std::int64_t id) const { return folder_ + "/" + std::to_string(id); }
  mutable std::atomic<std::int64_t> reads{0};

 private:
  std::string folder_;
  std::int64_t n_;
  mutable data::FileReader reader_;
};

std::int64_t num_threads() {
  std::int64_t n = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++n;
  return n;
}

/// Threads that have ended leave the system's list a moment later.
bool threads_are_back_to(std::int64_t n) {
  for (int i = 0; i < 500 && num_threads() > n; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return num_threads() <= n;
}

DeepLearningTask task_over(const std::shared_ptr<const Dataset>& set, BadSamplePolicy policy,
                           std::int64_t limit = 100, int workers = 3) {
  Session session = toy::make_session(20, workers);
  session.preprocessor.bad_sample_policy(policy).bad_sample_limit(limit);
  return toy::make_task(session, {set, nullptr}, 2);
}

TEST(BadData, AFileThatVanishesIsSkippedReplacedOrFails) {
  for (const auto policy :
       {BadSamplePolicy::FAIL, BadSamplePolicy::SKIP, BadSamplePolicy::REPLACE}) {
    const LogCapture log;
    const test::TempFolder folder;
    const auto set = std::make_shared<Files>(folder.path(), 90);
    const std::int64_t before = num_threads();
    {
      DeepLearningTask task = task_over(set, policy);
      task.compile(CompileInfo::NONE);
      std::filesystem::remove(set->path(17));
      std::filesystem::remove(set->path(18));
      if (policy == BadSamplePolicy::FAIL) {
        EXPECT_TRUE(throws<DataError>([&] { task.run(); }, ": cannot be opened: No such file"));
      } else {
        const TrainingResult result = task.run();
        ASSERT_EQ(result.history.size(), 2u);
        EXPECT_EQ(result.history[0].bad_samples, 2);
        EXPECT_EQ(result.history[1].bad_samples, 2);
        EXPECT_EQ(log.count("WARNING bad sample"), 2) << log.text();
        EXPECT_EQ(log.count(set->path(17) + ": cannot be opened"), 1);
      }
    }
    EXPECT_TRUE(threads_are_back_to(before + 8));  // those of the set's reader
  }
}

/// Reads with the rights of a user to whom files may be closed. Rights to files are a thread's own,
/// and each read has a thread of the reader's.
void read_as_nobody(const std::string& path, std::vector<std::byte>& bytes) {
  ::setfsuid(65534);  // changes nothing for who is not root
  data::read_whole_file(path, bytes);
}

TEST(BadData, AFileWithoutReadingRightsIsSkippedReplacedOrFails) {
  namespace fs = std::filesystem;
  for (const auto policy :
       {BadSamplePolicy::FAIL, BadSamplePolicy::SKIP, BadSamplePolicy::REPLACE}) {
    const LogCapture log;
    const test::TempFolder folder;
    fs::permissions(folder.path(), fs::perms(0755));
    const std::int64_t before = num_threads();
    {
      const auto set = std::make_shared<Files>(folder.path(), 90,
                                               data::FileReaderOptions{.read = read_as_nobody});
      fs::permissions(set->path(17), fs::perms::none);
      DeepLearningTask task = task_over(set, policy);
      task.compile(CompileInfo::NONE);
      if (policy == BadSamplePolicy::FAIL) {
        EXPECT_TRUE(throws<DataError>([&] { task.run(); },
                                      set->path(17) + ": cannot be opened: Permission denied"));
      } else {
        EXPECT_EQ(task.run().history.back().bad_samples, 1);
        EXPECT_EQ(log.count(set->path(17) + ": cannot be opened: Permission denied"), 1)
            << log.text();
      }
    }
    EXPECT_TRUE(threads_are_back_to(before));
  }
}

TEST(BadData, BytesDoNotDependOnWorkersWhateverThePolicy) {
  for (const auto policy : {BadSamplePolicy::SKIP, BadSamplePolicy::REPLACE}) {
    std::vector<std::string> hashes;
    for (const int workers : {1, 4}) {
      const LogCapture log;
      const test::TempFolder folder;
      const auto set = std::make_shared<Files>(folder.path(), 70);
      for (const int id : {3, 30, 31, 69}) std::filesystem::remove(set->path(id));
      DeepLearningTask task = task_over(set, policy, 100, workers);
      task.compile(CompileInfo::NONE);
      hashes.push_back(task.run().weights_sha256);
    }
    EXPECT_EQ(hashes[0], hashes[1]);
  }
}

TEST(BadData, ADiskThatFailsPassesTheLimit) {
  const LogCapture log;
  const test::TempFolder folder;
  std::atomic<bool> broken{false};
  const auto set = std::make_shared<Files>(
      folder.path(), 90,
      data::FileReaderOptions{.read = [&](const std::string& path, std::vector<std::byte>& bytes) {
        if (broken) throw DataError(path + ": cannot be read: Input/output error");
        data::read_whole_file(path, bytes);
      }});
  const std::int64_t before = num_threads();
  {
    DeepLearningTask task = task_over(set, BadSamplePolicy::REPLACE, 5);
    task.compile(CompileInfo::NONE);
    broken = true;
    EXPECT_TRUE(throws<DataError>([&] { task.run(); }, "bad_sample_limit is 5"));
  }
  EXPECT_TRUE(threads_are_back_to(before + 8));  // those of the set's reader
}

TEST(BadData, ADiskThatDoesNotAnswerIsGivenUpAtTheTimeOut) {
  const LogCapture log;
  const test::TempFolder folder;
  const auto answers = std::make_shared<std::latch>(1);  // outlives the thread that waits
  const std::int64_t before = num_threads();
  {
    const auto set = std::make_shared<Files>(
        folder.path(), 90,
        data::FileReaderOptions{
            .timeout_s = 1,
            .read = [answers](const std::string& path, std::vector<std::byte>& bytes) {
              if (path.ends_with("/44")) answers->wait();
              data::read_whole_file(path, bytes);
            }});
    DeepLearningTask task = task_over(set, BadSamplePolicy::SKIP);
    task.compile(CompileInfo::NONE);
    const Stopwatch watch;
    const TrainingResult result = task.run();
    EXPECT_LT(watch.seconds(), 20);
    EXPECT_EQ(result.history.back().bad_samples, 1);
    EXPECT_EQ(log.count("/44: no answer from the file system within 1 s"), 1) << log.text();
  }
  answers->count_down();
  EXPECT_TRUE(threads_are_back_to(before));
}

TEST(BadData, ASignalInTheMiddleOfAnEpochEndsIt) {
  const LogCapture log;
  const test::TempFolder folder;
  std::atomic<bool> sent{false};
  const std::int64_t before = num_threads();
  {
    const auto set =
        std::make_shared<Files>(folder.path(), 400,
                                data::FileReaderOptions{.read = [&](const std::string& path,
                                                                    std::vector<std::byte>& bytes) {
                                  std::this_thread::sleep_for(std::chrono::milliseconds(1));
                                  if (path.ends_with("/150") && !sent.exchange(true))
                                    ::kill(::getpid(), SIGINT);
                                  data::read_whole_file(path, bytes);
                                }});
    DeepLearningTask task = task_over(set, BadSamplePolicy::SKIP);
    task.save_every(folder.path("run")).compile(CompileInfo::NONE);
    const TrainingResult result = task.run();
    EXPECT_TRUE(result.cancelled);
    EXPECT_LT(result.history.size(), 2u);
    EXPECT_LT(set->reads, 2 * 400);
  }
  EXPECT_TRUE(threads_are_back_to(before));
}

}  // namespace
}  // namespace tr

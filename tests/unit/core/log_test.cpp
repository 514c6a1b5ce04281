// SPDX-License-Identifier: Apache-2.0
#include "core/log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tr {
namespace {

/// Installs a sink for the length of a test.
class SinkGuard {
 public:
  explicit SinkGuard(LogSink sink) : former_(set_log_sink(std::move(sink))) {}
  ~SinkGuard() { set_log_sink(former_); }

 private:
  LogSink former_;
};

TEST(LogTest, MessagesReachTheSinkWithTheirLevel) {
  std::vector<std::pair<LogLevel, std::string>> seen;
  const SinkGuard guard(
      [&](LogLevel level, std::string_view text) { seen.emplace_back(level, text); });
  log_info("epoch {} of {}", 3, 10);
  log_warning("slow {}", "disk");
  log(LogLevel::DEBUG, "x");
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0], (std::pair<LogLevel, std::string>(LogLevel::INFO, "epoch 3 of 10")));
  EXPECT_EQ(seen[1], (std::pair<LogLevel, std::string>(LogLevel::WARNING, "slow disk")));
  EXPECT_EQ(seen[2].first, LogLevel::DEBUG);
}

TEST(LogTest, ReplacingReturnsTheFormerSink) {
  int first = 0, second = 0;
  const SinkGuard guard([&](LogLevel, std::string_view) { ++first; });
  const LogSink former = set_log_sink([&](LogLevel, std::string_view) { ++second; });
  log_info("a");
  set_log_sink(former);
  log_info("b");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
}

TEST(LogTest, TheDefaultSinkWritesInfoAndWarningsToStandardError) {
  const SinkGuard guard({});
  testing::internal::CaptureStderr();
  log_info("hello");
  log_warning("careful");
  log(LogLevel::DEBUG, "hidden");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "hello\nwarning: careful\n");
}

TEST(LogTest, CallsOfThreadsDoNotOverlap) {
  std::atomic<int> inside{0};
  int overlaps = 0, total = 0;  // guarded by the promise under test
  const SinkGuard guard([&](LogLevel, std::string_view) {
    if (inside.fetch_add(1) != 0) ++overlaps;
    ++total;
    std::this_thread::yield();
    inside.fetch_sub(1);
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) log_info("{}", i);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(total, 800);
}

TEST(LogTest, ASinkMayLogAndReplaceItself) {
  int replaced = 0;
  const SinkGuard guard([&](LogLevel, std::string_view text) {
    set_log_sink([&](LogLevel, std::string_view) { ++replaced; });
    log_info("again {}", text);
  });
  log_info("first");
  EXPECT_EQ(replaced, 1);
}

}  // namespace
}  // namespace tr

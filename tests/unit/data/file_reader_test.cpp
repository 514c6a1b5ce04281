// SPDX-License-Identifier: Apache-2.0
#include "data/file_reader.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <latch>
#include <thread>

#include "core/clock.h"
#include "core/input_file.h"
#include "data/cached_read.h"
#include "renaissance/core/error.h"
#include "support/allocation_counter.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::TempFolder;
using test::throws;

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Threads of this process.
std::int64_t num_threads() {
  std::int64_t n = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++n;
  return n;
}

/// Waits up to 5 s; what the system does with threads that have ended takes a moment.
template <typename Condition>
bool soon(Condition condition) {
  for (int i = 0; i < 500 && !condition(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return condition();
}

/// A file system whose files named "stall" give no answer until it is told to.
class OddDisk {
 public:
  ReadFile reader() {
    return [this](const std::string& path, std::vector<std::byte>& bytes) {
      if (path.ends_with("stall")) released_.wait();
      if (path.ends_with("eio"))
        throw UnreadableFile(path + ": cannot be read: Input/output error");
      bytes.assign(3, std::byte{'x'});
    };
  }
  void release() { released_.count_down(); }

 private:
  std::latch released_{1};
};

TEST(FileReaderTest, ReadsWithAndWithoutTimeOut) {
  const TempFolder folder;
  folder.write("a", "some bytes");
  folder.write("empty", "");
  struct Way {
    double timeout;
    ReadFile read;
  };
  for (const Way& way : {Way{0, {}}, Way{10, {}}, Way{10, read_whole_file}}) {
    FileReader reader({.timeout_s = way.timeout, .read = way.read});
    std::vector<std::byte> bytes;
    for (int i = 0; i < 3; ++i) {
      reader.read(folder.path("a"), bytes, {});
      EXPECT_EQ(text_of(bytes), "some bytes");
      reader.read(folder.path("empty"), bytes, {});
      EXPECT_TRUE(bytes.empty());
    }
    EXPECT_TRUE(throws<UnreadableFile>([&] { reader.read(folder.path("none"), bytes, {}); },
                                       "none: cannot be opened: No such file"));
    EXPECT_TRUE(
        throws<UnreadableFile>([&] { reader.read(folder.path(), bytes, {}); }, "it is a folder"));
    ASSERT_EQ(mkfifo(folder.path("pipe").c_str(), 0600), 0);
    EXPECT_TRUE(throws<UnreadableFile>([&] { reader.read(folder.path("pipe"), bytes, {}); },
                                       "not a regular file"));
    std::filesystem::remove(folder.path("pipe"));
  }
}

TEST(FileReaderTest, WhatIsCachedIsReadByTheThreadThatAsks) {
  const TempFolder folder;
  const std::string text(300'000, 'q');
  folder.write("a", text);
  std::vector<std::byte> bytes;
  const CachedFiles cached;
  const bool is_told = cached.read(folder.path("a"), bytes);  // not by every file system
  if (is_told) {
    EXPECT_EQ(text_of(bytes), text);
  }
  const std::int64_t before = num_threads();
  FileReader reader({.timeout_s = 10});
  reader.read(folder.path("a"), bytes, {});
  EXPECT_EQ(text_of(bytes), text);
  EXPECT_EQ(num_threads(), before + (is_told ? 0 : 1));
  // Others are left to read_whole_file(), and all of file systems that may not answer.
  EXPECT_FALSE(cached.read("/proc/self/status", bytes));
  folder.write("empty", "");
  for (const char* name : {"empty", "none", ""}) {
    EXPECT_FALSE(cached.read(folder.path(name), bytes)) << name;
  }
}

TEST(FileReaderTest, AFileThatVanishesOrLosesItsRightsIsNamed) {
  const TempFolder folder;
  folder.write("a", "bytes");
  FileReader reader({});
  std::vector<std::byte> bytes;
  reader.read(folder.path("a"), bytes, {});
  std::filesystem::remove(folder.path("a"));
  EXPECT_TRUE(throws<UnreadableFile>([&] { reader.read(folder.path("a"), bytes, {}); },
                                     folder.path("a") + ": cannot be opened: No such file"));
}

TEST(FileReaderTest, ADisksErrorIsTold) {
  OddDisk disk;
  FileReader reader({.read = disk.reader()});
  std::vector<std::byte> bytes;
  EXPECT_TRUE(throws<UnreadableFile>([&] { reader.read("/x/eio", bytes, {}); },
                                     "/x/eio: cannot be read: Input/output error"));
  // The system's own: memory at address 0 of this process is a file whose reading fails.
  EXPECT_TRUE(throws<UnreadableFile>(
      [] {
        std::byte word[8];
        InputFile("/proc/self/mem").read(0, word);
      },
      "Input/output error"));
  reader.read("/x/good", bytes, {});
  EXPECT_EQ(text_of(bytes), "xxx");
}

TEST(FileReaderTest, AStallEndsAtTheTimeOutAndLeavesNoThreadOnceTheDiskAnswers) {
  const std::int64_t before = num_threads();
  OddDisk disk;
  {
    FileReader reader({.timeout_s = 0.4, .read = disk.reader()});
    std::vector<std::byte> bytes;
    const Stopwatch watch;
    EXPECT_TRUE(throws<DataError>([&] { reader.read("/x/stall", bytes, {}); },
                                  "/x/stall: no answer from the file system within 0.4 s"));
    EXPECT_GE(watch.ms(), 399);
    EXPECT_EQ(reader.num_stuck(), 1);
    reader.read("/x/good", bytes, {});  // others are read as before
    EXPECT_EQ(text_of(bytes), "xxx");
    EXPECT_EQ(num_threads(), before + 2);  // the stuck one and its successor
  }                                        // does not wait for the stuck one
  EXPECT_EQ(num_threads(), before + 1);
  disk.release();
  EXPECT_TRUE(soon([&] { return num_threads() == before; }));
}

TEST(FileReaderTest, ADeadDiskIsNotAskedForEver) {
  OddDisk disk;
  FileReader reader({.timeout_s = 0.15, .read = disk.reader()});
  std::vector<std::byte> bytes;
  for (int i = 0; i < FileReader::kMaxStuck; ++i) {
    EXPECT_TRUE(throws<DataError>([&] { reader.read("/x/stall", bytes, {}); }, "no answer"));
  }
  EXPECT_TRUE(throws<DataError>([&] { reader.read("/x/good", bytes, {}); },
                                "/x/good: is not read, 16 reads before it are without an answer"));
  disk.release();
  EXPECT_TRUE(soon([&] { return reader.num_stuck() == 0; }));
  reader.read("/x/good", bytes, {});
  EXPECT_EQ(text_of(bytes), "xxx");
}

TEST(FileReaderTest, AStopEndsTheWaitAtOnce) {
  OddDisk disk;
  FileReader reader({.timeout_s = 60, .read = disk.reader()});
  std::stop_source stop;
  std::jthread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.request_stop();
  });
  std::vector<std::byte> bytes;
  const Stopwatch watch;
  EXPECT_TRUE(throws<DataError>([&] { reader.read("/x/stall", bytes, stop.get_token()); },
                                "the reading was broken off"));
  EXPECT_LT(watch.ms(), 10000);
  disk.release();
  EXPECT_TRUE(soon([&] { return reader.num_stuck() == 0; }));
}

TEST(FileReaderTest, ManyThreadsReadAtOnceWithoutAllocating) {
  const TempFolder folder;
  for (int i = 0; i < 8; ++i) folder.write(std::to_string(i), std::string(1000, char('0' + i)));
  FileReader reader({.timeout_s = 10, .read = read_whole_file});
  std::atomic<int> wrong{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::vector<std::byte> bytes;
      for (int i = 0; i < 50; ++i) {
        const int k = (t + i) % 8;
        reader.read(folder.path(std::to_string(k)), bytes, {});
        if (text_of(bytes) != std::string(1000, char('0' + k))) ++wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

TEST(FileReaderTest, RefusesATimeOutBelowNothing) {
  EXPECT_TRUE(throws<InvalidArgument>([] { FileReader reader({.timeout_s = -1}); },
                                      "read_timeout is -1 s"));
}

}  // namespace
}  // namespace tr::data

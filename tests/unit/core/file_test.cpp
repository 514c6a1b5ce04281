// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/folder_lock.h"
#include "core/input_file.h"
#include "support/throws.h"

namespace tr {
namespace {

namespace fs = std::filesystem;
using test::throws;

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string pattern = testing::TempDir() + "file_test_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~FileTest() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  static std::size_t num_files(const std::string& folder) {
    return std::size_t(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  std::string folder_;
};

TEST_F(FileTest, AppearsWholeOnCommit) {
  const std::string target = path("weights");
  write_file_atomically(target, "old");
  {
    AtomicFile file(target);
    file.write("new ");
    file.write(std::string_view("bytes\0!", 7));
    EXPECT_EQ(read_text(target), "old");
    EXPECT_EQ(fs::path(file.temporary_path()).parent_path(), folder_);
    file.commit();
  }
  EXPECT_EQ(read_text(target), std::string("new bytes\0!", 11));
  EXPECT_EQ(num_files(folder_), 1u);
}

TEST_F(FileTest, SymbolicLinksStay) {
  fs::create_directory(path("folder"));
  fs::create_symlink("folder/target", path("link"));  // relative, and nothing is there yet
  fs::create_symlink(path("link"), path("second"));
  for (const char* text : {"first", "again"}) {
    write_file_atomically(path("second"), text);
    EXPECT_TRUE(fs::is_symlink(path("link")) && fs::is_symlink(path("second")));
    EXPECT_EQ(read_text(path("folder/target")), text);
    EXPECT_EQ(num_files(path("folder")), 1u);
  }
}

TEST_F(FileTest, ALockKeepsAFolderForOneWriter) {
  {
    const FolderLock first(folder_);
    EXPECT_TRUE(throws<DataError>([&] { FolderLock second(folder_); }, folder_.c_str()));
  }
  const FolderLock after(folder_);
  EXPECT_TRUE(throws<DataError>([&] { FolderLock none(path("missing")); }, "missing"));
}

TEST_F(FileTest, LeavesNothingWithoutCommit) {
  {
    AtomicFile file(path("x"));
    file.write("half");
    EXPECT_EQ(num_files(folder_), 1u);
  }
  EXPECT_EQ(num_files(folder_), 0u);
}

TEST_F(FileTest, TwoWritersOfOneNameDoNotMix) {
  AtomicFile a(path("x")), b(path("x"));
  a.write("from a");
  b.write("from b");
  a.commit();
  b.commit();
  EXPECT_EQ(read_text(path("x")), "from b");
  EXPECT_EQ(num_files(folder_), 1u);
}

// A run that was killed, in a container where every run has the same process id.
TEST_F(FileTest, WhatAKilledWriterLeftIsNotInTheWay) {
  const std::string used = AtomicFile(path("x")).temporary_path();
  const std::size_t dash = used.rfind('-'), end = used.rfind(".tmp");
  const int number = std::stoi(used.substr(dash + 1, end - dash - 1));
  for (int next = 1; next <= 3; ++next) {
    const std::string left = used.substr(0, dash + 1) + std::to_string(number + next) + ".tmp";
    std::ofstream(left) << "half";
  }
  write_file_atomically(path("x"), "whole");
  EXPECT_EQ(read_text(path("x")), "whole");
  EXPECT_EQ(num_files(folder_), 4u) << "a stranger's files stay";
}

TEST_F(FileTest, ARelativeNameLandsInTheWorkingFolder) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_);
  write_file_atomically("plain", "x");
  fs::current_path(before);
  EXPECT_EQ(read_text(path("plain")), "x");
}

TEST_F(FileTest, RefusesImpossibleTargets) {
  EXPECT_TRUE(
      throws<DataError>([&] { AtomicFile(path("no/such/file")); }, "No such file or directory"));
  write_file_atomically(path("plain"), "x");
  EXPECT_TRUE(throws<DataError>([&] { AtomicFile(path("plain/file")); }, "Not a directory"));
  EXPECT_TRUE(throws<DataError>([&] { AtomicFile{folder_}; }, "not a regular file"));
  // Renaming over a device would replace it for the whole system.
  EXPECT_TRUE(throws<DataError>([] { AtomicFile("/dev/null"); }, "/dev/null: cannot be written"));
}

TEST_F(FileTest, AFailedRenameCleansUp) {
  AtomicFile file(path("x"));
  file.write("bytes");
  make_folder(path("x/y"));  // meanwhile somebody makes a folder of this name
  EXPECT_TRUE(throws<DataError>([&] { file.commit(); }, "renaming"));
  EXPECT_EQ(num_files(folder_), 1u);
  EXPECT_TRUE(throws<InternalError>([&] { file.write("more"); }, "descriptor_"));
}

/// Runs in a child process: writes until it fails; the message goes to standard error, then the
/// number of files left behind.
[[noreturn]] void write_until_full(const std::string& folder) {
  try {
    AtomicFile file(folder + "/big");
    const std::string block(1 << 16, 'x');
    for (int i = 0; i < 64; ++i) file.write(block);
    file.commit();
    std::fprintf(stderr, "nothing failed\n");
  } catch (const DataError& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  const auto left = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  std::fprintf(stderr, "left behind: %d\n", int(left));
  std::_Exit(0);
}

TEST_F(FileTest, AFullDiskIsNamedAndLeavesNothing) {
  constexpr int kNotPossible = 77;
  const auto in_small_disk = [&] {
    const unsigned long options = ::geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS;
    if (::unshare(int(options)) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder_.c_str(), "tmpfs", 0, "size=1m") != 0) {
      std::_Exit(kNotPossible);
    }
    write_until_full(folder_);
  };
  const pid_t probe = ::fork();
  if (probe == 0) {
    std::freopen("/dev/null", "w", stderr);
    in_small_disk();
  }
  int status = 0;
  ASSERT_EQ(::waitpid(probe, &status, 0), probe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotPossible) {
    GTEST_SKIP() << "a small file system cannot be mounted without more rights";
  }
  EXPECT_EXIT(in_small_disk(), testing::ExitedWithCode(0),
              "big: cannot be written: No space left on device.*\n*left behind: 0");
}

// The same path of errors where nothing can be mounted: the system's limit on the size of files.
TEST_F(FileTest, ALimitOnSizeIsNamedAndLeavesNothing) {
  const auto within_limit = [&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 20, 1 << 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    write_until_full(folder_);
  };
  EXPECT_EXIT(within_limit(), testing::ExitedWithCode(0),
              "big: cannot be written: File too large.*\n*left behind: 0");
}

TEST_F(FileTest, AnUnwritableFolderIsNamed) {
  ::chmod(folder_.c_str(), 0555);
  const auto as_nobody = [&] {
    // Rights do not bind the super-user.
    if (::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) std::_Exit(1);
    try {
      AtomicFile file(path("x"));
    } catch (const DataError& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(as_nobody(), testing::ExitedWithCode(0), "x: cannot be written: Permission denied");
  ::chmod(folder_.c_str(), 0755);
}

TEST_F(FileTest, MakesFoldersAndRefusesFilesInTheWay) {
  make_folder(path("a/b/c"));
  make_folder(path("a/b/c"));
  EXPECT_TRUE(fs::is_directory(path("a/b/c")));
  write_file_atomically(path("plain"), "x");
  EXPECT_TRUE(throws<DataError>([&] { make_folder(path("plain")); }, path("plain")));
  EXPECT_TRUE(throws<DataError>([&] { make_folder(path("plain/below")); }, "Not a directory"));
}

TEST_F(FileTest, ReadsAtAnyPlace) {
  write_file_atomically(path("x"), "0123456789");
  const InputFile file(path("x"));
  EXPECT_EQ(file.num_bytes(), 10u);
  std::array<std::byte, 3> three{};
  file.read(4, three);
  EXPECT_EQ(char(three[0]), '4');
  EXPECT_EQ(char(three[2]), '6');
  EXPECT_TRUE(
      throws<DataError>([&] { file.read(8, three); }, "ends after 10 bytes, expected 1 more"));
}

TEST_F(FileTest, RefusesUnreadableInput) {
  EXPECT_TRUE(throws<DataError>([&] { InputFile(path("none")); }, "No such file or directory"));
  EXPECT_TRUE(throws<DataError>([&] { InputFile{folder_}; }, "it is a folder"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(throws<DataError>([&] { InputFile(path("pipe")); }, "not a regular file"));
  write_file_atomically(path("x"), "0123456789");
  EXPECT_TRUE(throws<DataError>([&] { read_bytes(path("x"), 9); }, "has 10 bytes, at most 9"));
  EXPECT_EQ(read_bytes(path("x"), 10).size(), 10u);
}

}  // namespace
}  // namespace tr

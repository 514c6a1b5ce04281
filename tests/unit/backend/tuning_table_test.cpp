// SPDX-License-Identifier: Apache-2.0
#include "backend/tuning_table.h"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/atomic_file.h"
#include "core/sha256.h"
#include "renaissance/core/error.h"
#include "renaissance/core/log.h"

namespace tr {
namespace {

class TuningTableTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("tr_tuning_" + std::to_string(getpid()) + "_" +
               testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(folder_);
    path_ = (folder_ / "tuning.json").string();
    former_ = set_log_sink(
        [this](LogLevel, std::string_view text) { logged_ += std::string(text) + "\n"; });
    table_.set("fc fp32 [2, 3]", "cpu.fc.packed");
    table_.set("fc_dx fp32 [2, 3]", "cpu.fc_dx.onednn");
  }
  void TearDown() override {
    set_log_sink(former_);
    std::filesystem::remove_all(folder_);
  }
  std::string text() const {
    std::stringstream all;
    all << std::ifstream(path_).rdbuf();
    return all.str();
  }
  /// Loads and expects an empty table with a reason that holds `words`.
  void expect_refused(const std::string& environment, const std::string& words) {
    EXPECT_TRUE(TuningTable::load_cache(path_, environment).empty());
    EXPECT_NE(logged_.find(words), std::string::npos) << logged_;
  }

  std::filesystem::path folder_;
  std::string path_;
  std::string logged_;
  LogSink former_;
  TuningTable table_;
};

TEST_F(TuningTableTest, FindsWhatWasSet) {
  EXPECT_EQ(table_.find("fc fp32 [2, 3]"), "cpu.fc.packed");
  EXPECT_EQ(table_.find("fc"), "");
  EXPECT_THROW(table_.set("", "x"), InvalidArgument);
  EXPECT_THROW(table_.set("x", ""), InvalidArgument);
}

TEST_F(TuningTableTest, HashIsOfTheEntriesAlone) {
  TuningTable other;
  other.set("fc_dx fp32 [2, 3]", "cpu.fc_dx.onednn");
  EXPECT_NE(other.hash(), table_.hash());
  other.set("fc fp32 [2, 3]", "cpu.fc.packed");
  EXPECT_EQ(other.hash(), table_.hash());
  EXPECT_EQ(table_.hash().size(), 64u);
  TuningTable shifted;
  shifted.set("fc fp32 [2, 3]c", "pu.fc.packed");
  shifted.set("fc_dx fp32 [2, 3]", "cpu.fc_dx.onednn");
  EXPECT_NE(shifted.hash(), table_.hash());
}

TEST_F(TuningTableTest, JsonGivesTheSameTable) {
  EXPECT_EQ(TuningTable::from_json(table_.to_json()).entries(), table_.entries());
  EXPECT_THROW(TuningTable::from_json("[]"), DataError);
  EXPECT_THROW(TuningTable::from_json("{\"format\": 3}"), DataError);
  std::string changed = table_.to_json();
  changed.replace(changed.find("packed"), 6, "onednn");
  EXPECT_THROW(TuningTable::from_json(changed), DataError);
}

TEST_F(TuningTableTest, TimesAreKeptAndAreNoPartOfTheHash) {
  TuningTable timed = table_;
  timed.set("fc fp32 [2, 3]", "cpu.fc.packed", 6.25);
  EXPECT_EQ(timed.hash(), table_.hash());
  EXPECT_EQ(timed.us_of("fc fp32 [2, 3]"), 6.25);
  EXPECT_EQ(TuningTable::from_json(timed.to_json()).us_of("fc fp32 [2, 3]"), 6.25);
  std::string changed = timed.to_json();
  changed.replace(changed.find("6.25"), 4, "5.25");
  EXPECT_THROW(TuningTable::from_json(changed), DataError);
  timed.set("fc fp32 [2, 3]", "cpu.fc.onednn");
  EXPECT_EQ(timed.us_of("fc fp32 [2, 3]"), 0) << "another choice was not timed";
}

TEST_F(TuningTableTest, AddsWhatIsMissing) {
  TuningTable other;
  other.set("fc fp32 [2, 3]", "cpu.fc.onednn", 1);
  other.set("fc fp32 [4, 3]", "cpu.fc.onednn", 2);
  table_.add_missing(other);
  EXPECT_EQ(table_.find("fc fp32 [2, 3]"), "cpu.fc.packed");
  EXPECT_EQ(table_.find("fc fp32 [4, 3]"), "cpu.fc.onednn");
  EXPECT_EQ(table_.us_of("fc fp32 [4, 3]"), 2);
}

// As a checkpoint of an earlier build holds it.
TEST_F(TuningTableTest, ReadsTablesWithoutTimes) {
  const TuningTable old = TuningTable::from_json(
      R"({"environment":"","format":"renaissance-tuning","version":1,"entries":{"k":"v"},)"
      R"("checksum":"09f8d771c32b78ff3fdcf932772cf444dc38f4c5e7f85e13dd070d103581ef6b"})");
  EXPECT_EQ(old.find("k"), "v");
}

TEST_F(TuningTableTest, CacheComesBackInItsEnvironment) {
  table_.save_cache(path_, "cpu A");
  EXPECT_EQ(TuningTable::load_cache(path_, "cpu A").entries(), table_.entries());
  expect_refused("cpu B", "made for 'cpu A'");
}

TEST_F(TuningTableTest, MissingCacheIsEmpty) { expect_refused("cpu A", "not there"); }

TEST_F(TuningTableTest, TornCacheIsEmptyAtEveryLength) {
  table_.save_cache(path_, "cpu A");
  const std::string whole = text();
  for (std::size_t length = 0; length + 2 < whole.size(); length += 7) {
    std::ofstream(path_, std::ios::trunc) << whole.substr(0, length);
    logged_.clear();
    expect_refused("cpu A", "choosing anew");
  }
}

TEST_F(TuningTableTest, ForeignAndNewerFilesAreEmpty) {
  std::ofstream(path_) << R"({"format": "other", "version": 1})";
  expect_refused("cpu A", "format is 'other'");
  std::ofstream(path_, std::ios::trunc) << R"({"format": "renaissance-tuning", "version": 3})";
  expect_refused("cpu A", "version is 3");
}

// A cache is a help: whatever lies in its place is told, waited for never, and no error.
TEST_F(TuningTableTest, WhatIsNoFileIsToldAsThat) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  expect_refused("cpu A", "it is not a regular file");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  expect_refused("cpu A", "it is a folder");
  table_.save_cache(path_, "cpu A");
  EXPECT_NE(logged_.find("not saved"), std::string::npos) << logged_;
}

// With a sound checksum: it would be refused only where tables are joined, in the midst of a
// compile.
TEST_F(TuningTableTest, AnEntryWithoutAChoiceIsRefused) {
  Sha256 sha;
  sha.update(std::string_view("5:cpu A1:k0:"));
  std::ofstream(path_)
      << R"({"format": "renaissance-tuning", "version": 2, "environment": "cpu A", )"
      << R"("entries": {"k": ""}, "measured_us": {}, "checksum": ")" << sha.hex() << "\"}";
  expect_refused("cpu A", "key 'k' has the choice '', neither may be empty");
}

TEST_F(TuningTableTest, FolderThatCannotBeWrittenIsLogged) {
  std::ofstream(folder_ / "file") << "x";
  table_.save_cache((folder_ / "file" / "tuning.json").string(), "cpu A");
  EXPECT_NE(logged_.find("not saved"), std::string::npos) << logged_;
}

}  // namespace
}  // namespace tr

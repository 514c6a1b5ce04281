// SPDX-License-Identifier: Apache-2.0
#include "data/sets_in_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "data/memory_dataset.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::LogCapture;
using test::TempFolder;
using test::throws;

/// Ten samples of 100 bytes and a label; or, encoded, files of 100 bytes whose sizes nobody knows.
class CountedSet final : public Dataset {
 public:
  explicit CountedSet(bool encoded) : encoded_(encoded) {}
  std::int64_t num_samples() const override { return 10; }
  std::string name() const override { return "counted"; }
  std::vector<Field> fields() const override {
    const Shape shape = encoded_ ? Shape{0, 0, 3} : Shape{4, 25, 1};
    return {{"image", {shape, DType::UINT8}, encoded_}, {"label", {Shape{}, DType::INT32}}};
  }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    ++reads;
    const std::int32_t label = std::int32_t(id);
    if (!encoded_) std::memset(out[0], int(id), 100);
    std::memcpy(out[1], &label, sizeof label);
  }
  void read_encoded(std::int64_t id, EncodedPicture& picture,
                    std::span<std::byte* const> out) const override {
    read(id, out);
    picture.bytes.assign(100, std::byte(id));
  }
  mutable std::atomic<int> reads{0};

 private:
  bool encoded_;
};

TEST(SetsInMemoryTest, ASetIsReadOnceForAllThatAsk) {
  for (const bool encoded : {false, true}) {
    const auto set = std::make_shared<CountedSet>(encoded);
    SetsInMemory sets;
    std::shared_ptr<const Dataset> got[8];
    std::vector<std::thread> ranks;
    for (auto& each : got) ranks.emplace_back([&] { each = sets.get(set); });
    for (std::thread& rank : ranks) rank.join();
    EXPECT_EQ(set->reads, 10);
    for (const auto& each : got) EXPECT_EQ(each, got[0]);
    EXPECT_NE(got[0], set);
    EXPECT_EQ(got[0]->known_label(7), encoded ? -1 : 7);
  }
}

TEST(SetsInMemoryTest, WhatDoesNotFitIsToldBeforeItIsRead) {
  const auto set = std::make_shared<CountedSet>(false);
  SetsInMemory small(1039);
  EXPECT_TRUE(throws<OutOfMemory>([&] { small.get(set); },
                                  "fully_mode: the 10 samples of counted take 1.02 KiB of memory"));
  EXPECT_EQ(set->reads, 0);
  SetsInMemory enough(1040);
  enough.get(set);
  // The limit is that of all sets together.
  EXPECT_TRUE(throws<OutOfMemory>([&] { enough.get(std::make_shared<CountedSet>(false)); },
                                  "0 B are free; expected fully_mode=false"));
  const auto held = enough.get(set);
  EXPECT_EQ(small.get(held), held);  // what is in memory takes nothing more
}

TEST(SetsInMemoryTest, FilesAreMeasuredBeforeTheyAreRead) {
  const TempFolder folder;
  for (const char* c : {"a", "b"}) {
    std::filesystem::create_directories(folder.path(c));
    folder.write(std::string(c) + "/1.jpg", std::string(1000, 'x'));
  }
  const LogCapture log;
  const auto set = open_dataset("folder", folder.path()).train;
  SetsInMemory small(2007), enough(2008);  // with two labels
  EXPECT_TRUE(
      throws<OutOfMemory>([&] { small.get(set); }, "the 2 samples of folder take 1.96 KiB"));
  EXPECT_NE(enough.get(set), set);
  EXPECT_EQ(log.count("data: 2 samples of folder lie in memory, 1.96 KiB"), 1) << log.text();
}

TEST(SetsInMemoryTest, FilesOfUnknownSizesEndAtTheLimit) {
  const auto set = std::make_shared<CountedSet>(true);
  SetsInMemory small(550);
  EXPECT_TRUE(throws<OutOfMemory>([&] { small.get(set); },
                                  "memory for 600 bytes of pictures ends at sample 5 of 10"));
}

}  // namespace
}  // namespace tr::data

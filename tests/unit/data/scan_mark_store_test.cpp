// SPDX-License-Identifier: Apache-2.0
#include "data/scan_mark_store.h"

#include <gtest/gtest.h>

namespace tr::data {
namespace {

std::vector<std::byte> file_of(std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = std::byte(i * 31 >> 2 & 255);
  return bytes;
}

ScanMarks found(const ScanMarkStore& store, std::int64_t id, std::span<const std::byte> file,
                std::uint16_t known) {
  ScanMarks marks = store.find(id, file);
  marks.known = known;
  marks.offset_bits[0] = std::uint32_t(100 * id + known);
  return marks;
}

TEST(ScanMarkStoreTest, KeepsTheMarksOfEachSample) {
  ScanMarkStore store(3);
  EXPECT_EQ(store.num_bytes(), std::int64_t(3 * sizeof(ScanMarks)));
  const auto file = file_of(100'000);
  for (const std::int64_t id : {0, 2}) {
    EXPECT_EQ(store.find(id, file).known, 0);
    store.keep(id, found(store, id, file, 7));
    EXPECT_EQ(store.find(id, file).known, 7);
    EXPECT_EQ(store.find(id, file).offset_bits[0], std::uint32_t(100 * id + 7));
  }
  EXPECT_EQ(store.find(1, file).known, 0);
}

TEST(ScanMarkStoreTest, FewerMarksDoNotTakeThePlaceOfMore) {
  ScanMarkStore store(1);
  const auto file = file_of(5000);
  const ScanMarks few = found(store, 0, file, 2), more = found(store, 0, file, 9);
  store.keep(0, few);
  store.keep(0, more);
  store.keep(0, few);
  EXPECT_EQ(store.find(0, file).known, 9);
}

TEST(ScanMarkStoreTest, AFileThatChangedHasNone) {
  for (const std::size_t size : {1u, 31u, 700u, 4096u, 4097u, 90'000u}) {
    ScanMarkStore store(1);
    const auto file = file_of(size);
    store.keep(0, found(store, 0, file, 5));
    ASSERT_EQ(store.find(0, file).known, 5);
    auto longer = file;
    longer.push_back(file.back());
    EXPECT_EQ(store.find(0, longer).known, 0) << size;
    auto other = file;  // as from another picture behind the same beginning
    for (std::size_t i = size / 2; i < size; ++i) other[i] ^= std::byte{1};
    EXPECT_EQ(store.find(0, other).known, 0) << size;
    other = file;
    other[0] ^= std::byte{64};
    EXPECT_EQ(store.find(0, other).known, 0) << size;
    store.keep(0, found(store, 0, other, 1));
    EXPECT_EQ(store.find(0, other).known, 1) << size;
    EXPECT_EQ(store.find(0, file).known, 0) << size;
  }
}

}  // namespace
}  // namespace tr::data

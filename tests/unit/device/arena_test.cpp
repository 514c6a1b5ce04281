// SPDX-License-Identifier: Apache-2.0
#include "device/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

TEST(HostArenaTest, IsAlignedZeroFilledAndWritableToTheEnd) {
  for (const std::int64_t num_bytes : {std::int64_t{1}, std::int64_t{4096}, std::int64_t{5000},
                                       std::int64_t{1} << 21, (std::int64_t{5} << 20) + 13}) {
    const auto arena = make_host_arena(num_bytes);
    ASSERT_EQ(arena->num_bytes(), num_bytes);
    std::byte* base = arena->base();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(base) % 4096, 0u);
    EXPECT_TRUE(std::all_of(base, base + num_bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::fill_n(base, num_bytes, std::byte{0xa5});
    EXPECT_EQ(base[num_bytes - 1], std::byte{0xa5});
  }
}

TEST(HostArenaTest, ALargeOneBeginsAtAHugePage) {
  const auto arena = make_host_arena(std::int64_t{16} << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena->base()) % (std::uintptr_t{2} << 20), 0u);
}

TEST(HostArenaTest, MayBeEmpty) {
  const auto arena = make_host_arena(0);
  EXPECT_EQ(arena->num_bytes(), 0);
  EXPECT_NE(arena->base(), nullptr);
}

TEST(HostArenaTest, NamesTheBytesThatCannotBeHad) {
  EXPECT_TRUE(
      throws<OutOfMemory>([] { make_host_arena(std::int64_t{1} << 60); },
                          "host arena: 1.00 EiB (1152921504606846976 bytes) could not be had"));
  EXPECT_TRUE(throws<OutOfMemory>([] { make_host_arena(INT64_MAX); }, "out of range"));
  EXPECT_TRUE(throws<InvalidArgument>([] { make_host_arena(-1); }, "-1 bytes"));
}

}  // namespace
}  // namespace tr

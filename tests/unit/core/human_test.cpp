// SPDX-License-Identifier: Apache-2.0
#include "core/human.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

namespace tr {
namespace {

TEST(HumanTest, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1.00 KiB");
  EXPECT_EQ(format_bytes(1642824499), "1.53 GiB");
  EXPECT_EQ(format_bytes(1048575), "1.00 MiB");  // not 1024 KiB
  EXPECT_EQ(format_bytes(10230), "9.99 KiB");
  EXPECT_EQ(format_bytes(10238), "10.0 KiB");
  EXPECT_EQ(format_bytes(-2048), "-2.00 KiB");
  EXPECT_EQ(format_bytes(INT64_MAX), "8.00 EiB");
  EXPECT_EQ(format_bytes(INT64_MIN), "-8.00 EiB");
}

TEST(HumanTest, Durations) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(830e-9), "830 ns");
  EXPECT_EQ(format_duration(12.34e-6), "12.3 us");
  EXPECT_EQ(format_duration(0.9996), "1.00 s");
  EXPECT_EQ(format_duration(0.0123), "12.3 ms");
  EXPECT_EQ(format_duration(99.96), "1 min 40 s");
  EXPECT_EQ(format_duration(125), "2 min 05 s");
  EXPECT_EQ(format_duration(3599.7), "1 h 00 min");
  EXPECT_EQ(format_duration(11220), "3 h 07 min");
  EXPECT_EQ(format_duration(-0.5), "-500 ms");
  EXPECT_EQ(format_duration(NAN), "unknown");
  EXPECT_EQ(format_duration(INFINITY), "unknown");
}

TEST(HumanTest, Clocks) {
  EXPECT_EQ(format_clock(0), "00:00");
  EXPECT_EQ(format_clock(41.2), "00:41");
  EXPECT_EQ(format_clock(59.6), "01:00");
  EXPECT_EQ(format_clock(3723), "1:02:03");
  EXPECT_EQ(format_clock(INFINITY), "--:--");
  EXPECT_EQ(format_clock(-1), "--:--");
}

TEST(HumanTest, Counts) {
  EXPECT_EQ(format_count(17), "17");
  EXPECT_EQ(format_count(0.25), "0.25");
  EXPECT_EQ(format_count(999.7), "1.00k");
  EXPECT_EQ(format_count(41234), "41.2k");
  EXPECT_EQ(format_count(138.36e6), "138M");
  EXPECT_EQ(format_count(-2500), "-2.50k");
  EXPECT_EQ(format_count(NAN), "unknown");
}

}  // namespace
}  // namespace tr

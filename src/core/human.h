// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace tr {

/// "17 B", "1.53 GiB": three significant digits and a binary unit.
std::string format_bytes(std::int64_t num_bytes);

/// "0 s", "830 ns", "12.3 ms", "4.10 s", "2 min 05 s", "3 h 07 min".
std::string format_duration(double seconds);

/// A clock for counting down: "00:41", "1:02:03"; "--:--" if it is not finite or negative.
std::string format_clock(double seconds);

/// "17", "41.2k", "3.40M", "1.20G": counts and rates, decimal.
std::string format_count(double count);

}  // namespace tr

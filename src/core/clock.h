// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

namespace tr {

using Clock = std::chrono::steady_clock;

/// Nanoseconds of the steady clock; only differences mean something.
inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch())
      .count();
}

/// Time since it was made or last restarted.
class Stopwatch {
 public:
  void restart() { start_ = Clock::now(); }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double ms() const { return seconds() * 1e3; }
  double us() const { return seconds() * 1e6; }

 private:
  Clock::time_point start_ = Clock::now();
};

}  // namespace tr

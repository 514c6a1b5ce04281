// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>

namespace tr {

/// How long a thread looks for what others are about to do before it sleeps in the kernel.
struct SpinTimes {
  std::chrono::microseconds spin{50};  // looks all the time
  std::chrono::microseconds yield{0};  // and then offers the core to others between looks, up to
};

/// Waits a while for ready(); false if it did not come true.
template <typename Ready>
bool spin_until(const SpinTimes& times, Ready ready) {
  constexpr int kPausesPerLook = 32;
  if (ready()) return true;
  const auto start = std::chrono::steady_clock::now();
  while (true) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      __builtin_ia32_pause();
      if (ready()) return true;
    }
    const auto waited = std::chrono::steady_clock::now() - start;
    if (waited > times.spin && waited > times.yield) return false;
    if (waited > times.spin) sched_yield();
  }
}

}  // namespace tr

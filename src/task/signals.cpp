// SPDX-License-Identifier: Apache-2.0
#include "task/signals.h"

#include <signal.h>

#include <atomic>
#include <mutex>

namespace tr {

namespace {

std::atomic<int> received_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a handler may only touch lock-free state");

std::mutex mutex;
std::atomic<int> num_guards{0};  // changes under the mutex
struct sigaction former_int, former_term;

void on_signal(int number) { received_signal.store(number); }

}  // namespace

SignalGuard::SignalGuard(bool active) : active_(active) {
  if (!active_) return;
  const std::lock_guard lock(mutex);
  if (num_guards++ > 0) return;
  received_signal.store(0);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &former_int);
  sigaction(SIGTERM, &action, &former_term);
}

SignalGuard::~SignalGuard() {
  if (!active_) return;
  const std::lock_guard lock(mutex);
  if (--num_guards > 0) return;
  sigaction(SIGINT, &former_int, nullptr);
  sigaction(SIGTERM, &former_term, nullptr);
}

int SignalGuard::received() {
  if (num_guards.load(std::memory_order_relaxed) == 0) return 0;
  return received_signal.load(std::memory_order_relaxed);
}

}  // namespace tr

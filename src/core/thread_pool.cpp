// SPDX-License-Identifier: Apache-2.0
#include "core/thread_pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "core/block_signals.h"
#include "core/check.h"
#include "core/spin.h"

namespace tr {
namespace {

// A step's parallel regions follow each other within microseconds: first spin, then offer the core
// to others between looks, at last sleep.
constexpr SpinTimes kSpin{std::chrono::microseconds(50), std::chrono::microseconds(1000)};

// The kernel's wait and wake on a 32-bit word; a wait may end early, callers look again.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
}
void futex_wake(std::atomic<std::uint32_t>& word, int num_threads) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, num_threads, nullptr, nullptr, 0);
}

constexpr std::uint64_t kEndMask = 0xffffffffu;

constexpr std::uint64_t pack_range(std::uint64_t begin, std::uint64_t end) {
  return begin << 32 | end;
}

}  // namespace

// Every thread has a lane: a run of the job's tasks, [n t / T, n (t + 1) / T). It takes them from
// the front; who has none left takes from the back of others' lanes. So a thread meets the same
// tasks in every run of a step, and the data that it left in its caches (between far cores a line
// that another core wrote costs half a microsecond), yet a late thread does not hold up the rest.
//
// `range` is what threads compete for: whoever changes it owns one task. The field `task` is read
// only by an owner; run() cannot return, hence not change it, before every owner has reported, so a
// thread that arrives late finds no task and touches nothing.
struct ThreadPool::Impl {
  struct alignas(64) Lane {  // one cache line: a worker learns all of its job by one transfer
    std::atomic<std::uint64_t> range{0};  // begin << 32 | end of the unclaimed tasks
    const TaskRef* task = nullptr;
    std::atomic<std::uint32_t> job{0};  // number of the job, raised last
  };
  alignas(64) std::atomic<std::uint64_t> unfinished{0};  // tasks not yet reported
  alignas(64) std::atomic<std::uint32_t> wake{0};        // futex of sleeping workers
  std::atomic<int> num_sleeping{0};
  std::atomic<std::uint32_t> finished{0};  // futex of the sleeping caller
  std::atomic<bool> caller_sleeps{false};
  std::atomic<bool> stop{false};
  std::atomic<bool> running{false};

  std::vector<Lane> lanes;
  std::uint32_t num_jobs = 0;

  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::uint64_t failed_task = 0;

  std::vector<std::thread> workers;

  void call(const TaskRef& f, std::uint64_t index, int thread) noexcept {
    try {
      f(std::int64_t(index), thread);
    } catch (...) {
      // The lowest task's exception wins: the same message whatever the number of threads.
      const std::lock_guard lock(failure_mutex);
      if (!failure || index < failed_task) {
        failure = std::current_exception();
        failed_task = index;
      }
    }
  }

  /// Runs tasks of a lane until it is empty; returns how many.
  std::uint64_t take_from(Lane& lane, bool front, int thread) {
    std::uint64_t done = 0;
    std::uint64_t range = lane.range.load(std::memory_order_relaxed);
    while (true) {
      const std::uint64_t begin = range >> 32, end = range & kEndMask;
      if (begin == end) return done;
      const std::uint64_t rest = front ? pack_range(begin + 1, end) : pack_range(begin, end - 1);
      if (!lane.range.compare_exchange_weak(range, rest, std::memory_order_acquire,
                                            std::memory_order_relaxed)) {
        continue;
      }
      call(*lane.task, front ? begin : end - 1, thread);
      ++done;
      range = lane.range.load(std::memory_order_relaxed);
    }
  }

  void take_tasks(int thread) {
    std::uint64_t done = take_from(lanes[std::size_t(thread)], true, thread);
    for (std::size_t i = 1; i < lanes.size(); ++i) {
      done += take_from(lanes[(std::size_t(thread) + i) % lanes.size()], false, thread);
    }
    if (done != 0) report(done);
  }

  void report(std::uint64_t done) {
    if (unfinished.fetch_sub(done, std::memory_order_seq_cst) != done) return;
    if (!caller_sleeps.load(std::memory_order_seq_cst)) return;
    finished.fetch_add(1, std::memory_order_release);
    futex_wake(finished, 1);
  }

  void worker(int thread) {
    const Lane& lane = lanes[std::size_t(thread)];
    std::uint32_t seen = 0;
    const auto has_work = [&] {
      return lane.job.load(std::memory_order_acquire) != seen ||
             stop.load(std::memory_order_relaxed);
    };
    while (true) {
      if (!spin_until(kSpin, has_work)) sleep_until_work(lane, seen);
      if (stop.load(std::memory_order_acquire)) return;
      seen = lane.job.load(std::memory_order_acquire);
      take_tasks(thread);
    }
  }

  void sleep_until_work(const Lane& lane, std::uint32_t seen) {
    const std::uint32_t call = wake.load(std::memory_order_acquire);
    num_sleeping.fetch_add(1, std::memory_order_seq_cst);
    // Either this look sees the new job, or run() sees this sleeper and raises `wake`.
    if (lane.job.load(std::memory_order_seq_cst) == seen && !stop.load(std::memory_order_seq_cst)) {
      futex_wait(wake, call);
    }
    num_sleeping.fetch_sub(1, std::memory_order_relaxed);
  }

  void wake_sleepers() {
    if (num_sleeping.load(std::memory_order_seq_cst) == 0) return;
    wake.fetch_add(1, std::memory_order_release);
    futex_wake(wake, std::numeric_limits<int>::max());
  }

  void shut_down() {
    stop.store(true, std::memory_order_seq_cst);
    wake_sleepers();
    for (std::thread& w : workers) w.join();
    workers.clear();
  }

  void wait_for_others() {
    const auto all_reported = [this] { return unfinished.load(std::memory_order_acquire) == 0; };
    while (!spin_until(kSpin, all_reported)) {
      const std::uint32_t seen = finished.load(std::memory_order_acquire);
      caller_sleeps.store(true, std::memory_order_seq_cst);
      if (unfinished.load(std::memory_order_seq_cst) != 0) {
        futex_wait(finished, seen);
      }
      caller_sleeps.store(false, std::memory_order_relaxed);
    }
  }

  void run_shared(std::uint64_t count, const TaskRef& f) {
    unfinished.store(count, std::memory_order_relaxed);
    ++num_jobs;
    // The caller's own lane last: the others begin while it is still at this.
    for (std::size_t t = lanes.size(); t-- > 0;) {
      Lane& lane = lanes[t];
      lane.task = &f;
      lane.range.store(pack_range(count * t / lanes.size(), count * (t + 1) / lanes.size()),
                       std::memory_order_release);
      lane.job.store(num_jobs, std::memory_order_seq_cst);
    }
    wake_sleepers();
    take_tasks(0);
    wait_for_others();
  }
};

ThreadPool::ThreadPool(int num_threads) : impl_(std::make_unique<Impl>()) {
  TR_CHECK(num_threads >= 1 && num_threads <= 1024,
           "thread pool: num_threads is {}, expected 1 to 1024", num_threads);
  const BlockSignals blocked;
  std::string failure;
  impl_->workers.reserve(std::size_t(num_threads - 1));
  impl_->lanes = std::vector<Impl::Lane>(std::size_t(num_threads));
  try {
    for (int i = 1; i < num_threads; ++i) {
      impl_->workers.emplace_back([impl = impl_.get(), i] { impl->worker(i); });
      pthread_setname_np(impl_->workers.back().native_handle(),
                         fmt::format("tr-cpu-{}", i).c_str());
    }
  } catch (const std::system_error& e) {
    failure = e.what();
  }
  if (failure.empty()) return;
  const std::size_t num_started = impl_->workers.size();
  impl_->shut_down();
  throw_as<DeviceError>("thread pool: the system started {} of {} threads: {}", num_started,
                        num_threads - 1, failure);
}

ThreadPool::~ThreadPool() { impl_->shut_down(); }

int ThreadPool::num_threads() const { return int(impl_->workers.size()) + 1; }

void ThreadPool::run(std::int64_t num_tasks, TaskRef task) {
  TR_ASSERT(num_tasks >= 0 && std::uint64_t(num_tasks) <= kEndMask);
  TR_ASSERT(!impl_->running.exchange(true, std::memory_order_acquire));  // not reentrant
  if (num_tasks > 1 && !impl_->workers.empty()) {
    impl_->run_shared(std::uint64_t(num_tasks), task);
  } else {
    for (std::uint64_t i = 0; i < std::uint64_t(num_tasks); ++i) impl_->call(task, i, 0);
  }
  const std::exception_ptr failure = std::exchange(impl_->failure, nullptr);
  impl_->running.store(false, std::memory_order_release);
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tr

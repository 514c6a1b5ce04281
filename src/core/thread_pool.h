// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

namespace tr {

/// A view of a callable `void(int64 task, int thread)`; never allocates. The callable must outlive
/// the call.
class TaskRef {
 public:
  template <typename F>
  TaskRef(F& f)  // NOLINT: implicit by design
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* o, std::int64_t task, int thread) { (*static_cast<F*>(o))(task, thread); }) {
  }
  void operator()(std::int64_t task, int thread) const { call_(object_, task, thread); }

 private:
  void* object_;
  void (*call_)(void*, std::int64_t, int);
};

/// The compute threads of one device. The caller takes part as thread 0, so `num_threads` 1 starts
/// none. A thread begins with its own run of the tasks, [n t / T, n (t + 1) / T), so that equal
/// jobs find their data in its caches, but who has finished helps the others: which task a thread
/// takes is not fixed. Results must depend on the task's number alone, and the number of tasks must
/// not depend on num_threads (same bytes for any thread count).
class ThreadPool {
 public:
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const;
  /// Runs tasks 0 .. num_tasks-1 and returns when all are done. Allocates nothing. An exception of
  /// a task is rethrown here (the lowest task's) after all tasks have ended. Not reentrant: a call
  /// from inside a task, or from two threads at once, is an InternalError.
  void run(std::int64_t num_tasks, TaskRef task);

  template <typename F>
  void parallel_for(std::int64_t num_tasks, F&& f) {
    run(num_tasks, TaskRef(f));
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tr

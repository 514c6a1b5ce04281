// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "data/loader.h"

namespace tr::data {

/// Threads of a loader and how many it has of each kind.
struct ThreadCounts {
  int workers = 1, readers = 0;
};

/// What the configuration asks for, or what suits the processor: a worker for each core but the
/// consumer's; readers, which wait more than they work, only for sets of files.
/// @throws InvalidArgument  a number out of range.
ThreadCounts choose_threads(const LoaderConfig& config, bool reads_files);

/// The threads of one loader: they take no signals, and have names.
class LoaderThreads {
 public:
  explicit LoaderThreads(bool bind) : bind_(bind) {}
  ~LoaderThreads() { join(); }
  LoaderThreads(const LoaderThreads&) = delete;
  LoaderThreads& operator=(const LoaderThreads&) = delete;

  /// Runs body(0) .. body(count - 1) in threads of their own. `kind`: "work", "read".
  /// @throws OutOfMemory  the system does not start them.
  void start(const char* kind, int count, const std::function<void(int)>& body);
  void join();

 private:
  bool bind_;
  std::vector<std::thread> threads_;
};

}  // namespace tr::data

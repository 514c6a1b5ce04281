// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/core/log.h"

namespace tr::test {

/// Takes the library's log for as long as it lives.
class LogCapture {
 public:
  LogCapture()
      : old_(set_log_sink([this](LogLevel level, std::string_view text) {
          const std::lock_guard lock(mutex_);
          lines_.push_back((level == LogLevel::WARNING ? "WARNING " : "") + std::string(text));
        })) {}
  ~LogCapture() { set_log_sink(old_); }
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  /// Number of lines with `words`.
  int count(std::string_view words) const {
    const std::lock_guard lock(mutex_);
    int n = 0;
    for (const std::string& line : lines_) n += line.find(words) != std::string::npos ? 1 : 0;
    return n;
  }
  /// All lines, for a message of a test.
  std::string text() const {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  LogSink old_;
};

}  // namespace tr::test

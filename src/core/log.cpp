// SPDX-License-Identifier: Apache-2.0
#include "renaissance/core/log.h"

#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/check.h"
#include "core/env.h"

namespace tr {
namespace {

LogLevel least_shown() {
  const std::string name = read_env("TR_LOG_LEVEL").value_or("info");
  if (name == "debug") return LogLevel::DEBUG;
  if (name == "info") return LogLevel::INFO;
  TR_CHECK(name == "warning",
           "environment variable TR_LOG_LEVEL is \"{}\", expected debug, info or warning", name);
  return LogLevel::WARNING;
}

void write_to_stderr(LogLevel level, std::string_view message) {
  static const LogLevel least = least_shown();
  if (level < least) return;
  std::string line(level == LogLevel::WARNING ? "warning: " : "");
  line += message;
  line += '\n';
  std::fwrite(line.data(), 1, line.size(),
              stderr);  // one call, so that lines of processes do not mix
}

struct Sink {
  std::recursive_mutex mutex;  // a sink may itself call something that logs
  std::shared_ptr<const LogSink> current = std::make_shared<const LogSink>(write_to_stderr);
};

// Never destroyed: threads may log until the process ends.
Sink& sink() {
  static Sink& instance = *new Sink;
  return instance;
}

}  // namespace

LogSink set_log_sink(LogSink replacement) {
  if (!replacement) replacement = write_to_stderr;
  auto next = std::make_shared<const LogSink>(std::move(replacement));
  Sink& s = sink();
  const std::lock_guard lock(s.mutex);
  const auto former = std::exchange(s.current, std::move(next));
  return *former;
}

void log_message(LogLevel level, std::string_view message) {
  Sink& s = sink();
  const std::lock_guard lock(s.mutex);
  const auto keep = s.current;  // a sink that replaces itself stays alive until it returns
  (*keep)(level, message);
}

}  // namespace tr

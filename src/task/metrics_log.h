// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "renaissance/task/result.h"
#include "task/rank.h"

namespace tr {

/// JSON lines: {"event": "config" | "step" | "epoch" | "result", ...}. Appended to, so that a
/// resumed run goes on in the same file. Lines of steps allocate nothing.
class MetricsLog {
 public:
  MetricsLog() = default;
  /// @throws DataError  the file cannot be opened for appending.
  MetricsLog(const std::string& path, int every_steps);
  ~MetricsLog();
  MetricsLog(MetricsLog&& other) noexcept;
  MetricsLog& operator=(MetricsLog&& other) noexcept;

  void config(const std::string& config_json);
  /// `step` and `epoch` are 1-based. Writes only every `every_steps` steps.
  void step(std::int64_t step, int epoch, const StepOutcome& outcome);
  void epoch(const EpochRecord& record);
  /// `decoded`: how picture files were decoded, see data::decode_shares().
  void result(const TrainingResult& result, const std::string& decoded);
  /// @throws DataError  something could not be written (disk full).
  void flush();
  const std::string& path() const { return path_; }
  bool wants_steps() const { return file_ != nullptr && every_ > 0; }

 private:
  void write(const char* line, std::size_t length);

  std::FILE* file_ = nullptr;
  std::string path_;
  int every_ = 0;
};

/// JSON object of an epoch, as in the log and in the command's output.
std::string epoch_json(const EpochRecord& record);

}  // namespace tr

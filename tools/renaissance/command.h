// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "renaissance.h"
#include "renaissance/core/version.h"

namespace tr::command {

/// Exit codes of the command; --help lists them.
enum ExitCode : int {
  kOk = 0,
  kFailure = 1,      // memory, device, or a fault of the library
  kUsage = 2,        // an option, name or value that is wrong or contradictory
  kDataFailure = 3,  // a file or data set is missing, damaged, or cannot be written
  kUnsupported = 4   // meaningful, but not in this build
};

/// Where --json goes: nowhere, a file, or standard output ("-").
class JsonOutput {
 public:
  /// Adds the option to a command.
  void add_to(CLI::App& command);
  bool wanted() const { return !target_.empty(); }
  const std::string& target() const { return target_; }
  bool to_stdout() const { return target_ == "-" || target_ == "/dev/stdout"; }
  /// @throws DataError  the file cannot be written: asked before the work, not after it.
  void probe() const;
  /// @throws DataError  it cannot be written.
  void write(const nlohmann::json& value) const;

 private:
  std::string target_;
};

/// Each adds its subcommand; the callback does the work and sets `exit_code`.
void add_train(CLI::App& app, int& exit_code);
void add_plan(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
void add_data(CLI::App& app, int& exit_code);
void add_preview(CLI::App& app, int& exit_code);
void add_info(CLI::App& app, int& exit_code);

/// Refuses an empty text (an unset shell variable) where a file or folder is to be named.
CLI::Validator not_empty();

/// For transform(): refuses what is no whole number from 0 to `most`, in decimal; CLI11 itself
/// takes "010" for eight, and the largest int64 for what is beyond it.
CLI::Validator whole_number_up_to(std::uint64_t most);
/// The same for a variable of type T.
template <typename T>
CLI::Validator whole_number() {
  return whole_number_up_to(std::uint64_t(std::numeric_limits<T>::max()));
}

/// For transform(): refuses what is no number in decimal notation; CLI11 takes "0x1p-1" and "nan".
CLI::Validator decimal_number();

/// Standard output, unless the JSON goes there.
void print(const JsonOutput& json, const std::string& text);

/// Decides where a recipe's samples come from and says so (the rules stand in `train --help`).
/// @throws DataError  `dir` was named and does not hold the set.
void choose_data(Session& session, const std::string& dataset,
                 const std::optional<std::string>& dir);

}  // namespace tr::command

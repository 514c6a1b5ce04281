// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdio>
#include <string>

#include "command.h"
#include "core/atomic_file.h"
#include "task/parse.h"

namespace tr::command {

void JsonOutput::add_to(CLI::App& command) {
  command
      .add_option("--json", target_,
                  "write the result as JSON to FILE, or to standard output for -")
      ->type_name("FILE|-")
      ->check(not_empty());
}

void JsonOutput::probe() const {
  if (wanted() && !to_stdout()) AtomicFile file(target_);
}

void JsonOutput::write(const nlohmann::json& value) const {
  if (!wanted()) return;
  const std::string text =
      value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (to_stdout()) {
    std::fwrite(text.data(), 1, text.size(), stdout);  // main() tells what could not be written
  } else {
    write_file_atomically(target_, std::string_view(text));
  }
}

CLI::Validator not_empty() {
  return {[](const std::string& text) {
            return text.empty() ? std::string("it is empty, expected a name") : std::string();
          },
          ""};
}

CLI::Validator whole_number_up_to(std::uint64_t most) {
  const auto read = [most](std::string& text) -> std::string {
    const auto number = parse_number<std::uint64_t>(text);
    if (!number || *number > most)
      return "\"" + text + "\" is no whole number from 0 to " + std::to_string(most);
    text = std::to_string(*number);
    return {};
  };
  return {read, "UINT"};
}

CLI::Validator decimal_number() {
  const auto read = [](std::string& text) -> std::string {
    return parse_number<double>(text) ? "" : number_fault<double>(text);
  };
  return {read, "FLOAT"};
}

void print(const JsonOutput& json, const std::string& text) {
  std::fprintf(json.to_stdout() ? stderr : stdout, "%s\n", text.c_str());
}

}  // namespace tr::command

// SPDX-License-Identifier: Apache-2.0
#include "core/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "core/check.h"
#include "core/nearest_name.h"

extern char** environ;

namespace tr {
namespace {

constexpr std::array kVariables{
    EnvVariable{
        "TR_OVERRIDE",
        "Settings that win over those of the program, as `key=value` pairs separated by `;`, with "
        "the keys of the command line's `--set`: `device=cpu;total_epochs=1;dataset.path=/data`. "
        "Announced at the start.",
        "the program's own settings"},
    EnvVariable{
        "TR_PROJECT_ROOT",
        "The folder that the macro `TR_PROJECT_ROOT` names; programs look for `data/` below it.",
        "the nearest folder above the executable that holds `.renaissance-root`, or both "
        "`README.md` and `include/renaissance.h`; else the working directory"},
    EnvVariable{
        "TR_CACHE_DIR",
        "Folder for the engines that a GPU was measured to run fastest (keys `search_seconds`, "
        "`tuning_cache`), a file for each device and set of libraries.",
        "`$XDG_CACHE_HOME/renaissance`, else `$HOME/.cache/renaissance`, else nothing is kept"},
    EnvVariable{"TR_NUM_THREADS",
                "Number of compute threads on the CPU, 1 to 1024. Results do not depend on it.",
                "the processors that this process may use"},
    EnvVariable{
        "TR_LOG_LEVEL",
        "Least level that the default log sink shows: `debug`, `info` or `warning`. For diagnosis.",
        "`info`"},
    EnvVariable{"RENAISSANCE_LIBRARY_PATH",
                "Folders, separated by `:`, where cuBLASLt, cuDNN and other GPU libraries are "
                "looked for first.",
                "`lib` beside the executable's folder, the system's loader, `$CUDA_HOME/lib64`, "
                "`/usr/local/cuda/lib64`, NVIDIA's packages of Python"},
    EnvVariable{"CUDA_HOME", "A CUDA toolkit; its `lib64` is looked into for GPU libraries.",
                "`/usr/local/cuda` alone"},
    EnvVariable{"VIRTUAL_ENV",
                "A Python environment, whose NVIDIA packages are looked into for GPU libraries.",
                "Python below `$CONDA_PREFIX`, beside the `python3` of `$PATH`, below "
                "`$HOME/.local`, `/usr/local` and `/usr`"},
    EnvVariable{"CONDA_PREFIX", "A Conda environment, see `VIRTUAL_ENV`.", "the other places"},
    EnvVariable{"PATH", "Where `python3` is found, see `VIRTUAL_ENV`.", "the other places"},
    EnvVariable{"XDG_CACHE_HOME", "The user's cache folder, see `TR_CACHE_DIR`.", "`$HOME/.cache`"},
    EnvVariable{"HOME", "The user's folder, see `TR_CACHE_DIR` and `VIRTUAL_ENV`.",
                "nothing is kept between runs"},
    EnvVariable{"TERM",
                "Kind of the terminal: on `dumb` the line of progress is written every 10 seconds, "
                "as into a file, not over and over.",
                "as `dumb`"},
};

}  // namespace

std::span<const EnvVariable> env_variables() { return kVariables; }

std::optional<std::string> read_env(std::string_view name) {
  TR_ASSERT(std::any_of(kVariables.begin(), kVariables.end(),
                        [&](const EnvVariable& v) { return v.name == name; }));
  const char* value = std::getenv(std::string(name).c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<long> read_env_int(std::string_view name, long low, long high) {
  const std::optional<std::string> text = read_env(name);
  if (!text) return std::nullopt;
  long value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  TR_CHECK(
      error == std::errc{} && end == text->data() + text->size() && value >= low && value <= high,
      "environment variable {} is \"{}\", expected a whole number from {} to {}", name, *text, low,
      high);
  return value;
}

std::vector<std::string> unknown_env_messages() {
  std::vector<std::string> known, messages;
  for (const EnvVariable& v : kVariables) {
    if (v.name.starts_with("TR_")) known.emplace_back(v.name);
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (!name.starts_with("TR_") || std::find(known.begin(), known.end(), name) != known.end())
      continue;
    messages.push_back(unknown_name_message("environment variable", name, known));
  }
  std::sort(messages.begin(), messages.end());
  return messages;
}

std::string env_markdown() {
  std::string text =
      "# Environment variables\n\n"
      "Every environment variable that the library reads; declared in `src/core/env.cpp`, which "
      "prints this\n"
      "page. An unknown name that begins with `TR_` is reported when a program starts.\n\n"
      "| variable | meaning | if unset |\n|---|---|---|\n";
  for (const EnvVariable& v : kVariables) {
    text += fmt::format("| `{}` | {} | {} |\n", v.name, v.meaning, v.unset);
  }
  return text;
}

std::string cache_folder() {
  if (const auto folder = read_env("TR_CACHE_DIR")) return *folder;
  if (const auto folder = read_env("XDG_CACHE_HOME")) return *folder + "/renaissance";
  if (const auto folder = read_env("HOME")) return *folder + "/.cache/renaissance";
  return "";
}

}  // namespace tr

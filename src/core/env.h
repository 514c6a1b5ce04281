// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tr {

/// One environment variable that the library reads.
struct EnvVariable {
  std::string_view name;
  std::string_view meaning;  // a sentence for docs/env.md
  std::string_view unset;    // what happens without it
};

/// All of them, in the order of docs/env.md. Nothing else in the library calls getenv.
std::span<const EnvVariable> env_variables();

/// The value of a declared variable; nothing if it is unset or empty.
/// @throws InternalError  the name is not declared in env.cpp.
std::optional<std::string> read_env(std::string_view name);

/// The same as a whole number. @throws InvalidArgument  the text is no number in [low, high].
std::optional<long> read_env_int(std::string_view name, long low, long high);

/// One message for each variable of the environment that begins with TR_ and is not declared: a
/// typo must not be silent. A program logs them at its start.
std::vector<std::string> unknown_env_messages();

/// The text of docs/env.md.
std::string env_markdown();

/// Where measured choices and downloads are kept between runs: TR_CACHE_DIR, else
/// XDG_CACHE_HOME/renaissance, else HOME/.cache/renaissance; "" if none of them is set.
std::string cache_folder();

}  // namespace tr

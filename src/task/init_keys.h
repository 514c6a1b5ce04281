// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "renaissance/algo/initializer.h"

namespace tr {

/// The initializer's part of the configuration keys as text.
///
///   kind of all weights of fc or conv    KIND or KIND:PARAM, "fixed_normal:0.02"
///   rules                                PREFIX=KIND, PREFIX=KIND:PARAM, PREFIX=file:PATH,
///                                        PREFIX=file:PATH:PREFIX_IN_FILE, with commas between
///
/// Neither paths nor prefixes may have a comma or a colon.
struct InitChoice {
  InitKind kind = InitKind::NONE;
  float param = 0.01f;
};
/// @throws InvalidArgument  an unknown kind, or a parameter that is no number.
InitChoice parse_init_choice(std::string_view text);
std::string init_choice_text(InitKind kind, float param);

/// @throws InvalidArgument  as parse_init_choice(), or a part without "=".
std::vector<Initializer::Rule> parse_init_rules(std::string_view text);
std::string init_rules_text(const std::vector<Initializer::Rule>& rules);

}  // namespace tr

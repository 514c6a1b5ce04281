// SPDX-License-Identifier: Apache-2.0
#include "task/init_keys.h"

#include <algorithm>
#include <iterator>

#include "core/check.h"
#include "core/format.h"
#include "task/parse.h"

namespace tr {
namespace {

bool takes_param(InitKind kind) {
  constexpr InitKind kinds[] = {
      InitKind::CONSTANTS, InitKind::FIXED_NORMAL, init::kFixedTruncNormal,
      init::kFixedUniform, init::kDirac,           init::kSparse};
  return std::find(std::begin(kinds), std::end(kinds), kind) != std::end(kinds);
}

Initializer::Rule file_rule(std::string_view prefix, std::string_view place) {
  Initializer::Rule rule;
  rule.prefix = prefix;
  const std::size_t colon = place.find(':');
  rule.path = place.substr(0, colon);
  if (colon != std::string_view::npos) rule.prefix_in_file = place.substr(colon + 1);
  TR_CHECK(!rule.path.empty(), "\"{}=file:\" names no file, expected PREFIX=file:PATH", prefix);
  return rule;
}

}  // namespace

InitChoice parse_init_choice(std::string_view text) {
  const std::size_t colon = text.find(':');
  InitChoice choice{init_kind_from_name(trimmed(text.substr(0, colon)))};
  if (colon == std::string_view::npos) return choice;
  TR_CHECK(takes_param(choice.kind), "\"{}\": {} has no parameter, expected the kind alone", text,
           name_of(choice.kind));
  const auto param = parse_number<float>(trimmed(text.substr(colon + 1)));
  TR_CHECK(param, "\"{}\" has no number behind the colon, expected KIND:PARAM: {}", text,
           number_fault<float>(trimmed(text.substr(colon + 1))));
  choice.param = *param;
  return choice;
}

std::string init_choice_text(InitKind kind, float param) {
  return takes_param(kind) ? fmt::format("{}:{}", name_of(kind), param)
                           : std::string(name_of(kind));
}

std::vector<Initializer::Rule> parse_init_rules(std::string_view text) {
  std::vector<Initializer::Rule> rules;
  if (text.empty()) return rules;
  constexpr std::string_view kFile = "file:";
  for (const std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    TR_CHECK(equals != std::string_view::npos, "\"{}\" has no \"=\", expected PREFIX=KIND", part);
    const std::string_view prefix = trimmed(part.substr(0, equals));
    const std::string_view value = trimmed(part.substr(equals + 1));
    if (value.starts_with(kFile)) {
      rules.push_back(file_rule(prefix, value.substr(kFile.size())));
      continue;
    }
    const InitChoice choice = parse_init_choice(value);
    rules.push_back({std::string(prefix), choice.kind, choice.param, {}, {}});
  }
  return rules;
}

std::string init_rules_text(const std::vector<Initializer::Rule>& rules) {
  std::vector<std::string> parts;
  for (const Initializer::Rule& rule : rules) {
    if (rule.path.empty()) {
      parts.push_back(fmt::format("{}={}", rule.prefix, init_choice_text(rule.kind, rule.param)));
    } else if (rule.prefix_in_file.empty()) {
      parts.push_back(fmt::format("{}=file:{}", rule.prefix, rule.path));
    } else {
      parts.push_back(fmt::format("{}=file:{}:{}", rule.prefix, rule.path, rule.prefix_in_file));
    }
  }
  return fmt::format("{}", fmt::join(parts, ","));
}

}  // namespace tr

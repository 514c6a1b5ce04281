// SPDX-License-Identifier: Apache-2.0
#include "task/group_keys.h"

#include <array>

#include "core/check.h"
#include "core/format.h"
#include "task/parse.h"

namespace tr {
namespace {

constexpr std::array<std::pair<std::string_view, ParamKinds>, 3> kKinds = {
    {{"weight", ParamKinds::WEIGHTS}, {"bias", ParamKinds::BIASES}, {"norm", ParamKinds::NORMS}}};

ParamKinds kinds_from(std::string_view text) {
  auto kinds = ParamKinds(0);
  for (const std::string_view word : split(text, '+')) {
    const auto before = kinds;
    for (const auto& [name, kind] : kKinds) {
      if (name == trimmed(word)) kinds = kinds | kind;
    }
    TR_CHECK(kinds != before, "\"{}\" is no further kind, expected weight, bias or norm",
             trimmed(word));
  }
  return kinds;
}

void set(ParamGroup& group, std::string_view setting) {
  const std::size_t at = setting.find_first_of("=*");
  const std::string_view name = setting.substr(0, at);
  const bool known = at != std::string_view::npos && (name == "lr" || name == "weight_decay");
  const auto number = known ? parse_number<double>(setting.substr(at + 1)) : std::nullopt;
  TR_CHECK(number,
           "\"{}\" is no setting, expected lr=NUMBER, lr*NUMBER, weight_decay=NUMBER or "
           "weight_decay*NUMBER",
           setting);
  const bool value = setting[at] == '=';
  auto& field = name == "lr" ? (value ? group.lr : group.lr_scale)
                             : (value ? group.weight_decay : group.decay_scale);
  TR_CHECK(!field, "\"{}\" sets what is set before it", setting);
  field = *number;
}

ParamGroup parse_group(std::string_view text) {
  const std::size_t colon = text.find(':');
  TR_CHECK(colon != std::string_view::npos, "\"{}\" is no group, expected SELECTOR: SETTINGS",
           text);
  ParamGroup group;
  const std::string_view selector = trimmed(text.substr(0, colon));
  const std::size_t at = selector.find('@');
  group.match = trimmed(selector.substr(0, at));
  if (at != std::string_view::npos) group.kinds = kinds_from(selector.substr(at + 1));
  for (const std::string_view word : split(text.substr(colon + 1), ' ')) {
    if (!trimmed(word).empty()) set(group, trimmed(word));
  }
  group.validate();
  return group;
}

std::string text_of(const ParamGroup& group) {
  std::string text = group.match;
  if (group.kinds != ParamKinds::ALL) {
    char mark = '@';
    for (const auto& [name, kind] : kKinds) {
      if (!has(group.kinds, kind)) continue;
      text += fmt::format("{}{}", mark, name);
      mark = '+';
    }
  }
  text += ":";
  if (group.lr) text += fmt::format(" lr={}", *group.lr);
  if (group.lr_scale) text += fmt::format(" lr*{}", *group.lr_scale);
  if (group.weight_decay) text += fmt::format(" weight_decay={}", *group.weight_decay);
  if (group.decay_scale) text += fmt::format(" weight_decay*{}", *group.decay_scale);
  return text;
}

}  // namespace

std::vector<ParamGroup> parse_groups(std::string_view text) {
  std::vector<ParamGroup> groups;
  if (trimmed(text).empty()) return groups;
  for (const std::string_view part : split(text, ',')) groups.push_back(parse_group(trimmed(part)));
  return groups;
}

std::string groups_text(const std::vector<ParamGroup>& groups) {
  std::vector<std::string> parts;
  for (const ParamGroup& group : groups) parts.push_back(text_of(group));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace tr

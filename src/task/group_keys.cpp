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

/// What a group may set, in the order in which it is written.
struct GroupSetting {
  std::string_view name;  // with the sign that follows
  std::optional<double> ParamGroup::*field;
};
constexpr std::array<GroupSetting, 7> kSettings = {{{"lr=", &ParamGroup::lr},
                                                    {"lr*", &ParamGroup::lr_scale},
                                                    {"weight_decay=", &ParamGroup::weight_decay},
                                                    {"weight_decay*", &ParamGroup::decay_scale},
                                                    {"momentum=", &ParamGroup::momentum},
                                                    {"beta1=", &ParamGroup::beta1},
                                                    {"beta2=", &ParamGroup::beta2}}};

void set(ParamGroup& group, std::string_view text) {
  for (const auto& [name, field] : kSettings) {
    if (!text.starts_with(name)) continue;
    const auto number = parse_number<double>(text.substr(name.size()));
    if (!number) break;
    TR_CHECK(!(group.*field), "\"{}\" sets what is set before it", text);
    group.*field = *number;
    return;
  }
  throw_as<InvalidArgument>(
      "\"{}\" is no setting, expected lr=NUMBER, lr*NUMBER, weight_decay=NUMBER, "
      "weight_decay*NUMBER, momentum=NUMBER, beta1=NUMBER or beta2=NUMBER",
      text);
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
  for (const auto& [name, field] : kSettings) {
    if (group.*field) text += fmt::format(" {}{}", name, *(group.*field));
  }
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

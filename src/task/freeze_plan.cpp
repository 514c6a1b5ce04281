// SPDX-License-Identifier: Apache-2.0
#include "task/freeze_plan.h"

#include <algorithm>

#include "core/check.h"
#include "core/format.h"
#include "task/parse.h"

namespace tr {

FreezePlan plan_freezes(std::span<const Freeze> rules, int total_epochs) {
  FreezePlan plan;
  plan.states.clear();
  for (int epoch = 1; epoch <= total_epochs; ++epoch) {
    std::vector<std::string> active;
    for (const Freeze& rule : rules) {
      if (rule.in_epoch(epoch)) active.push_back(rule.prefix);
    }
    const auto known = std::find(plan.states.begin(), plan.states.end(), active);
    plan.of_epoch.push_back(int(known - plan.states.begin()));
    if (known == plan.states.end()) plan.states.push_back(active);
  }
  return plan;
}

Freeze parse_freeze(std::string_view text) {
  Freeze freeze;
  const std::size_t at = text.rfind('@');
  freeze.prefix = trimmed(text.substr(0, at));
  if (at == std::string_view::npos) return freeze;
  const std::string_view epochs = trimmed(text.substr(at + 1));
  const std::size_t dash = epochs.find('-');
  const auto first = parse_number<int>(trimmed(epochs.substr(0, dash)));
  const bool open = dash != std::string_view::npos && trimmed(epochs.substr(dash + 1)).empty();
  const auto last = dash == std::string_view::npos ? first
                    : open                         ? std::optional(0)
                           : parse_number<int>(trimmed(epochs.substr(dash + 1)));
  const bool valid = first && last && *first >= 1 && (open || *last >= *first);
  TR_CHECK(valid, "\"{}\": the epochs are \"{}\", expected first-last, first- or one epoch, from 1",
           text, epochs);
  freeze.first = *first;
  freeze.last = *last;
  return freeze;
}

std::string to_string(const Freeze& freeze) {
  if (freeze.first == 1 && freeze.last == 0) return freeze.prefix;
  return fmt::format("{}@{}-{}", freeze.prefix, freeze.first,
                     freeze.last == 0 ? "" : std::to_string(freeze.last));
}

}  // namespace tr

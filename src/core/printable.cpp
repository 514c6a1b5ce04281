// SPDX-License-Identifier: Apache-2.0
#include "core/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace tr {
namespace {

/// Length of the UTF-8 sequence that `text` begins with; 0: it begins with none. Refuses overlong
/// forms, surrogates and what lies above U+10FFFF (RFC 3629).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return std::uint8_t(text[i]); };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return first < 0x20 || first == 0x7f ? 0 : 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return 0;
  }
  const std::uint8_t second = byte(1);
  const bool wrong = (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ||
                     (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f);
  return wrong ? 0 : length;
}

}  // namespace

std::string printable(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  while (!name.empty()) {
    const std::size_t length = sequence_length(name);
    if (length == 0) {
      text += fmt::format("\\x{:02X}", std::uint8_t(name[0]));
    } else {
      text += name.substr(0, length);
    }
    name.remove_prefix(length == 0 ? 1 : length);
  }
  return text;
}

}  // namespace tr

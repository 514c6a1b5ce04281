// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include "core/check.h"

namespace tr::zoo {

/// What stands before a message about the place `offset` of a text: "recipe.toml:3:9: ". An empty
/// function: nothing.
using PlaceOf = std::function<std::string(std::size_t offset)>;

/// Reads a text of words and signs from left to right; spaces between them mean nothing.
class TextReader {
 public:
  TextReader(std::string_view text, const PlaceOf& place) : text_(text), place_(place) {}

  /// Of the next word or sign, or the text's end.
  std::size_t at() {
    at_ = std::min(text_.find_first_not_of(kSpaces, at_), text_.size());
    return at_;
  }
  bool ends() { return at() == text_.size(); }
  std::string_view rest() { return text_.substr(at()); }

  /// Takes the sign if it is the next one.
  bool take(char sign) {
    if (ends() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }

  /// The characters up to a space or sign; perhaps none.
  std::string_view word() {
    const std::size_t begin = at();
    at_ = std::min(text_.find_first_of(kEnds, begin), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  template <typename... Args>
  [[noreturn]] void fail(std::size_t at, fmt::format_string<Args...> format, Args&&... args) const {
    throw_as<InvalidArgument>("{}{}", place_ ? place_(at) : std::string(),
                              fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  static constexpr std::string_view kSpaces = " \t\r\n", kEnds = " \t\r\n,()[]=";

  std::string_view text_;
  const PlaceOf& place_;
  std::size_t at_ = 0;
};

}  // namespace tr::zoo

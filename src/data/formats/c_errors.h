// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csetjmp>
#include <cstdio>
#include <string_view>

namespace tr::data {

/// What a C library reports through callbacks. Errors leave it by longjmp, since exceptions must
/// not pass through its frames.
class CErrors {
 public:
  static constexpr std::size_t kMaxText = 200;

  /// Calls `body`; false if an error came, text() says which. Nothing in `body` may own anything:
  /// its destructors would not run.
  template <typename Body>
  bool run(Body body) {
    if (setjmp(jump_) != 0) return false;
    body();
    return true;
  }
  /// From the library's callback, within run().
  [[noreturn]] void raise(const char* text) {
    std::snprintf(text_, kMaxText, "%s", text);
    std::longjmp(jump_, 1);
  }
  void warn(const char* text) {
    if (warnings_++ == 0) std::snprintf(first_warning_, kMaxText, "%s", text);
  }
  void reset() {
    warnings_ = 0;
    text_[0] = first_warning_[0] = '\0';
  }

  std::string_view text() const { return text_; }
  int warnings() const { return warnings_; }
  std::string_view first_warning() const { return first_warning_; }

 private:
  std::jmp_buf jump_;
  char text_[kMaxText] = "", first_warning_[kMaxText] = "";
  int warnings_ = 0;
};

}  // namespace tr::data

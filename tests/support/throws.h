// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <string>
#include <string_view>

namespace tr::test {

/// Runs `call`; succeeds if it throws exactly an E (or what derives from it) whose message holds
/// `words`.
template <typename E, typename Call>
testing::AssertionResult throws(Call call, std::string_view words) {
  try {
    call();
  } catch (const E& error) {
    if (std::string_view(error.what()).find(words) != std::string_view::npos) {
      return testing::AssertionSuccess();
    }
    return testing::AssertionFailure()
           << "the message is \"" << error.what() << "\", expected in it \"" << words << "\"";
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << "another exception was thrown: " << error.what();
  }
  return testing::AssertionFailure() << "nothing was thrown, expected \"" << words << "\"";
}

}  // namespace tr::test

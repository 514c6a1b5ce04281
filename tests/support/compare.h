// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "renaissance/core/error.h"
#include "renaissance/tensor/tensor.h"
#include "support/reference.h"
#include "support/tolerance.h"

namespace tr::test {

/// Element by element; a failure names how many differ, the first few and the worst with index,
/// both values and the error as a multiple of what is allowed. NaN equals NaN only.
testing::AssertionResult is_close(const Tensor& got, const Array& want, Tolerance tolerance,
                                  const std::string& what = "tensor");
testing::AssertionResult is_close(const Tensor& got, const Tensor& want, Tolerance tolerance,
                                  const std::string& what = "tensor");

/// Shape, dtype and every byte.
testing::AssertionResult same_bytes(const Tensor& got, const Tensor& want,
                                    const std::string& what = "tensor");

/// The root of the mean square difference, over the elements where `want` is finite.
double rms_distance(const Tensor& got, const Tensor& want);

/// Runs `call`; succeeds if it throws an Error whose message holds every one of `words`.
template <typename Call>
testing::AssertionResult refuses(Call call, const std::vector<std::string>& words);

/// True if `message` holds every word; the failure names the missing ones.
testing::AssertionResult has_words(const std::string& message,
                                   const std::vector<std::string>& words);

template <typename Call>
testing::AssertionResult refuses(Call call, const std::vector<std::string>& words) {
  try {
    call();
  } catch (const Error& error) {
    return has_words(error.what(), words);
  }
  return testing::AssertionFailure() << "nothing was thrown";
}

}  // namespace tr::test

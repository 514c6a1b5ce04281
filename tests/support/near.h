// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include "support/tolerance.h"

namespace tr::test {

/// One number; the failure names both and the error as a multiple of what is allowed.
inline testing::AssertionResult is_near(double got, double want, Tolerance tolerance) {
  if (tolerance.allows(got, want)) return testing::AssertionSuccess();
  const double allowed = tolerance.atol + tolerance.rtol * std::abs(want);
  return testing::AssertionFailure() << got << " is not " << want << ": the error is "
                                     << std::abs(got - want) / allowed << " of what is allowed";
}

}  // namespace tr::test

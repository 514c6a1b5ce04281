// SPDX-License-Identifier: Apache-2.0
// Shampoo and SOAP on the CPU at the end of fp32's range.
#include "preconditioner_calls.h"

namespace tr::test {
namespace {

TEST(Preconditioners, TakeGradientsOfAnySize) {
  expect_steps_of_small_gradients([](const KernelCall& call) { return run_kernel(call); });
}

}  // namespace
}  // namespace tr::test

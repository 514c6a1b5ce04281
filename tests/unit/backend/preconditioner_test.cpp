// SPDX-License-Identifier: Apache-2.0
// Shampoo and SOAP on the CPU at the end of fp32's range.
#include "preconditioner_calls.h"

namespace tr::test {
namespace {

KernelResult run_cpu(const KernelCall& call) { return run_kernel(call); }

TEST(Preconditioners, TakeGradientsOfAnySize) { expect_steps_of_small_gradients(run_cpu); }

TEST(Preconditioners, BasesAreTheFirstFactorOfAQrDecomposition) {
  QrCheck{150, 40}.expect_bases(run_cpu);
}

TEST(Preconditioners, MatricesMoveAsTheyDoAlone) {
  for (const Row& row : rows()) expect_same_as_alone(run_cpu, row, 40, 33, 3);
}

}  // namespace
}  // namespace tr::test

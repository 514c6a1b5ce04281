// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/graph/attrs.h"
#include "renaissance/tensor/tensor.h"

namespace tr::test {

/// One launch of one kernel, without compiler or executor. An empty Tensor is a missing input.
struct KernelCall {
  std::string op;
  Attrs attrs;
  std::vector<Tensor> inputs;
  std::string kernel;  // "cpu.fc.onednn"; empty: the best that takes it
};

struct KernelResult {
  std::vector<Tensor> outputs;
  std::vector<Tensor> inputs;  // as they are afterwards: state that the op writes
};

/// Runs it on `num_threads`. Outputs and workspace hold NaN before; every buffer lies between guard
/// bytes that must survive, and inputs that are no state must not change (else the test fails).
KernelResult run_kernel(const KernelCall& call, int num_threads = 2);

/// The reason why kernel `call.kernel` refuses the call; empty if it takes it.
std::string refusal_of(const KernelCall& call);

/// True if 1, 2 and 3 threads give the same bytes.
bool same_bytes_for_threads(const KernelCall& call);

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kernel_harness.h"

namespace tr::test {

/// Why no kernel can run on a GPU here; empty if one can.
std::string no_gpu_reason();

/// run_kernel() on the first GPU: launched directly or replayed from a captured graph.
enum class Launched { DIRECTLY, CAPTURED };
KernelResult run_cuda_kernel(const KernelCall& call, Launched how = Launched::DIRECTLY);

/// True if a second launch, and one from a captured graph, give the bytes of the first.
bool same_bytes_every_launch(const KernelCall& call);

}  // namespace tr::test

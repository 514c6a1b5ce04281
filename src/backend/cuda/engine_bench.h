// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/engine_search.h"

namespace tr::cuda {

/// Times engines on GPU `index`: graphs of launches one behind another, over several sets of
/// operands that take turns, so that a small product finds its operands in the second-level cache,
/// as in a step, and not in the multiprocessors.
std::unique_ptr<EngineBench> make_engine_bench(int index);

/// "NVIDIA H200, 132 multiprocessors, sm_90, driver 13.0, CUDA 13.0, cuBLASLt 13.0.2, kernels
/// 1f0a..."
std::string tuning_environment(int index);

/// Of the sources of this folder as they were built: other kernels take other times. Made at build
/// time by cmake/HashSources.cmake.
const char* kernel_sources_hash();

}  // namespace tr::cuda

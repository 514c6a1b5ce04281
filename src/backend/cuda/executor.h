// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backend/executor.h"

namespace tr::cuda {

/// Executor on one GPU: every variant's step is one CUDA graph, captured here and replayed by
/// run().
/// @throws OutOfMemory  the arena does not fit; DeviceError  CUDA refuses something.
std::unique_ptr<Executor> make_executor(const CompileResult& compiled,
                                        const ExecutorOptions& options);

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "graph/compiler.h"

namespace tr {

/// Takes graphs written by hand through the compiler's stages from derive_all_shapes on: variant i
/// is graph i.
/// @throws InvalidArgument, Unsupported, OutOfMemory
CompileResult assemble(std::span<const ComputationGraph> graphs, const KernelOracle& oracle,
                       const PlanOptions& memory = {});

/// True if every output of the op is its input's bytes: nothing runs.
bool is_view_op(const OpDef& def);

}  // namespace tr

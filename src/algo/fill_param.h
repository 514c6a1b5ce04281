// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "graph/op_def.h"
#include "renaissance/algo/initializer.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// Writes the first value of a parameter or buffer, fp32, in memory order. Element i of a weight is
/// made from the draws (seed, INIT, fnv1a64(name), i) alone; weights of rank 2 follow the
/// initializer's fc kind, others its conv kind.
/// @throws InvalidArgument  `out` has another type than the spec.
void fill_param(const ParamSpec& spec, const std::string& name, const Initializer& initializer,
                std::uint64_t seed, Tensor& out);

}  // namespace tr

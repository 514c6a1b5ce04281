// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "graph/op_def.h"
#include "renaissance/algo/initializer.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// Writes the first value of a parameter or buffer, fp32, in memory order. Element i of a weight is
/// made from the draws (seed, INIT, fnv1a64(name), i) alone, but for ORTHOGONAL, which is made from
/// all of them; weights of rank 2 follow the initializer's fc kind, others its conv kind, all of
/// them the last rule that matches. Rules that name a file are the caller's.
/// @throws InvalidArgument  `out` has another type than the spec, or the kind does not fit it.
void fill_param(const ParamSpec& spec, const std::string& name, const Initializer& initializer,
                std::uint64_t seed, Tensor& out);

/// The last rule whose prefix `name` has; null: none.
const Initializer::Rule* rule_of(const Initializer& initializer, std::string_view name);

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph/op_def.h"
#include "renaissance/tensor/tensor.h"

namespace tr::test {

// Weights and pictures made from their names, the same as
// tests/correction/generate/shared_values.py makes for PyTorch: models too large for a file are
// shared without one.

/// Element i is a hash of (name, i): an odd multiple of 2^-23 in (-1, 1).
Tensor shared_units(const std::string& name, const Shape& shape);
/// Of the parameter or buffer of that name (that of state_dict()), in the layout of memory.
Tensor shared_param(const std::string& name, const ParamSpec& spec);
/// Labels [n] below `classes`.
Tensor shared_labels(const std::string& name, std::int64_t n, std::int64_t classes);

}  // namespace tr::test

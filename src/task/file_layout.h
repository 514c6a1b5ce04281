// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/op_def.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// A parameter's bytes in the order of files (PyTorch's). A copy.
Tensor to_file_layout(const Tensor& memory, const ParamSpec& spec);

/// The inverse. @throws InvalidArgument  the shape or dtype is not the file's of this parameter.
Tensor from_file_layout(const Tensor& file, const ParamSpec& spec);

/// Shape that the parameter has in files.
Shape file_shape(const ParamSpec& spec);

}  // namespace tr

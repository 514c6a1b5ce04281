// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks and costs that the op definitions share. Messages follow docs: what has which value, what
// was expected, why.

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "graph/computation_graph.h"
#include "graph/op_def.h"

namespace tr::ops {

using Types = std::span<const TensorType>;
using Ids = std::span<const TensorId>;
using CostRule = std::function<Cost(const Attrs&, Types in, Types out)>;

/// "x has dtype int32, expected fp32, fp16 or bf16"
void check_floating(std::string_view name, const TensorType& type);
/// "bias has dtype fp16, expected fp32 (why)"
void check_dtype(std::string_view name, const TensorType& type, DType expected,
                 std::string_view why);
/// "weight has shape [512], expected [768] (why)"
void check_shape(std::string_view name, const TensorType& type, const Shape& expected,
                 std::string_view why);
/// "x has shape [3, 4], expected [N, H, W, C]"; the axes name as many dimensions as are expected.
void check_rank(std::string_view name, const TensorType& type, int rank, std::string_view axes);
/// The tensor is one number of that dtype.
void check_scalar(std::string_view name, const TensorType& type, DType dtype);
/// Same shape and dtype. "saved has type fp16 [4], expected fp32 [4] (that of dy)"
void check_same(std::string_view name, const TensorType& type, const TensorType& expected,
                std::string_view why);

/// The attribute "eps" of a norm is positive and finite as fp32, in which kernels add it.
void check_eps(const Attrs& attrs);

/// Whether an optional input is there: not left out, and not the rank-0 stand-in of a missing one.
bool given(Types in, std::size_t index);
bool given(const std::vector<TensorId>& in, std::size_t index);

/// Everything read and written once; `flops` operations an element of the first output. Inputs from
/// `type_only_from` on are not read.
CostRule cost_per_element(int flops, int type_only_from = -1);
/// As above, an element of input `index`.
CostRule cost_per_input_element(int flops, int index = 0);
/// Bytes in and out.
std::int64_t bytes_moved(Types in, Types out);

/// Axis `axis` of a tensor of that rank, counted from the back if negative.
/// @throws InvalidArgument  out of range.
int normalised_axis(std::int64_t axis, const Shape& shape);

}  // namespace tr::ops

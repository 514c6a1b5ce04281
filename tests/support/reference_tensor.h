// SPDX-License-Identifier: Apache-2.0
#pragma once

// References in double of the ops on whole tensors, as plain as their definitions.

#include <functional>
#include <vector>

#include "support/reference.h"

namespace tr::test::ref {

/// The coordinates of element `flat`.
std::vector<std::int64_t> coordinates(const Shape& shape, std::int64_t flat);
/// The element at coordinates; axes of length 1 and axes missing at the front are repeated.
double at(const Array& x, const std::vector<std::int64_t>& coordinates);
/// The shape that both become by repeating axes of length 1.
Shape broadcast_shape(const Shape& a, const Shape& b);
/// f of each pair of elements, broadcast.
Array combine(const Array& a, const Array& b, const std::function<double(double, double)>& f);
/// f of the elements that fall on each one of `small`, which is x with 1 on some axes; the result
/// has the shape `result`.
Array reduce(const Array& x, const Shape& small, const Shape& result,
             const std::function<double(const std::vector<double>&)>& f);
/// y[c] = x at source(c), for every place c of `shape`.
using SourceOf = std::function<std::vector<std::int64_t>(const std::vector<std::int64_t>&)>;
Array moved(const Array& x, const Shape& shape, const SourceOf& source);

}  // namespace tr::test::ref

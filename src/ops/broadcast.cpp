// SPDX-License-Identifier: Apache-2.0
#include "ops/broadcast.h"

#include <algorithm>
#include <vector>

#include "core/check.h"
#include "core/format.h"

namespace tr::ops {

bool broadcasts_to(const Shape& small, const Shape& large) {
  const int missing = large.rank() - small.rank();
  if (missing < 0) return false;
  for (int i = 0; i < small.rank(); ++i) {
    if (small[i] != 1 && small[i] != large[i + missing]) return false;
  }
  return true;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> dims(std::size_t(rank), 1);
  for (int back = 1; back <= rank; ++back) {
    const std::int64_t of_a = back <= a.rank() ? a[-back] : 1;
    const std::int64_t of_b = back <= b.rank() ? b[-back] : 1;
    TR_CHECK(of_a == of_b || of_a == 1 || of_b == 1,
             "b has shape {}, expected {} (that of a), or axes of size 1 in one of them", b, a);
    dims[std::size_t(rank - back)] = of_a == 1 ? of_b : of_a;
  }
  return Shape(dims);
}

TensorType broadcast_type(const TensorType& a, const TensorType& b) {
  check_floating("a", a);
  check_dtype("b", b, a.dtype, "that of a");
  return {broadcast_shape(a.shape, b.shape), a.dtype};
}

}  // namespace tr::ops

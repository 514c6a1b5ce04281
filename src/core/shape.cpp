// SPDX-License-Identifier: Apache-2.0
#include "renaissance/core/shape.h"

#include <vector>

#include "core/check.h"
#include "core/format.h"
#include "core/most_elements.h"

namespace tr {
namespace {

std::string list(std::span<const std::int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", "));
}

int wrapped(const Shape& shape, int index) {
  const int positive = index < 0 ? index + shape.rank() : index;
  TR_CHECK(positive >= 0 && positive < shape.rank(),
           "shape {}: axis {} is out of range for rank {}", shape, index, shape.rank());
  return positive;
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> dims)
    : Shape(std::span<const std::int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(std::span<const std::int64_t> dims) {
  TR_CHECK(dims.size() <= std::size_t(kMaxRank), "shape has rank {}, at most {} is possible",
           dims.size(), kMaxRank);
  bool has_zero = false;
  for (const std::int64_t d : dims) {
    TR_CHECK(d >= 0, "shape {} has the negative dimension {}", list(dims), d);
    has_zero |= d == 0;
  }
  std::int64_t count = 1;
  for (const std::int64_t d : dims) {
    // With a zero among them the product is 0; each dimension alone must still be sane.
    TR_CHECK(d == 0 || (has_zero ? d <= kMostElements : count <= kMostElements / d),
             "shape {} has more than 2^47 elements, which no memory holds", list(dims));
    count = has_zero ? 0 : count * d;
    dims_[std::size_t(rank_++)] = d;
  }
}

std::int64_t Shape::dim(int index) const { return dims_[std::size_t(wrapped(*this, index))]; }

std::int64_t Shape::num_elements() const {
  std::int64_t count = 1;
  for (const std::int64_t d : dims()) {
    if (d == 0) return 0;
    count *= d;
  }
  return count;
}

Shape Shape::with_dim(int index, std::int64_t value) const {
  std::vector<std::int64_t> changed(dims().begin(), dims().end());
  changed[std::size_t(wrapped(*this, index))] = value;
  return Shape(std::span<const std::int64_t>(changed));
}

Shape Shape::drop_first() const {
  TR_CHECK(rank_ > 0, "shape []: a scalar has no axis to drop");
  return Shape(dims().subspan(1));
}

Shape Shape::drop_last() const {
  TR_CHECK(rank_ > 0, "shape []: a scalar has no axis to drop");
  return Shape(dims().first(std::size_t(rank_ - 1)));
}

Shape Shape::prepend(std::int64_t value) const {
  std::vector<std::int64_t> longer{value};
  longer.insert(longer.end(), dims().begin(), dims().end());
  return Shape(std::span<const std::int64_t>(longer));
}

std::string Shape::str() const { return list(dims()); }

std::string to_string(const TensorType& type) {
  return fmt::format("{} {}", type.dtype, type.shape);
}

}  // namespace tr

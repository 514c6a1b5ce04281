// SPDX-License-Identifier: Apache-2.0
#include "support/reference_tensor.h"

#include <algorithm>

namespace tr::test::ref {

std::vector<std::int64_t> coordinates(const Shape& shape, std::int64_t flat) {
  std::vector<std::int64_t> place(std::size_t(shape.rank()));
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    place[std::size_t(axis)] = flat % shape[axis];
    flat /= shape[axis];
  }
  return place;
}

double at(const Array& x, const std::vector<std::int64_t>& coordinates) {
  const int rank = x.shape.rank();
  std::int64_t flat = 0;
  for (int axis = 0; axis < rank; ++axis) {
    const std::size_t from = coordinates.size() - std::size_t(rank - axis);
    flat = flat * x.shape[axis] + (x.shape[axis] == 1 ? 0 : coordinates[from]);
  }
  return x[flat];
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> dims(std::size_t(std::max(a.rank(), b.rank())));
  for (int back = 1; back <= int(dims.size()); ++back) {
    const std::int64_t of_a = back <= a.rank() ? a[-back] : 1;
    dims[dims.size() - std::size_t(back)] = of_a != 1 || back > b.rank() ? of_a : b[-back];
  }
  return Shape(dims);
}

Array combine(const Array& a, const Array& b, const std::function<double(double, double)>& f) {
  Array y(broadcast_shape(a.shape, b.shape));
  for (std::int64_t i = 0; i < y.shape.num_elements(); ++i) {
    const auto place = coordinates(y.shape, i);
    y[i] = f(at(a, place), at(b, place));
  }
  return y;
}

Array reduce(const Array& x, const Shape& small, const Shape& result,
             const std::function<double(const std::vector<double>&)>& f) {
  std::vector<std::vector<double>> groups(std::size_t(small.num_elements()));
  for (std::int64_t i = 0; i < x.shape.num_elements(); ++i) {
    const auto place = coordinates(x.shape, i);
    std::int64_t flat = 0;
    for (int axis = 0; axis < small.rank(); ++axis) {
      flat = flat * small[axis] + (small[axis] == 1 ? 0 : place[std::size_t(axis)]);
    }
    groups[std::size_t(flat)].push_back(x[i]);
  }
  Array y(result);
  for (std::size_t o = 0; o < groups.size(); ++o) y.values[o] = f(groups[o]);
  return y;
}

Array moved(const Array& x, const Shape& shape, const SourceOf& source) {
  Array y(shape);
  for (std::int64_t i = 0; i < shape.num_elements(); ++i)
    y[i] = at(x, source(coordinates(shape, i)));
  return y;
}

}  // namespace tr::test::ref

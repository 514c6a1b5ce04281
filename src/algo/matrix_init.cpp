// SPDX-License-Identifier: Apache-2.0
#include "algo/matrix_init.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/check.h"

namespace tr {
namespace {

constexpr std::uint32_t kThinOutBlock = 0x80000000u;  // normal numbers take the first few

/// Eight running sums, added in their order.
double dot(const double* a, const double* b, std::int64_t n) {
  constexpr std::int64_t kLanes = 8;
  double sums[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t k = 0; k < kLanes; ++k) sums[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return std::accumulate(sums, sums + kLanes, 0.0);
}

/// Takes from `vector` its parts along `count` orthonormal ones.
void remove_parts(double* vector, const double* others, std::int64_t count, std::int64_t length) {
  for (std::int64_t k = 0; k < count; ++k) {
    const double* other = others + k * length;
    const double part = dot(vector, other, length);
    for (std::int64_t i = 0; i < length; ++i) vector[i] -= part * other[i];
  }
}

}  // namespace

MatrixSize matrix_size(const Shape& shape) {
  return {shape[0], shape.num_elements() / std::max<std::int64_t>(1, shape[0])};
}

void orthogonalise(float* matrix, MatrixSize size, float scale) {
  const bool wide = size.rows < size.columns;
  const std::int64_t count = std::min(size.rows, size.columns);
  const std::int64_t length = std::max(size.rows, size.columns);
  const auto element = [&](std::int64_t vector, std::int64_t i) -> float& {
    return wide ? matrix[vector * size.columns + i] : matrix[i * size.columns + vector];
  };
  std::vector<double> vectors(std::size_t(count * length));
  for (std::int64_t v = 0; v < count; ++v) {
    double* vector = vectors.data() + v * length;
    for (std::int64_t i = 0; i < length; ++i) vector[i] = double(element(v, i));
    remove_parts(vector, vectors.data(), v, length);
    remove_parts(vector, vectors.data(), v, length);
    const double norm = std::sqrt(dot(vector, vector, length));
    TR_CHECK(norm > 0, "orthogonal: row or column {} depends on those before it", v);
    for (std::int64_t i = 0; i < length; ++i) vector[i] /= norm;
    for (std::int64_t i = 0; i < length; ++i) element(v, i) = float(double(scale) * vector[i]);
  }
}

void fill_dirac(float* weight, const Shape& shape, std::int64_t groups) {
  const std::int64_t outputs = shape[0], inputs = shape[shape.rank() - 1];
  TR_CHECK(outputs % groups == 0, "dirac: {} outputs do not divide into {} groups", outputs,
           groups);
  std::fill_n(weight, shape.num_elements(), 0.0f);
  std::int64_t centre = 0;  // of the window
  std::int64_t window = 1;
  for (int axis = 1; axis + 1 < shape.rank(); ++axis) {
    centre = centre * shape[axis] + shape[axis] / 2;
    window *= shape[axis];
  }
  const std::int64_t each = outputs / groups;
  for (std::int64_t group = 0; group < groups; ++group) {
    for (std::int64_t d = 0; d < std::min(each, inputs); ++d) {
      weight[((group * each + d) * window + centre) * inputs + d] = 1;
    }
  }
}

void thin_out(float* matrix, MatrixSize size, float sparsity, DrawAddress address) {
  const auto zeros = std::int64_t(std::ceil(double(sparsity) * double(size.rows)));
  std::vector<std::uint32_t> draws(std::size_t(size.rows));
  std::vector<std::int64_t> order(std::size_t(size.rows));
  for (std::int64_t column = 0; column < size.columns; ++column) {
    for (std::int64_t row = 0; row < size.rows; ++row) {
      address.b = std::uint64_t(row * size.columns + column);
      draws[std::size_t(row)] = address.block(kThinOutBlock).v[0];
    }
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return draws[std::size_t(a)] < draws[std::size_t(b)];
    });
    for (std::int64_t k = 0; k < std::min(zeros, size.rows); ++k) {
      matrix[order[std::size_t(k)] * size.columns + column] = 0;
    }
  }
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/inverse_root.h"

#include <cmath>
#include <cstring>

#include "backend/preconditioner_scale.h"

namespace tr::cpu {
namespace {

constexpr int kMostSteps = 40;          // 16 or so, and 5, for a ridge of 1e-6
constexpr float kNearIdentity = 1e-4f;  // the step after it leaves less than fp32 can tell

void set_identity(const KernelArgs& args, float* x, std::int64_t side, float scale) {
  for_chunks(args.pool(), side, rows_per_task(side), [&](std::int64_t first, std::int64_t last) {
    std::memset(x + first * side, 0, std::size_t((last - first) * side) * sizeof(float));
    for (std::int64_t i = first; i < last; ++i) x[i * side + i] = scale;
  });
}

/// The largest |m - I|; `partial` has one place a row chunk.
float distance_from_identity(const KernelArgs& args, const float* m, std::int64_t side,
                             double* partial) {
  const std::int64_t rows = rows_per_task(side);
  for_chunks(args.pool(), side, rows, [&](std::int64_t first, std::int64_t last) {
    float largest = 0;
    for (std::int64_t r = first; r < last; ++r) {
      for (std::int64_t c = 0; c < side; ++c) {
        const float off = std::fabs(m[r * side + c] - (r == c ? 1.0f : 0.0f));
        largest = off > largest ? off : largest;
      }
    }
    partial[first / rows] = double(largest);
  });
  return float(*std::max_element(partial, partial + ceil_div(side, rows)));
}

/// t = 5/4 I - 1/4 m
void make_step(const KernelArgs& args, const float* m, std::int64_t side, float* t) {
  for_chunks(args.pool(), side, rows_per_task(side), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first * side; i < last * side; ++i) t[i] = -0.25f * m[i];
    for (std::int64_t r = first; r < last; ++r) t[r * side + r] += 1.25f;
  });
}

}  // namespace

void InverseFourthRoot::run(const KernelArgs& args, const Products& products, const float* matrix,
                            std::int64_t side, float ridge, float* root, float* room,
                            double* partial) {
  const std::int64_t count = side * side;
  const MatmulShape shape{side, side, side, false, false};
  float *m = room, *t = m + count, *other = t + count, *x = other + count;
  const double norm = std::sqrt(square_sum(args, matrix, count, partial));
  if (norm == 0) return set_identity(args, root, side, 1);
  std::memcpy(m, matrix, std::size_t(count) * sizeof(float));
  const float added = preconditioner::diagonal(double(ridge), norm, side);
  for (std::int64_t i = 0; i < side; ++i) m[i * side + i] += added;
  const double z = 2.5 / std::sqrt(square_sum(args, m, count, partial));
  add_scaled(args, m, float(z), m, 0, count);
  set_identity(args, x, side, float(std::pow(z, 0.25)));
  bool near = false;
  for (int step = 0; step < kMostSteps && !near; ++step) {
    near = distance_from_identity(args, m, side, partial) < kNearIdentity;
    make_step(args, m, side, t);
    products.run(args, shape, x, t, other);
    std::swap(x, other);
    products.run(args, shape, t, t, other);
    products.run(args, shape, other, other, t);
    products.run(args, shape, t, m, other);
    std::swap(m, other);
  }
  std::memcpy(root, x, std::size_t(count) * sizeof(float));
}

}  // namespace tr::cpu

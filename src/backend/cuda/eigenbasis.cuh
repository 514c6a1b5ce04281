// SPDX-License-Identifier: Apache-2.0
#pragma once

// New bases of all covariances of a group in one cooperative launch: the Q of the QR decomposition
// of (L + ridge |L| I) times the old basis, once, or as often as a first basis takes. While the
// blocks apply the reflections of one panel to what is behind it, the one that has the next panel
// makes its reflections.

#include "backend/cuda/grid_barrier.cuh"
#include "backend/cuda/householder_qr.cuh"
#include "backend/cuda/matrix_products.cuh"
#include "backend/preconditioner_scale.h"

namespace tr::cuda::optimizer {

constexpr int kFirstIterations = 10;  // that the first basis takes from the identity

/// A basis to be made. The room, from `room` on in the workspace, holds S, then its panels.
struct BasisJob {
  std::int64_t covariance, basis;  // in the state
  std::int64_t room;
  std::int32_t side, matrix;
  std::int64_t first_tile;   // of S
  std::int64_t first_strip;  // of kPanel columns

  __host__ __device__ std::int64_t elements() const { return std::int64_t(side) * side; }
  __host__ __device__ int num_strips() const { return (side + qr::kPanel - 1) / qr::kPanel; }
};

class BasisSolver {
 public:
  using Shape = fp32::Shape<4, 4>;
  static constexpr int kSide = Shape::kM;
  static_assert(Shape::kThreads == qr::kThreads);

  __device__ BasisSolver(const BasisJob* jobs, int count, const MatrixStep* steps, Homes homes,
                         double* squares, double ridge, int ticket, float* shared,
                         std::int64_t shared_floats)
      : jobs_(jobs),
        count_(count),
        steps_(steps),
        homes_(homes),
        squares_(squares),
        ridge_(ridge),
        barrier_(ticket),
        shared_(shared),
        shared_floats_(shared_floats) {}

  __device__ void run() {
    const int times = times_due();
    if (times == 0) return;
    for (int i = int(blockIdx.x); i < count_ * kNormParts; i += int(gridDim.x))
      begin(i / kNormParts, i % kNormParts);
    barrier_.wait();
    for (int time = 0; time < times; ++time) iterate(time);
    barrier_.leave();
  }

 private:
  __device__ bool has(const BasisJob& job, int flag) const {
    return (steps_[job.matrix].flags & flag) != 0;
  }
  /// Iterations of the basis that takes most.
  __device__ int times_due() const {
    bool any = false, first = false;
    for (int j = int(threadIdx.x); j < count_; j += Shape::kThreads) {
      any = any || has(jobs_[j], kRefreshes);
      first = first || has(jobs_[j], kBegins);
    }
    any = __syncthreads_or(any) != 0;
    first = __syncthreads_or(first) != 0;
    return first ? kFirstIterations : any ? 1 : 0;
  }

  /// A share of the covariance's sum of squares; a first basis is the identity.
  __device__ void begin(int j, int part) const {
    const BasisJob& job = jobs_[j];
    if (!has(job, kRefreshes)) return;
    const float* matrix = homes_.state + job.covariance;
    float* basis = homes_.state + job.basis;
    const bool begins = has(job, kBegins);
    const std::int64_t end = job.elements() * (part + 1) / kNormParts;
    double sum = 0;
    for (std::int64_t i = job.elements() * part / kNormParts + threadIdx.x; i < end;
         i += Shape::kThreads) {
      sum += double(matrix[i]) * double(matrix[i]);
      if (begins) basis[i] = i % (job.side + 1) == 0 ? 1.0f : 0.0f;
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) squares_[j * kNormParts + part] = sum;
    __syncthreads();
  }

  /// Calls f(job, number, norm) for what has part in the iteration, of `per_job(job)` items that
  /// begin at `first`.
  template <typename F>
  __device__ void for_items(int time, std::int64_t BasisJob::*first, std::int64_t all,
                            F&& f) const {
    int known = -1;
    double norm = 0;
    for (std::int64_t i = blockIdx.x; i < all; i += gridDim.x) {
      const int j = entry_of(jobs_, count_, first, i);
      const BasisJob& job = jobs_[j];
      if (!has(job, kRefreshes) || (time > 0 && !has(job, kBegins))) continue;
      if (j != known) norm = norm_of(squares_ + j * kNormParts);
      known = j;
      if (norm > 0) f(job, int(i - job.*first), norm);
    }
  }
  template <typename F>
  __device__ void for_strips(int time, F&& f) const {
    const BasisJob& behind = jobs_[count_ - 1];
    for_items(time, &BasisJob::first_strip, behind.first_strip + behind.num_strips(), f);
  }

  __device__ float* matrix_of(const BasisJob& job) const { return homes_.workspace + job.room; }
  __device__ qr::Panel panel_of(const BasisJob& job, int number) const {
    float* panels = matrix_of(job) + (job.elements() + 63) / 64 * 64;
    return qr::panel_at(panels, job.side, number);
  }

  __device__ void iterate(int time) {
    multiply(time);
    barrier_.wait();
    int most = 0;
    for (int j = 0; j < count_; ++j) most = max(most, jobs_[j].num_strips());
    for (int panel = 0; panel < most; ++panel) {
      for_strips(time, [&](const BasisJob& job, int strip, double) { reflect(job, strip, panel); });
      barrier_.wait();
    }
    for_strips(time, [&](const BasisJob& job, int strip, double) { make_basis(job, strip); });
    barrier_.wait();
  }

  /// S = L Q + ridge |L| Q
  __device__ void multiply(int time) const {
    const BasisJob& behind = jobs_[count_ - 1];
    const std::int64_t down = (behind.side + kSide - 1) / kSide;
    const auto tile = [&](const BasisJob& job, int tile, double norm) {
      const int n = job.side, across = (n + kSide - 1) / kSide;
      const float* q = homes_.state + job.basis;
      const float scale = preconditioner::qr_scale(norm);
      const float ridge = scale * preconditioner::diagonal(ridge_, norm, n);
      float* s = matrix_of(job);
      const fp32::Product product{
          {homes_.state + job.covariance, n}, {q, n}, n, n, n, false, false};
      fp32::run_tile<Shape>(shared_, product, tile / across * kSide, tile % across * kSide,
                            [&](int row, int column, float sum) {
                              const std::int64_t at = std::int64_t(row) * n + column;
                              s[at] = scale * sum + ridge * q[at];
                            });
    };
    for_items(time, &BasisJob::first_tile, behind.first_tile + down * down, tile);
  }

  /// The last panel's reflections on a strip behind it; the strip that is the next panel becomes
  /// its reflections.
  __device__ void reflect(const BasisJob& job, int strip, int panel) const {
    if (strip < panel) return;
    const std::int64_t n = job.side, column = std::int64_t(strip) * qr::kPanel;
    float* s = matrix_of(job);
    if (panel > 0) {
      const qr::Panel last = panel_of(job, panel - 1);
      const int width = int(n - column < qr::kPanel ? n - column : qr::kPanel);
      qr::apply(last, true, s + last.begin * n + column, n, width, shared_);
    }
    if (strip == panel) qr::factor(panel_of(job, panel), s, n, shared_, shared_floats_);
  }

  /// Columns of Q: all reflections on those of the identity, the last ones first. Reflections of
  /// later panels leave them alone.
  __device__ void make_basis(const BasisJob& job, int strip) const {
    const std::int64_t n = job.side, column = std::int64_t(strip) * qr::kPanel;
    const int width = int(n - column < qr::kPanel ? n - column : qr::kPanel);
    float* q = homes_.state + job.basis + column;
    for (std::int64_t r = qr::warp(); r < n; r += qr::kWarps) {
      if (qr::lane() < width) q[r * n + qr::lane()] = r == column + qr::lane() ? 1.0f : 0.0f;
    }
    __syncthreads();
    for (int p = strip; p >= 0; --p) {
      const qr::Panel panel = panel_of(job, p);
      qr::apply(panel, false, q + panel.begin * n, n, width, shared_);
    }
  }

  const BasisJob* jobs_;
  int count_;
  const MatrixStep* steps_;
  Homes homes_;
  double* squares_;
  double ridge_;
  GridBarrier barrier_;
  float* shared_;
  std::int64_t shared_floats_;
};

static __global__ __launch_bounds__(BasisSolver::Shape::kThreads,
                                    1) void bases_kernel(const BasisJob* jobs, int count,
                                                         const MatrixStep* steps, Homes homes,
                                                         double* squares, double ridge, int ticket,
                                                         std::int64_t shared_floats) {
  extern __shared__ __align__(16) float basis_stages[];
  BasisSolver(jobs, count, steps, homes, squares, ridge, ticket, basis_stages, shared_floats).run();
}

}  // namespace tr::cuda::optimizer

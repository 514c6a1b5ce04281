// SPDX-License-Identifier: Apache-2.0
#pragma once

// Inverse fourth roots of all covariances of a group in one cooperative launch, by the coupled
// Newton iteration of backend/cpu/inverse_root.h:
//
//   A = L + ridge |L| I;  z = 5 / (2 |A|);  X = z^(1/4) I;  M = z A
//   T = 5/4 I - 1/4 M;  X = X T;  M = T^4 M      until M is I, nearly
//
// All of these are symmetric: of each product the tiles up to the diagonal are made, and written
// twice. A root ends by itself; what it does depends on its own elements alone.

#include "backend/cuda/grid_barrier.cuh"
#include "backend/cuda/matrix_products.cuh"
#include "backend/preconditioner_scale.h"

namespace tr::cuda::optimizer {

constexpr int kMostIterations = 40;     // 16 or so, and 5, for a ridge of 1e-6
constexpr float kNearIdentity = 1e-4f;  // the step after it leaves less than fp32 can tell

/// A root to be made. The room, from `room` on in the workspace, holds six matrices: X and the next
/// X, then M, T and two more that change places with them.
struct RootJob {
  std::int64_t covariance, root;  // in the state
  std::int64_t room;
  std::int32_t side, matrix;
  std::int64_t first_tile;  // of its triangle

  __device__ std::int64_t elements() const { return std::int64_t(side) * side; }
};
constexpr int kRootMatrices = 6;

/// What the blocks tell each other about a root: sums of squares, then the largest |M - I| of each
/// tile.
struct RootNotes {
  double* squares;   // 2 * kNormParts a root
  float* distances;  // by tile
  int* last;         // by root: its last iteration, once it is known
};

class RootSolver {
 public:
  using Shape = ProductShape64;
  static constexpr int kSide = Shape::kM;

  __device__ RootSolver(const RootJob* jobs, int count, const MatrixStep* steps, Homes homes,
                        RootNotes notes, double ridge, int ticket, float* shared)
      : jobs_(jobs),
        count_(count),
        steps_(steps),
        homes_(homes),
        notes_(notes),
        ridge_(ridge),
        barrier_(ticket),
        shared_(shared) {}

  __device__ void run() {
    if (!any_due()) return;
    for_parts([&](int job, int part) { begin(job, part); });
    barrier_.wait();
    for_parts([&](int job, int part) { add_ridge(job, part); });
    barrier_.wait();
    for_parts([&](int job, int part) { scale(job, part); });
    barrier_.wait();
    for (int i = 0; i < kMostIterations && iterate(i); ++i) {
    }
    barrier_.leave();
  }

 private:
  /// Matrices of a root's room at iteration i.
  struct Room {
    float *x, *next_x, *m, *t, *power, *next_t;

    __device__ Room(float* at, std::int64_t elements, int i)
        : x(at + i % 2 * elements),
          next_x(at + (i + 1) % 2 * elements),
          m(at + (2 + i % 2 * 2) * elements),
          t(m + elements),
          power(at + (4 - i % 2 * 2) * elements),
          next_t(power + elements) {}
  };

  __device__ Room room(const RootJob& job, int i) const {
    return Room(homes_.workspace + job.room, job.elements(), i);
  }
  __device__ bool due(const RootJob& job) const {
    return (steps_[job.matrix].flags & kRefreshes) != 0;
  }
  __device__ bool any_due() const {
    bool any = false;
    for (int j = int(threadIdx.x); j < count_; j += Shape::kThreads) any = any || due(jobs_[j]);
    return __syncthreads_or(any) != 0;
  }
  __device__ int num_tiles(const RootJob& job) const {
    const int down = (job.side + kSide - 1) / kSide;
    return down * (down + 1) / 2;
  }

  /// Calls f(job, part) for all parts of all roots that are due.
  template <typename F>
  __device__ void for_parts(F&& f) const {
    for (int i = int(blockIdx.x); i < count_ * kNormParts; i += int(gridDim.x)) {
      const int j = i / kNormParts;
      if (due(jobs_[j])) f(j, i % kNormParts);
    }
  }
  /// f(i) for the elements of a part, by all threads.
  template <typename F>
  __device__ void for_elements(const RootJob& job, int part, F&& f) const {
    const std::int64_t all = job.elements(), end = all * (part + 1) / kNormParts;
    for (std::int64_t i = all * part / kNormParts + threadIdx.x; i < end; i += Shape::kThreads)
      f(i);
  }
  /// The parts of a sum of squares, of L or of A.
  __device__ double* squares(int job, int which) const {
    return notes_.squares + (2 * job + which) * kNormParts;
  }
  /// Its root, in all threads.
  __device__ double norm(int job, int which) const { return norm_of(squares(job, which)); }
  __device__ void leave_square(int job, int which, int part, double sum) const {
    sum = block_sum(sum);
    if (threadIdx.x == 0) squares(job, which)[part] = sum;
    __syncthreads();
  }

  __device__ void begin(int j, int part) const {
    const float* matrix = homes_.state + jobs_[j].covariance;
    double sum = 0;
    for_elements(jobs_[j], part,
                 [&](std::int64_t i) { sum += double(matrix[i]) * double(matrix[i]); });
    leave_square(j, 0, part, sum);
    if (part == 0 && threadIdx.x == 0) notes_.last[j] = kMostIterations;
  }

  __device__ void add_ridge(int j, int part) const {
    const RootJob& job = jobs_[j];
    const double norm = this->norm(j, 0);
    if (norm == 0) {  // no gradient yet: the root is I
      float* root = homes_.state + job.root;
      for_elements(job, part,
                   [&](std::int64_t i) { root[i] = i % (job.side + 1) == 0 ? 1.0f : 0.0f; });
      if (part == 0 && threadIdx.x == 0) notes_.last[j] = -1;
      return;
    }
    const float* matrix = homes_.state + job.covariance;
    const float ridge = preconditioner::diagonal(ridge_, norm, job.side);
    const Room room = this->room(job, 0);
    double sum = 0;
    for_elements(job, part, [&](std::int64_t i) {
      const float m = matrix[i] + (i % (job.side + 1) == 0 ? ridge : 0.0f);
      room.m[i] = m;
      sum += double(m) * double(m);
    });
    leave_square(j, 1, part, sum);
  }

  __device__ void scale(int j, int part) const {
    if (last(j) < 0) return;
    const RootJob& job = jobs_[j];
    const double z = 2.5 / norm(j, 1);
    const auto scale = float(z), diagonal = float(pow(z, 0.25));
    const Room room = this->room(job, 0);
    for_elements(job, part, [&](std::int64_t i) {
      const bool on_diagonal = i % (job.side + 1) == 0;
      const float m = scale * room.m[i];
      room.m[i] = m;
      room.t[i] = (on_diagonal ? 1.25f : 0.0f) - 0.25f * m;
      room.x[i] = on_diagonal ? diagonal : 0.0f;
    });
  }

  /// Calls f(job, tile, time) for all tiles of all roots, `times` over.
  template <typename F>
  __device__ void for_tiles(int times, F&& f) const {
    const RootJob& behind = jobs_[count_ - 1];
    const std::int64_t all = behind.first_tile + num_tiles(behind);
    for (std::int64_t i = blockIdx.x; i < times * all; i += gridDim.x) {
      const int j = entry_of(jobs_, count_, &RootJob::first_tile, i % all);
      f(j, int(i % all - jobs_[j].first_tile), int(i / all));
    }
  }

  /// The product of two matrices at a tile; store(i, sum), also for the mirrored element.
  template <typename Store>
  __device__ void multiply(const RootJob& job, int tile, const float* a, const float* b,
                           Store&& store) const {
    const TriangleTile at(tile);
    const bool mirrored = at.row != at.column;
    const int n = job.side;
    const fp32::Product product{{a, n}, {b, n}, n, n, n, false, false};
    fp32::run_tile<Shape>(shared_, product, at.row * kSide, at.column * kSide,
                          [&](int row, int column, float sum) {
                            store(std::int64_t(row) * n + column, sum);
                            if (mirrored) store(std::int64_t(column) * n + row, sum);
                          });
  }

  __device__ int last(int j) const { return *static_cast<const volatile int*>(notes_.last + j); }

  /// How iteration i finds root j; by all threads. A block may see what another has just written:
  /// it would come to the same.
  enum class Phase { DONE, LAST, GOES_ON };
  __device__ Phase phase(int j, int i) const {
    // One thread looks: another block may write meanwhile, and all threads must go the same way.
    __shared__ int seen;
    __syncthreads();
    if (threadIdx.x == 0) seen = this->last(j);
    __syncthreads();
    const int last = seen;
    if (last < i) return Phase::DONE;
    if (last == i || i == kMostIterations - 1) return Phase::LAST;
    if (i == 0) return Phase::GOES_ON;
    const float* distances = notes_.distances + jobs_[j].first_tile;
    bool far = false;
    for (int t = int(threadIdx.x); t < num_tiles(jobs_[j]); t += Shape::kThreads)
      far = far || !(distances[t] < kNearIdentity);
    return __syncthreads_or(far) != 0 ? Phase::GOES_ON : Phase::LAST;
  }

  __device__ void step_root(int j, int tile, int kind, int i) const {
    const Phase phase = this->phase(j, i);
    if (phase == Phase::DONE || (kind == 1 && phase == Phase::LAST)) return;
    const RootJob& job = jobs_[j];
    const Room room = this->room(job, i);
    if (kind == 1) {
      multiply(job, tile, room.t, room.t, [&](std::int64_t e, float sum) { room.power[e] = sum; });
      return;
    }
    float* to = phase == Phase::LAST ? homes_.state + job.root : room.next_x;
    multiply(job, tile, room.x, room.t, [&](std::int64_t e, float sum) { to[e] = sum; });
    if (phase == Phase::LAST && tile == 0 && threadIdx.x == 0) notes_.last[j] = i;
  }

  /// M of the next iteration, T of it, and how far M is from I.
  __device__ void step_matrix(int j, int tile, int i) const {
    __shared__ unsigned shared_distance;
    const RootJob& job = jobs_[j];
    const Room room = this->room(job, i);
    if (threadIdx.x == 0) shared_distance = 0;
    float distance = 0;
    multiply(job, tile, room.t, room.m, [&](std::int64_t e, float sum) {
      const float one = e % (job.side + 1) == 0 ? 1.0f : 0.0f;
      room.power[e] = sum;
      room.next_t[e] = 1.25f * one - 0.25f * sum;
      distance = fmaxf(distance, fabsf(sum - one));
    });
    atomicMax(&shared_distance, __float_as_uint(distance));  // of bits: in any order the same
    __syncthreads();
    if (threadIdx.x == 0)
      notes_.distances[job.first_tile + tile] = __uint_as_float(shared_distance);
    __syncthreads();
  }

  /// One iteration of all roots; false: it was the last one.
  __device__ bool iterate(int i) {
    for_tiles(2, [&](int j, int tile, int kind) {
      if (due(jobs_[j])) step_root(j, tile, kind, i);
    });
    barrier_.wait();
    const auto goes_on = [&](int j) { return due(jobs_[j]) && last(j) > i; };
    bool any = false;
    for (int j = int(threadIdx.x); j < count_; j += Shape::kThreads) any = any || goes_on(j);
    if (__syncthreads_or(any) == 0) return false;
    for_tiles(1, [&](int j, int tile, int) {
      if (!goes_on(j)) return;
      const Room room = this->room(jobs_[j], i);
      multiply(jobs_[j], tile, room.power, room.power,
               [&](std::int64_t e, float sum) { room.t[e] = sum; });
    });
    barrier_.wait();
    for_tiles(1, [&](int j, int tile, int) {
      if (goes_on(j)) step_matrix(j, tile, i);
    });
    barrier_.wait();
    return true;
  }

  const RootJob* jobs_;
  int count_;
  const MatrixStep* steps_;
  Homes homes_;
  RootNotes notes_;
  double ridge_;
  GridBarrier barrier_;
  float* shared_;
};

static __global__ __launch_bounds__(RootSolver::Shape::kThreads) void roots_kernel(
    const RootJob* jobs, int count, const MatrixStep* steps, Homes homes, RootNotes notes,
    double ridge, int ticket) {
  extern __shared__ __align__(16) float root_stages[];
  RootSolver(jobs, count, steps, homes, notes, ridge, ticket, root_stages).run();
}

}  // namespace tr::cuda::optimizer

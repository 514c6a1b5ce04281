// SPDX-License-Identifier: Apache-2.0
#pragma once

// What Shampoo and SOAP share on a GPU. A step is a fixed sequence of launches over all matrices of
// a group; which of them move, and whose roots or bases are due, stands in a table that the first
// launch writes, and the blocks of the others return where it says so. Dense copies of gradients
// and momenta lie in the workspace, products of all of a group's matrices are one launch.

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cuda/device_table.h"
#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/optimizer_pass.cuh"
#include "backend/cuda/workspace_layout.h"
#include "ops/preconditioner.h"
#include "renaissance/graph/attrs.h"

namespace tr::cuda::optimizer {

/// Behind the two moments: what is kept of the matrices, then the copy of the weights.
constexpr int kStateInput = kFirstMoment + 2;
constexpr int kNumStates = 3;

/// Of dense copies, and of what roots or bases take, unless a single matrix takes more.
constexpr std::int64_t kGroupBytes = 256 << 20;

struct PreconditionerSettings {
  double beta1, beta2;
  float beta, eps;
  double ridge;
  std::int64_t every;

  explicit PreconditionerSettings(const Attrs& a)
      : beta1(a.f64("beta1")),
        beta2(a.f64("beta2")),
        beta(a.f32("preconditioner_beta")),
        eps(a.f32("adam_eps")),
        ridge(double(a.f32("ridge"))),
        every(a.i64("every")) {}
};

/// A matrix of a group. Offsets count floats, from the state's and the workspace's beginning.
struct MatrixEntry {
  std::int64_t begin, count;
  std::int64_t state;
  std::int64_t dense;        // in each of the dense copies
  std::int64_t first_chunk;  // of passes over elements
};

/// What a matrix does in this step.
enum MatrixFlag : std::int32_t { kActive = 1, kMoves = 2, kRefreshes = 4, kBegins = 8 };
struct MatrixStep {
  std::int32_t flags;
  float inv_correction1, inv_sqrt_correction2;
  float lr, keep;
  float length;  // what a step is multiplied with, beside lr
};

constexpr std::int64_t kChunk = 4096;  // elements of a block

/// Adam's element, as the CPU has it.
__device__ inline float adam_step(const MatrixStep& step, float eps, float m, float v) {
  return m * step.inv_correction1 / (sqrtf(v) * step.inv_sqrt_correction2 + eps);
}

/// Writes the table, and counts the step in each matrix's state. kBeginsFirst: a matrix's first
/// step only begins its state, and does not count.
template <bool kBeginsFirst>
__global__ __launch_bounds__(kThreads) void begin_step_kernel(StepInputs step,
                                                              PreconditionerSettings settings,
                                                              const MatrixEntry* matrices,
                                                              int count, float* state,
                                                              MatrixStep* steps) {
  const int i = int(blockIdx.x) * kThreads + int(threadIdx.x);
  if (i >= count) return;
  const MatrixEntry& matrix = matrices[i];
  MatrixStep own{};
  const int s = segment_at(step, matrix.begin);
  if (*step.found_inf == 0 && s < step.num_segments && step.segments[s].begin == matrix.begin &&
      step.segments[s].frozen == 0) {
    const std::int32_t seen = __float_as_int(state[matrix.state]);
    const bool begins = kBeginsFirst && seen == 0;
    const double t = kBeginsFirst ? seen : seen + 1;
    own.flags =
        kActive | (begins ? kBegins : kMoves) | (seen % settings.every == 0 ? kRefreshes : 0);
    own.inv_correction1 = float(1.0 / (1.0 - pow(settings.beta1, t)));
    own.inv_sqrt_correction2 = float(1.0 / sqrt(1.0 - pow(settings.beta2, t)));
    const SegmentRates rates = rates_of(step.segments[s], step_row(step));
    own.lr = rates.lr;
    own.keep = float(1.0 - double(rates.lr) * double(rates.decay));
    own.length = 1;
    state[matrix.state] = __int_as_float(seen + 1);
  }
  steps[i] = own;
}

/// The entry that holds item `i`: the last one that begins no later. Entries grow by `first`.
template <typename Entry, typename Number>
__device__ int entry_of(const Entry* entries, int count, Number Entry::*first, std::int64_t i) {
  int low = 0, high = count - 1;
  while (low < high) {
    const int middle = (low + high + 1) / 2;
    if (std::int64_t(entries[middle].*first) <= i) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// The part of a matrix that a block has in a pass over all elements of a group.
struct Share {
  int matrix;
  std::int64_t begin, end;  // elements of the matrix

  __device__ Share(const MatrixEntry* matrices, int count)
      : matrix(entry_of(matrices, count, &MatrixEntry::first_chunk, blockIdx.x)),
        begin((std::int64_t(blockIdx.x) - matrices[matrix].first_chunk) * kChunk),
        end(begin + kChunk < matrices[matrix].count ? begin + kChunk : matrices[matrix].count) {}
};

constexpr int kNormParts = 64;  // of a sum of squares over a matrix

/// The root of the sum of kNormParts parts, in all threads of a block.
__device__ inline double norm_of(const double* parts) {
  __shared__ double shared_norm;
  double sum = 0;
  for (int i = int(threadIdx.x); i < kNormParts; i += int(blockDim.x)) sum += parts[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) shared_norm = sqrt(sum);
  __syncthreads();
  const double result = shared_norm;
  __syncthreads();
  return result;
}

/// w = keep w - lr length u, `u` the dense steps.
template <typename T>
__global__ __launch_bounds__(kThreads) void end_step_kernel(Ranges<T> ranges,
                                                            const MatrixEntry* matrices, int count,
                                                            const MatrixStep* steps,
                                                            const float* u) {
  const Share share(matrices, count);
  const MatrixStep step = steps[share.matrix];
  if ((step.flags & kMoves) == 0) return;
  const MatrixEntry& matrix = matrices[share.matrix];
  const float length = step.lr * step.length;
  for (std::int64_t i = share.begin + threadIdx.x; i < share.end; i += kThreads) {
    const std::int64_t at = matrix.begin + i;
    const float w = ranges.weights[at] * step.keep - length * u[matrix.dense + i];
    ranges.weights[at] = w;
    if (ranges.weight_cast != nullptr) ranges.weight_cast[at] = from_float<T>(w);
  }
}

/// Matrices that are worked on together, from matrix `first` on.
struct MatrixGroup {
  std::vector<MatrixEntry> entries;
  std::int64_t elements = 0, num_chunks = 0;

  void add(const ops::Matrix& m, std::int64_t state) {
    entries.push_back({m.begin, m.elements(), state, elements, num_chunks});
    elements += ceil_div<std::int64_t>(m.elements(), 64) * 64;
    num_chunks += ceil_div(m.elements(), kChunk);
  }
  /// Of one dense copy.
  std::int64_t bytes() const { return elements * std::int64_t(sizeof(float)); }
};

/// A launch over all elements of a group, or over its matrices.
inline LaunchShape over_chunks(std::int64_t num_chunks) {
  LaunchShape shape;
  shape.grid.x = unsigned(num_chunks);
  shape.block.x = kThreads;
  return shape;
}

/// Runs `end_step_kernel` for the type of the weights' copy.
inline void end_step(const KernelArgs& args, const DeviceTable<MatrixEntry>& matrices,
                     std::int64_t num_chunks, const MatrixStep* steps, const float* u) {
  const int cast = kFirstMoment + kNumStates;
  const auto launch_as = [&](auto* copy) {
    using T = std::remove_pointer_t<decltype(copy)>;
    launch(args, over_chunks(num_chunks), end_step_kernel<T>, ranges_of<T>(args, 2, copy),
           matrices.data(), matrices.count(), steps, u);
  };
  if (!args.has_in(cast)) return launch_as(static_cast<__half*>(nullptr));
  if (args.in_type(cast).dtype == DType::FP16) return launch_as(args.state<__half>(cast));
  launch_as(args.state<__nv_bfloat16>(cast));
}

/// The launch of a kernel whose blocks wait for each other: as many as run at once, at most
/// `most`. Its other launches take no more than `most_bytes` of shared memory.
template <typename... Params>
LaunchShape cooperative_shape(void (*kernel)(Params...), int threads, std::int64_t shared_bytes,
                              std::int64_t most_bytes, std::int64_t most) {
  TR_CUDA(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(most_bytes)));
  int blocks = 0, device = 0, multiprocessors = 0;
  TR_CUDA(cudaGetDevice(&device));
  TR_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  TR_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads,
                                                        std::size_t(shared_bytes)));
  TR_CUDA(blocks == 0 ? cudaErrorLaunchOutOfResources : cudaSuccess);
  LaunchShape shape;
  shape.grid.x =
      unsigned(std::clamp<std::int64_t>(most, 1, std::int64_t(blocks) * multiprocessors));
  shape.block.x = unsigned(threads);
  shape.shared_bytes = std::size_t(shared_bytes);
  shape.cooperative = true;
  return shape;
}

}  // namespace tr::cuda::optimizer

// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a block does in a QR decomposition S = Q R by blocks of Householder's reflections, as
// backend/cpu/householder_qr.h: it makes the reflections of a panel of kPanel columns,
//
//   I - V T V^T,  V [rows, kPanel] with zeros above its diagonal, T [kPanel, kPanel]
//
// or applies those of a panel to kPanel columns. A column of zeros below the diagonal is left as it
// is, so that what is no part of S stays apart from the rest in Q too.

#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda::qr {

constexpr int kPanel = 32;  // columns; a lane each
constexpr int kThreads = 512;
constexpr int kWarps = kThreads / kWarp;
constexpr int kPitch = kPanel + 1;  // of a panel in shared memory: threads have rows

/// Shared memory of reduce_rows() and what follows it.
constexpr int kSumElements = kWarps * kPanel * kPanel + 2 * kPanel * kPitch;

/// Reflections of one panel of a matrix [side, side].
struct Panel {
  std::int64_t begin;
  int rows, count;
  float *v, *t;
};

/// Where the panels of a matrix lie: all V one behind the other, then all T.
__host__ __device__ inline std::int64_t padded(std::int64_t side) {
  return (side + kPanel - 1) / kPanel * kPanel;
}
__host__ __device__ inline std::int64_t num_floats(std::int64_t side) {
  return side * padded(side) + padded(side) * kPanel;
}
__device__ inline Panel panel_at(float* room, std::int64_t side, std::int64_t number) {
  const std::int64_t begin = number * kPanel, left = side - begin;
  return {begin, int(left), int(left < kPanel ? left : kPanel), room + number * side * kPanel,
          room + side * padded(side) + number * kPanel * kPanel};
}

__device__ inline int lane() { return int(threadIdx.x) % kWarp; }
__device__ inline int warp() { return int(threadIdx.x) / kWarp; }

/// sums[k][c] = sum over rows of V[r][k] X[r][c], in a fixed order, in the last part of `shared`.
/// Columns behind `width` are zeros.
__device__ inline float* reduce_rows(const float* v, const float* x, std::int64_t ld, int rows,
                                     int width, float* shared) {
  float sums[kPanel] = {};
  for (int r = warp(); r < rows; r += kWarps) {
    const float own = lane() < width ? x[r * ld + lane()] : 0.0f;
    const auto* row = reinterpret_cast<const Vector<float, 4>*>(v + std::int64_t(r) * kPanel);
#pragma unroll
    for (int k = 0; k < kPanel; k += 4) {
      const Vector<float, 4> four = row[k / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[k + i] += four.v[i] * own;
    }
  }
#pragma unroll
  for (int k = 0; k < kPanel; ++k) shared[(warp() * kPanel + k) * kPanel + lane()] = sums[k];
  __syncthreads();
  float* total = shared + kWarps * kPanel * kPanel;
  for (int k = warp(); k < kPanel; k += kWarps) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += shared[(w * kPanel + k) * kPanel + lane()];
    total[k * kPitch + lane()] = sum;
  }
  __syncthreads();
  return total;
}

/// X = (I - V T V^T) X, or with T^T, of `width` columns from `x` on, whose first row is the
/// panel's.
__device__ inline void apply(const Panel& panel, bool transposed, float* x, std::int64_t ld,
                             int width, float* shared) {
  const float* sums = reduce_rows(panel.v, x, ld, panel.rows, width, shared);
  float* weights = shared + kWarps * kPanel * kPanel + kPanel * kPitch;
  for (int k = warp(); k < kPanel; k += kWarps) {
    float weight = 0;
    for (int j = 0; j < kPanel; ++j) {
      const float t = transposed ? panel.t[j * kPanel + k] : panel.t[k * kPanel + j];
      weight += t * sums[j * kPitch + lane()];
    }
    weights[k * kPitch + lane()] = weight;
  }
  __syncthreads();
  float own[kPanel];
#pragma unroll
  for (int k = 0; k < kPanel; ++k) own[k] = weights[k * kPitch + lane()];
  for (int r = warp(); r < panel.rows; r += kWarps) {
    if (lane() >= width) continue;
    const auto* row = reinterpret_cast<const Vector<float, 4>*>(panel.v + std::int64_t(r) * kPanel);
    float value = x[r * ld + lane()];
#pragma unroll
    for (int k = 0; k < kPanel; k += 4) {
      const Vector<float, 4> four = row[k / 4];
#pragma unroll
      for (int i = 0; i < 4; ++i) value -= four.v[i] * own[k + i];
    }
    x[r * ld + lane()] = value;
  }
  __syncthreads();
}

/// The reflection that clears a column below its diagonal: its factor, and what the column is
/// multiplied with.
struct Reflection {
  float tau, scale;

  __device__ Reflection(double alpha, double below) : tau(0), scale(1) {
    if (below == 0) return;
    const double norm = sqrt(alpha * alpha + below);
    const double beta = alpha > 0 ? -norm : norm;
    tau = float((beta - alpha) / beta);
    scale = float(1.0 / (alpha - beta));
  }
};

/// Sums of `values` over a warp's lanes: lane c gets that of values[c].
__device__ inline float transposed_sum(float (&values)[kPanel]) {
#pragma unroll
  for (int width = kWarp / 2; width > 0; width /= 2) {
    const bool upper = (lane() & width) != 0;
#pragma unroll
    for (int c = 0; c < width; ++c) {
      const float kept = upper ? values[c + width] : values[c];
      const float sent = upper ? values[c] : values[c + width];
      values[c] = kept + __shfl_xor_sync(0xffffffffu, sent, width);
    }
  }
  return values[0];
}

/// Turns the panel's columns, in `x` [rows, kPanel] with `pitch`, into reflections. A thread has
/// every kThreads-th row. `taus`: kPanel of shared memory.
__device__ inline void reflect(float* x, int pitch, int rows, int count, float* taus) {
  __shared__ double below_of[kWarps], shared_alpha;
  __shared__ float dots_of[kWarps][kPanel], dots[kWarps][kPanel];
  for (int k = 0; k < count; ++k) {
    double below = 0;
    for (int r = int(threadIdx.x); r < rows; r += kThreads) {
      const double value = x[std::int64_t(r) * pitch + k];
      if (r == k) shared_alpha = value;
      if (r > k) below += value * value;
    }
    below = warp_sum(below);
    if (lane() == 0) below_of[warp()] = below;
    __syncthreads();
    below = 0;
    for (int w = 0; w < kWarps; ++w) below += below_of[w];
    const Reflection reflection(shared_alpha, below);
    if (threadIdx.x == 0) taus[k] = reflection.tau;
    float sums[kPanel] = {};
    for (int r = int(threadIdx.x); r < rows; r += kThreads) {
      if (r < k) continue;
      float* row = x + std::int64_t(r) * pitch;
      float v = 1;
      if (r > k) row[k] = v = row[k] * reflection.scale;
#pragma unroll
      for (int c = 0; c < kPanel; ++c) {
        if (c > k) sums[c] += v * row[c];
      }
    }
    dots_of[warp()][lane()] = transposed_sum(sums);
    __syncthreads();
    float dot = 0;
    for (int w = 0; w < kWarps; ++w) dot += dots_of[w][lane()];
    dots[warp()][lane()] = reflection.tau * dot;
    __syncwarp();
    for (int r = int(threadIdx.x); r < rows; r += kThreads) {
      if (r < k) continue;
      float* row = x + std::int64_t(r) * pitch;
      const float v = r == k ? 1.0f : row[k];
#pragma unroll
      for (int c = 0; c < kPanel; ++c) {
        if (c > k) row[c] -= v * dots[warp()][c];
      }
    }
    __syncwarp();
  }
  __syncthreads();
}

/// Factors panel `panel` of `s` [side, side]; its R is of no use and is dropped. `shared` has
/// `shared_floats`; a panel that does not fit is worked on where V goes.
__device__ inline void factor(const Panel& panel, const float* s, std::int64_t side, float* shared,
                              std::int64_t shared_floats) {
  __shared__ float taus[kPanel];
  const bool fits = std::int64_t(panel.rows) * kPitch <= shared_floats;
  float* x = fits ? shared : panel.v;
  const int pitch = fits ? kPitch : kPanel;
  for (int r = warp(); r < panel.rows; r += kWarps) {
    const float* row = s + (panel.begin + r) * side + panel.begin;
    x[std::int64_t(r) * pitch + lane()] = lane() < panel.count ? row[lane()] : 0.0f;
  }
  __syncthreads();
  reflect(x, pitch, panel.rows, panel.count, taus);
  for (int r = warp(); r < panel.rows; r += kWarps) {
    const float value = x[std::int64_t(r) * pitch + lane()];
    const bool above = r < lane(), diagonal = r == lane() && lane() < panel.count;
    panel.v[std::int64_t(r) * kPanel + lane()] = above ? 0.0f : diagonal ? 1.0f : value;
  }
  __syncthreads();
  // T[0 .. k)[k] = -tau T (V^T v_k), T[k][k] = tau, by one warp: a lane has a row.
  const float* gram = reduce_rows(panel.v, panel.v, kPanel, panel.rows, kPanel, shared);
  float* t = shared + kWarps * kPanel * kPanel + kPanel * kPitch;
  if (warp() == 0) {
    for (int k = 0; k < kPanel; ++k) {
      const float tau = k < panel.count ? taus[k] : 0.0f;
      float sum = 0;
      for (int c = lane(); c < k; ++c) sum += t[lane() * kPitch + c] * gram[c * kPitch + k];
      t[lane() * kPitch + k] = lane() < k ? -tau * sum : lane() == k ? tau : 0.0f;
    }
  }
  __syncthreads();
  for (int k = warp(); k < kPanel; k += kWarps)
    panel.t[k * kPanel + lane()] = t[k * kPitch + lane()];
  __syncthreads();
}

}  // namespace tr::cuda::qr

// SPDX-License-Identifier: Apache-2.0
#pragma once

// A tile of a weight gradient in fc_update: which elements it has, who owns which of them, their
// weights and moments.

#include "backend/cuda/optimizer_formulas.cuh"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {

namespace opt = optimizer;

/// A tile of a gradient: kM rows of dW (outputs of the layer) by kN columns.
struct UpdateTile {
  static constexpr int kM = 64, kN = 64, kThreads = 256;
  static constexpr int kPitch = kN + 4;  // of the gradients in shared memory
};

constexpr int kMaxLayers = 24;

/// One layer: dW [out, in] = dy [batch, out]^T x [batch, in], element (o, i) at weight_at + o in +
/// i of the ranges, db [out] at bias_at.
template <typename T>
struct FcLayer {
  const T* dy;
  const T* x;
  std::int64_t weight_at;
  std::int64_t bias_at;  // -1: no bias
  int out, in;
  int first_tile, tiles_across;
  bool aligned_dy, aligned_x;

  /// Vectors of four neighbours of a row begin at multiples of their size.
  __host__ __device__ bool wide() const { return in % 4 == 0 && weight_at % 4 == 0; }
};

template <typename T>
struct FcLayers {
  FcLayer<T> v[kMaxLayers];
  int count = 0;
  int batch = 0;
  int num_tiles = 0;
};

/// A tile of a layer. A thread owns vectors of four neighbours: vector v is number v * threads +
/// thread of the tile's rows.
template <typename T>
struct TilePlace {
  static constexpr int kWidth = 4;
  static constexpr int kRowVectors = UpdateTile::kN / kWidth;
  static constexpr int kVectors = UpdateTile::kM * kRowVectors / UpdateTile::kThreads;

  int index = 0;  // of the layer
  const FcLayer<T>* layer;
  int m, n;

  __device__ TilePlace(const FcLayers<T>& layers, int tile) {
    while (index + 1 < layers.count && layers.v[index + 1].first_tile <= tile) ++index;
    layer = &layers.v[index];
    const int local = tile - layer->first_tile;
    m = local / layer->tiles_across * UpdateTile::kM;
    n = local % layer->tiles_across * UpdateTile::kN;
  }
  __device__ bool has_bias() const { return n == 0 && layer->bias_at >= 0; }
  /// The bias element that this thread owns; false: none.
  __device__ bool bias_element(std::int64_t& at) const {
    const int o = m + int(threadIdx.x);
    at = layer->bias_at + o;
    return has_bias() && threadIdx.x < UpdateTile::kM && o < layer->out;
  }
  __device__ static int row_of(int v) {
    return (v * UpdateTile::kThreads + int(threadIdx.x)) / kRowVectors;
  }
  __device__ static int column_of(int v) {
    return (v * UpdateTile::kThreads + int(threadIdx.x)) % kRowVectors * kWidth;
  }
  /// Calls f(v, element, number of its neighbours in the layer) for each vector of the thread.
  template <typename F>
  __device__ void each_vector(F&& f) const {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int row = m + row_of(v), column = n + column_of(v);
      const int count = row < layer->out ? min(kWidth, layer->in - column) : 0;
      if (count > 0) f(v, layer->weight_at + std::int64_t(row) * layer->in + column, count);
    }
  }
  /// Whole vectors begin at multiples of their size.
  __device__ bool wide() const { return layer->wide(); }
};

using Float4 = Vector<float, 4>;

__device__ inline void load(const float* from, bool wide, int count, Float4& to) {
  if (wide) {
    to = *reinterpret_cast<const Float4*>(from);
    return;
  }
  for (int i = 0; i < 4; ++i) {
    if (i < count) to.v[i] = from[i];
  }
}

/// Weights and moments of the elements that a thread updates.
struct Moments {
  Float4 weight, moment1, moment2;
};

template <typename Update, typename T>
__device__ inline Moments load_moments(const opt::Ranges<T>& ranges, std::int64_t at, bool wide,
                                       int count) {
  Moments held{};
  load(ranges.weights + at, wide, count, held.weight);
  if (Update::kMoments > 0) load(ranges.moment1 + at, wide, count, held.moment1);
  if (Update::kMoments > 1) load(ranges.moment2 + at, wide, count, held.moment2);
  return held;
}

template <typename T>
__device__ inline void store(T* to, bool wide, int count, const Vector<T, 4>& from) {
  if (wide) {
    *reinterpret_cast<Vector<T, 4>*>(to) = from;
    return;
  }
  for (int i = 0; i < 4; ++i) {
    if (i < count) to[i] = from.v[i];
  }
}

/// A tile's factors.
template <typename Update>
struct TileFactors {
  typename Update::Factors weight, bias;
  bool weight_frozen, bias_frozen;
};

}  // namespace tr::cuda

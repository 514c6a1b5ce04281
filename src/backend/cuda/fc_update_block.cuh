// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a block of fc_update does with one tile of a weight gradient: makes it, judges it, updates
// the weights that it belongs to.

#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/mma_tile.cuh"
#include "backend/cuda/optimizer_formulas.cuh"

namespace tr::cuda {

namespace opt = optimizer;

using UpdateTile = TileShape<64, 64, 64, 4, 2, 1, 4>;

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

  const FcLayer<T>* layer;
  int m, n;

  __device__ TilePlace(const FcLayers<T>& layers, int tile) : layer(&layers.v[0]) {
    for (int i = 1; i < layers.count && layers.v[i].first_tile <= tile; ++i) layer = &layers.v[i];
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
  __device__ bool wide() const { return layer->in % kWidth == 0 && layer->weight_at % kWidth == 0; }
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

/// A tile's factors, made by one thread before the blocks meet.
template <typename Update>
struct TileFactors {
  typename Update::Factors weight, bias;
  bool weight_frozen, bias_frozen;
};

template <typename Update, typename T>
class UpdateBlock {
 public:
  using Place = TilePlace<T>;

  /// `shared`: the product's stages, where the gradients lie afterwards.
  __device__ UpdateBlock(const FcLayers<T>& layers, const opt::Ranges<T>& ranges, float* gradients,
                         void* shared)
      : layers_(layers),
        ranges_(ranges),
        gradients_(gradients),
        stages_(static_cast<T*>(shared)),
        made_(static_cast<float*>(shared)) {}

  /// Gradients of a tile into shared memory; returns through `bad` and `sumsq` what they are like.
  __device__ void make(int tile, bool& bad, float& sumsq) {
    const Place place(layers_, tile);
    const FcLayer<T>& layer = *place.layer;
    TileProduct<T, UpdateTile, Along::OUTER, Along::OUTER> product;
    product.a = {layer.dy, layer.out};
    product.b = {layer.x, layer.in};
    product.num_m = layer.out;
    product.num_n = layer.in;
    product.num_k = layers_.batch;
    product.aligned_a = layer.aligned_dy;
    product.aligned_b = layer.aligned_x;
    bias_part_ = 0;
    using A = typename decltype(product)::A;
    // A column of dy is summed by kBiasParts threads, each over a part of every stage.
    const bool sums_bias = place.has_bias();
    product.run(stages_, place.m, place.n, [&](const T* stage, int) {
      if (!sums_bias) return;
      constexpr int kDepth = UpdateTile::kDepth / kBiasParts;
      const T* column = A::at(stage, int(threadIdx.x) % UpdateTile::kM,
                              int(threadIdx.x) / UpdateTile::kM * kDepth);
#pragma unroll
      for (int k = 0; k < kDepth; ++k) bias_part_ += to_float(column[k * A::kPitch]);
    });
    if (sums_bias) bias_sum_ = sum_of_parts();
    const auto judge = [&](float gradient) {
      bad = bad || !isfinite(gradient);
      sumsq += gradient * gradient;
    };
    place.each_vector([&](int v, std::int64_t, int count) {
      const Float4 gradient = made(v);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i < count) judge(gradient.v[i]);
      }
    });
    std::int64_t at;
    if (place.bias_element(at)) judge(bias_sum_);
  }

  /// The tile's gradients into the gradients' range, and back.
  __device__ void spill(int tile) const {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    place.each_vector(
        [&](int v, std::int64_t at, int count) { store(gradients_ + at, wide, count, made(v)); });
    std::int64_t at;
    if (place.bias_element(at)) gradients_[at] = bias_sum_;
  }
  __device__ void unspill(int tile) {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    place.each_vector(
        [&](int v, std::int64_t at, int count) { load(gradients_ + at, wide, count, made(v)); });
    std::int64_t at;
    if (place.bias_element(at)) bias_sum_ = gradients_[at];
  }

  /// Weights and moments of the tile, early: they do not depend on the verdict.
  __device__ void prefetch(int tile) {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    place.each_vector([&](int v, std::int64_t at, int count) {
      load(ranges_.weights + at, wide, count, weight_[v]);
      if (Update::kMoments > 0) load(ranges_.moment1 + at, wide, count, moment1_[v]);
      if (Update::kMoments > 1) load(ranges_.moment2 + at, wide, count, moment2_[v]);
    });
    std::int64_t at;
    if (!place.bias_element(at)) return;
    bias_weight_ = ranges_.weights[at];
    if (Update::kMoments > 0) bias_moment1_ = ranges_.moment1[at];
    if (Update::kMoments > 1) bias_moment2_ = ranges_.moment2[at];
  }

  __device__ void update(int tile, const Update& update, const opt::GradientScale& scale,
                         const TileFactors<Update>& factors) {
    const Place place(layers_, tile);
    const bool wide = place.wide();
    if (!factors.weight_frozen) {
      place.each_vector([&](int v, std::int64_t at, int count) {
        const Float4 gradient = made(v);
        Vector<T, 4> narrow;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          update(factors.weight, scale(gradient.v[i]), weight_[v].v[i], moment1_[v].v[i],
                 moment2_[v].v[i]);
          narrow.v[i] = from_float<T>(weight_[v].v[i]);
        }
        store(ranges_.weights + at, wide, count, weight_[v]);
        if (Update::kMoments > 0) store(ranges_.moment1 + at, wide, count, moment1_[v]);
        if (Update::kMoments > 1) store(ranges_.moment2 + at, wide, count, moment2_[v]);
        if (ranges_.weight_cast != nullptr) store(ranges_.weight_cast + at, wide, count, narrow);
      });
    }
    std::int64_t at;
    if (factors.bias_frozen || !place.bias_element(at)) return;
    update(factors.bias, scale(bias_sum_), bias_weight_, bias_moment1_, bias_moment2_);
    ranges_.weights[at] = bias_weight_;
    if (Update::kMoments > 0) ranges_.moment1[at] = bias_moment1_;
    if (Update::kMoments > 1) ranges_.moment2[at] = bias_moment2_;
    if (ranges_.weight_cast != nullptr) ranges_.weight_cast[at] = from_float<T>(bias_weight_);
  }

 private:
  static constexpr int kBiasParts = UpdateTile::kThreads / UpdateTile::kM;
  static_assert(UpdateTile::kDepth % kBiasParts == 0);

  /// Of the thread's column, in the parts' order; behind the gradients in shared memory.
  __device__ float sum_of_parts() const {
    float* parts = made_ + UpdateTile::kM * UpdateTile::kPitch;
    parts[threadIdx.x] = bias_part_;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int part = 0; part < kBiasParts; ++part) {
      sum += parts[part * UpdateTile::kM + int(threadIdx.x) % UpdateTile::kM];
    }
    return sum;
  }

  /// The thread's vector v of the tile's gradients.
  __device__ Float4& made(int v) const {
    return *reinterpret_cast<Float4*>(made_ + Place::row_of(v) * UpdateTile::kPitch +
                                      Place::column_of(v));
  }

  const FcLayers<T>& layers_;
  const opt::Ranges<T>& ranges_;
  float* gradients_;
  T* stages_;
  float* made_;  // over the stages
  Float4 weight_[Place::kVectors], moment1_[Place::kVectors], moment2_[Place::kVectors];
  float bias_part_ = 0, bias_sum_ = 0, bias_weight_ = 0, bias_moment1_ = 0, bias_moment2_ = 0;
};

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a block of fc_update does with one tile of a weight gradient: makes it, judges it, updates
// the weights that it belongs to.

#include "backend/cuda/fc_update_tile.cuh"
#include "backend/cuda/grid_sum.cuh"

namespace tr::cuda {

/// How a thread shares in the sums of dy's columns: it adds up column threadIdx.x % kM of one part
/// of every stage's samples.
struct BiasShare {
  static constexpr int kParts = UpdateTile::kThreads / UpdateTile::kM;

  __device__ static int column() { return int(threadIdx.x) % UpdateTile::kM; }
  /// A: where the elements of dy's tile lie; a stage holds kDepth samples.
  template <typename A, int kDepth, typename T>
  __device__ static float of(const T* stage) {
    static_assert(kDepth % kParts == 0);
    const int first = int(threadIdx.x) / UpdateTile::kM * (kDepth / kParts);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kDepth / kParts; ++k) sum += to_float(*A::at(stage, column(), first + k));
    return sum;
  }
};

/// Of a tile, in registers: asked for by ask(), there when they are used.
template <typename Update, typename T>
class RegisterState {
 public:
  __device__ void ask(const TilePlace<T>& place, const opt::Ranges<T>& ranges) {
    const bool wide = place.wide();
    place.each_vector([&](int v, std::int64_t at, int count) {
      held_[v] = load_moments<Update>(ranges, at, wide, count);
    });
  }
  __device__ void settle() {}
  __device__ Moments get(const TilePlace<T>&, const opt::Ranges<T>&, int v, std::int64_t, int) {
    return held_[v];
  }

 private:
  Moments held_[TilePlace<T>::kVectors];
};

/// Gradient makes a tile: start() asks for its first operands, run() leaves it in made(), rows of
/// UpdateTile::kPitch, and returns the thread's share of the bias' gradient. State brings weights
/// and moments.
template <typename Update, typename T, typename Gradient, typename State>
class UpdateBlock {
 public:
  using Place = TilePlace<T>;

  __device__ UpdateBlock(const FcLayers<T>& layers, const opt::Ranges<T>& ranges, float* gradients,
                         Gradient& gradient, State& state)
      : layers_(layers),
        ranges_(ranges),
        gradients_(gradients),
        gradient_(gradient),
        state_(state),
        made_(gradient.made()) {}

  /// Asks for the first operands of the tile that is made next.
  __device__ void start(int tile) {
    const Place place(layers_, tile);
    gradient_.start(layers_, *place.layer, place.m, place.n);
  }

  /// Gradients of a tile into shared memory; adds their squares, whose sum is finite if and only if
  /// all of them are.
  __device__ void make(int tile, double& sumsq) {
    const Place place(layers_, tile);
    const bool sums_bias = place.has_bias();
    const float part = gradient_.run(layers_, *place.layer, place.m, place.n, sums_bias);
    if (sums_bias) bias_sum_ = sum_of_parts(part);
    const auto judge = [&](float gradient) { sumsq += double(gradient) * double(gradient); };
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

  /// Asks for the tile's weights and moments: they do not depend on the verdict.
  __device__ void prefetch(int tile) {
    const Place place(layers_, tile);
    state_.ask(place, ranges_);
    std::int64_t at;
    if (!place.bias_element(at)) return;
    bias_weight_ = ranges_.weights[at];
    if (Update::kMoments > 0) bias_moment1_ = ranges_.moment1[at];
    if (Update::kMoments > 1) bias_moment2_ = ranges_.moment2[at];
  }

  __device__ void update(int tile, const Update& update, const opt::GradientScale& scale,
                         const TileFactors<Update>& factors) {
    state_.settle();
    const Place place(layers_, tile);
    const bool wide = place.wide();
    if (!factors.weight_frozen) {
      place.each_vector([&](int v, std::int64_t at, int count) {
        const Float4 gradient = made(v);
        Moments held = state_.get(place, ranges_, v, at, count);
        Vector<T, 4> narrow;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          update(factors.weight, scale(gradient.v[i]), held.weight.v[i], held.moment1.v[i],
                 held.moment2.v[i]);
          narrow.v[i] = from_float<T>(held.weight.v[i]);
        }
        store(ranges_.weights + at, wide, count, held.weight);
        if (Update::kMoments > 0) store(ranges_.moment1 + at, wide, count, held.moment1);
        if (Update::kMoments > 1) store(ranges_.moment2 + at, wide, count, held.moment2);
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
  /// Of the thread's column, in the parts' order; behind the gradients in shared memory.
  __device__ float sum_of_parts(float part) const {
    float* parts = made_ + UpdateTile::kM * UpdateTile::kPitch;
    parts[threadIdx.x] = part;
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < BiasShare::kParts; ++i) {
      sum += parts[i * UpdateTile::kM + BiasShare::column()];
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
  Gradient& gradient_;
  State& state_;
  float* made_;
  float bias_sum_ = 0, bias_weight_ = 0, bias_moment1_ = 0, bias_moment2_ = 0;
};

}  // namespace tr::cuda

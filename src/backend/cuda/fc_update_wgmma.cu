// SPDX-License-Identifier: Apache-2.0
// fc_update with tiles made by warp groups, for compute capability 9.0: the tensor copy engine
// brings dy and x, and before the former kernel of the step has ended weights and moments; two
// groups multiply 32 columns of the tile each.
#include "backend/cuda/fc_update_node.cuh"
#include "backend/cuda/tensor_map.h"
#include "backend/cuda/wgmma.cuh"

namespace tr::cuda::fc_update {
namespace {

using tensor_copy::Barrier;

/// Dynamic shared memory: stages of operands, over which the gradients lie afterwards; then weights
/// and moments. Small enough for three blocks on a multiprocessor.
constexpr int kDepth = 32, kStages = 3;

template <typename T>
class WgmmaGradient {
  using Tile = tensor_copy::SwizzledTile<T, Along::OUTER, UpdateTile::kM, kDepth>;
  static_assert(UpdateTile::kM == UpdateTile::kN);  // dy's and x's tiles are alike
  static constexpr int kTileBytes = Tile::kElements * Tile::kElementBytes;
  static constexpr int kStageBytes = 2 * kTileBytes;
  static constexpr int kWarps = UpdateTile::kThreads / 32;
  static constexpr int kGroupColumns = UpdateTile::kN / 2;
  static constexpr int kStateBytes = UpdateTile::kM * UpdateTile::kN * int(sizeof(float));
  static_assert(kStages <= kWarps);
  static_assert(kStages * kStageBytes >= UpdateTile::kM * UpdateTile::kPitch * int(sizeof(float)) +
                                             UpdateTile::kThreads * int(sizeof(float)));

 public:
  template <typename Update>
  static constexpr int kSharedBytes = kStages* kStageBytes + (1 + Update::kMoments) * kStateBytes +
                                      1024;
  static constexpr bool kEarlyState = true;
  struct Products {
    CUtensorMap dy[kMaxLayers], x[kMaxLayers];
  };
  template <typename Update>
  struct States {
    CUtensorMap of[kMaxLayers][1 + Update::kMoments];  // weights and moments of a layer
  };
  template <typename Update>
  struct Operands {
    Products products;
    States<Update> state;
  };
  struct Barriers {
    Barrier loaded[kStages];
    Barrier state;
  };

  template <typename Update>
  static Operands<Update> operands(const FcLayers<T>& layers, const opt::Ranges<T>& ranges) {
    constexpr DType kDtype = std::is_same_v<T, __half> ? DType::FP16 : DType::BF16;
    Operands<Update> operands{};
    const float* const state[] = {ranges.weights, ranges.moment1, ranges.moment2};
    for (int i = 0; i < layers.count; ++i) {
      const FcLayer<T>& layer = layers.v[i];
      const auto map = [&](const T* data, int columns) {
        return make_tensor_map(
            {data, kDtype, layers.batch, columns, kDepth, UpdateTile::kM, Swizzle::ROWS});
      };
      if (layer.aligned_dy) operands.products.dy[i] = map(layer.dy, layer.out);
      if (layer.aligned_x) operands.products.x[i] = map(layer.x, layer.in);
      for (int s = 0; layer.wide() && s < 1 + Update::kMoments; ++s) {
        operands.state.of[i][s] =
            make_tensor_map({state[s] + layer.weight_at, DType::FP32, layer.out, layer.in,
                             UpdateTile::kM, UpdateTile::kN, Swizzle::NONE});
      }
    }
    return operands;
  }

  /// Weights and moments in shared memory, where rows of them can be copied by the engine.
  template <typename Update>
  class State {
   public:
    __device__ State(const States<Update>& maps, const WgmmaGradient& gradient)
        : maps_(maps), gradient_(gradient) {}

    __device__ void ask(const TilePlace<T>& place, const opt::Ranges<T>&) {
      if (!place.layer->wide()) return;
      pending_ = true;
      if (threadIdx.x != 0) return;
      Barrier& barrier = gradient_.barriers_.state;
      tensor_copy::expect(barrier, (1 + Update::kMoments) * kStateBytes);
#pragma unroll
      for (int s = 0; s < 1 + Update::kMoments; ++s) {
        tensor_copy::load(gradient_.state_at(s), maps_.of[place.index][s], place.m, place.n,
                          barrier);
      }
    }
    /// All that was asked for has come. By every thread of the block, whether it owns elements of
    /// the tile or not, and before a barrier that the next ask() stands behind.
    __device__ void settle() {
      if (!pending_) return;
      tensor_copy::wait(gradient_.barriers_.state, parity_);
      parity_ ^= 1;
      pending_ = false;
    }
    __device__ Moments get(const TilePlace<T>& place, const opt::Ranges<T>& ranges, int v,
                           std::int64_t at, int count) {
      if (!place.layer->wide()) return load_moments<Update>(ranges, at, false, count);
      const int element = TilePlace<T>::row_of(v) * UpdateTile::kN + TilePlace<T>::column_of(v);
      const auto of = [&](int s) {
        return *reinterpret_cast<const Float4*>(gradient_.state_at(s) +
                                                element * int(sizeof(float)));
      };
      Moments held{of(0), {}, {}};
      if constexpr (Update::kMoments > 0) held.moment1 = of(1);
      if constexpr (Update::kMoments > 1) held.moment2 = of(2);
      return held;
    }

   private:
    const States<Update>& maps_;
    const WgmmaGradient& gradient_;
    unsigned parity_ = 0;
    bool pending_ = false;
  };

  __device__ WgmmaGradient(const Products& maps, unsigned char* shared, Barriers& barriers)
      : maps_(maps),
        stages_(shared + (1024 - mma::shared_address(shared) % 1024) % 1024),
        barriers_(barriers) {
    if (threadIdx.x == 0) {
      for (auto& barrier : barriers_.loaded) tensor_copy::init(barrier);
      tensor_copy::init(barriers_.state);
      tensor_copy::publish_barriers();
    }
    __syncthreads();
  }
  __device__ float* made() const { return reinterpret_cast<float*>(stages_); }

  __device__ void start(const FcLayers<T>& layers, const FcLayer<T>& layer, int m, int n) {
    // Gradients of a former tile lie where the engine will write.
    tensor_copy::hand_over();
    __syncthreads();
    const int first = min(num_steps(layers), kStages), warp = int(threadIdx.x) / 32;
    if (warp < first) load(layers, layer, warp, warp, m, n);
    if (!by_hand(layer)) return;
    Chunks chunks[kStages];
#pragma unroll
    for (int s = 0; s < kStages; ++s) chunks[s] = fetch(layers, layer, s, m, n);
#pragma unroll
    for (int s = 0; s < kStages; ++s) put(layer, s, chunks[s]);
    tensor_copy::hand_over();
    __syncthreads();
  }

  __device__ float run(const FcLayers<T>& layers, const FcLayer<T>& layer, int m, int n,
                       bool sums_bias) {
    const int steps = num_steps(layers), group = int(threadIdx.x) / wgmma::kThreads;
    float bias_part = 0, sums[kGroupColumns / 2] = {};
    int stage = 0;
#pragma unroll 1
    for (int step = 0; step < steps; ++step) {
      const int next = step + kStages;
      Chunks chunks;
      if (next < steps && by_hand(layer)) chunks = fetch(layers, layer, next, m, n);
      wait(layer, stage);
      if (sums_bias) {
        bias_part += BiasShare::of<Tile, kDepth>(reinterpret_cast<const T*>(dy_at(stage)));
      }
      wgmma::begin();
      wgmma::multiply_stage<Tile, Tile, kDepth>(
          sums, dy_at(stage), x_at(stage) + group * kGroupColumns * Tile::kElementBytes, T{});
      wgmma::commit();
      if (next < steps) {
        wgmma::wait<0>();
        __syncthreads();  // all are through with the stage
        if (threadIdx.x / 32 == 0) load(layers, layer, stage, next, m, n);
        if (by_hand(layer)) {
          put(layer, stage, chunks);
          tensor_copy::hand_over();
          __syncthreads();
        }
      }
      if (++stage == kStages) stage = 0;
    }
    wgmma::wait<0>();
    __syncthreads();
    leave(sums, group);
    __syncthreads();
    return bias_part;
  }

 private:
  __device__ static int num_steps(const FcLayers<T>& layers) {
    return (layers.batch + kDepth - 1) / kDepth;
  }
  /// Rows that do not begin at multiples of 16 bytes the engine cannot read.
  __device__ static bool by_hand(const FcLayer<T>& layer) {
    return !layer.aligned_dy || !layer.aligned_x;
  }
  __device__ unsigned char* dy_at(int stage) const { return stages_ + stage * kStageBytes; }
  __device__ unsigned char* x_at(int stage) const { return dy_at(stage) + kTileBytes; }
  __device__ unsigned char* state_at(int s) const {
    return stages_ + kStages * kStageBytes + s * kStateBytes;
  }

  /// By one warp.
  __device__ void load(const FcLayers<T>& layers, const FcLayer<T>& layer, int stage, int step,
                       int m, int n) const {
    const int count = int(layer.aligned_dy) + int(layer.aligned_x);
    if (threadIdx.x % 32 != 0 || count == 0) return;
    Barrier& loaded = barriers_.loaded[stage];
    const int index = int(&layer - &layers.v[0]), row = step * kDepth;
    tensor_copy::expect(loaded, unsigned(count * kTileBytes));
    if (layer.aligned_dy) tensor_copy::load(dy_at(stage), maps_.dy[index], row, m, loaded);
    if (layer.aligned_x) tensor_copy::load(x_at(stage), maps_.x[index], row, n, loaded);
  }

  /// A barrier's phases alternate over all tiles of the block.
  __device__ void wait(const FcLayer<T>& layer, int stage) {
    if (!layer.aligned_dy && !layer.aligned_x) return;
    tensor_copy::wait(barriers_.loaded[stage], parities_ >> stage & 1);
    parities_ ^= 1u << stage;
  }

  /// A thread's part of the operands that the engine cannot read: eight neighbours of a row each.
  struct Chunks {
    Vector<T, kChunk> dy{}, x{};
  };
  static constexpr int kLineChunks = Tile::kLength / kChunk;
  static_assert(Tile::kElements == kChunk * UpdateTile::kThreads);
  __device__ static int line() { return int(threadIdx.x) / kLineChunks; }
  __device__ static int column() { return int(threadIdx.x) % kLineChunks * kChunk; }

  __device__ static Chunks fetch(const FcLayers<T>& layers, const FcLayer<T>& layer, int step,
                                 int m, int n) {
    Chunks chunks;
    const int k = step * kDepth + line();
    const auto of = [&](const T* from, int first, int length, Vector<T, kChunk>& to) {
      const int count = k < layers.batch ? length - first : 0;
      from += std::int64_t(k) * length + first;
#pragma unroll
      for (int e = 0; e < kChunk; ++e) {
        if (e < count) to.v[e] = from[e];
      }
    };
    if (!layer.aligned_dy) of(layer.dy, m + column(), layer.out, chunks.dy);
    if (!layer.aligned_x) of(layer.x, n + column(), layer.in, chunks.x);
    return chunks;
  }
  __device__ void put(const FcLayer<T>& layer, int stage, const Chunks& chunks) const {
    const auto to = [](unsigned char* tile) {
      const T* at = Tile::at(reinterpret_cast<const T*>(tile), column(), line());
      return reinterpret_cast<Vector<T, kChunk>*>(const_cast<T*>(at));
    };
    if (!layer.aligned_dy) *to(dy_at(stage)) = chunks.dy;
    if (!layer.aligned_x) *to(x_at(stage)) = chunks.x;
  }

  __device__ void leave(const float (&sums)[kGroupColumns / 2], int group) const {
    const int thread = int(threadIdx.x) % wgmma::kThreads, lane = thread % 32;
    float* to = made() + (thread / 32 * 16 + lane / 4) * UpdateTile::kPitch +
                group * kGroupColumns + lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < kGroupColumns / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        *reinterpret_cast<Vector<float, 2>*>(to + half * 8 * UpdateTile::kPitch + j * 8) = {
            {sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]}};
      }
    }
  }

  const Products& maps_;
  unsigned char* stages_;
  Barriers& barriers_;
  unsigned parities_ = 0;  // by stage
};

std::string refuse(const KernelQuery& query) {
  const auto* kernel = reinterpret_cast<const void*>(
      fc_update_kernel<opt::Sgd<0>, __half, WgmmaGradient<__half>, true>);
  if (!wgmma::has_image(kernel)) return "the GPU is not of compute capability 9.0";
  return refuse_shape(query);
}

constexpr int kPriority = 10;  // before fc_update.cu

const KernelRegistration kFcUpdate{kernel<WgmmaGradient>("cuda.fc_update.wgmma", refuse),
                                   kPriority};

}  // namespace
}  // namespace tr::cuda::fc_update

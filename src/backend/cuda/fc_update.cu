// SPDX-License-Identifier: Apache-2.0
// fc_update with tiles made by mma_tile.cuh, for every GPU with tensor cores.
#include "backend/cuda/fc_update_node.cuh"
#include "backend/cuda/mma_tile.cuh"

namespace tr::cuda::fc_update {
namespace {

template <typename T>
class MmaGradient {
  static constexpr int kDepth = 64, kStages = 4;
  using Shape = TileShape<UpdateTile::kM, UpdateTile::kN, kDepth, 4, 2, 1, kStages>;
  using Product = TileProduct<T, Shape, Along::OUTER, Along::OUTER>;
  static_assert(Shape::kThreads == UpdateTile::kThreads && Shape::kPitch == UpdateTile::kPitch);

 public:
  template <typename Update>
  static constexpr int kSharedBytes = Product::kSharedBytes;
  static constexpr bool kEarlyState = false;  // there are too few registers beside the product's
  struct Nothing {};
  template <typename Update>
  struct Operands {
    Nothing products, state;
  };
  using Barriers = Nothing;
  template <typename Update>
  static Operands<Update> operands(const FcLayers<T>&, const opt::Ranges<T>&) {
    return {};
  }
  template <typename Update>
  struct State : RegisterState<Update, T> {
    __device__ State(const Nothing&, const MmaGradient&) {}
  };

  __device__ MmaGradient(const Nothing&, unsigned char* shared, Barriers&)
      : stages_(reinterpret_cast<T*>(shared)) {}
  __device__ void start(const FcLayers<T>&, const FcLayer<T>&, int, int) const {}
  __device__ float* made() const { return reinterpret_cast<float*>(stages_); }

  __device__ float run(const FcLayers<T>& layers, const FcLayer<T>& layer, int m, int n,
                       bool sums_bias) const {
    Product product;
    product.a = {layer.dy, layer.out};
    product.b = {layer.x, layer.in};
    product.num_m = layer.out;
    product.num_n = layer.in;
    product.num_k = layers.batch;
    product.aligned_a = layer.aligned_dy;
    product.aligned_b = layer.aligned_x;
    float bias_part = 0;
    product.run(stages_, m, n, [&](const T* stage, int) {
      if (sums_bias) bias_part += BiasShare::of<typename Product::A, kDepth>(stage);
    });
    return bias_part;
  }

 private:
  T* stages_;
};

std::string refuse(const KernelQuery& query) {
  const std::string reason = refuse_old_code();
  return reason.empty() ? refuse_shape(query) : reason;
}

const KernelRegistration kFcUpdate{kernel<MmaGradient>("cuda.fc_update.mma", refuse)};

}  // namespace
}  // namespace tr::cuda::fc_update

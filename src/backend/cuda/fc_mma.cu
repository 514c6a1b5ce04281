// SPDX-License-Identifier: Apache-2.0
// fc and fc_dx of 16-bit operands as one kernel each: product on the tensor cores, bias, activation
// or the activation's derivative in its epilogue. Made for small products, where the launch and the
// way of the operands to the multiprocessors take the time: a tile is small, so that a batch of
// some hundred samples fills the card. Takes every size; where rows begin at multiples of 16 bytes,
// fc_tma.cu is faster.
#include "backend/cuda/early_start.cuh"
#include "backend/cuda/fc_small.cuh"
#include "backend/cuda/mma_tile.cuh"

namespace tr::cuda {
namespace {

using namespace small_fc;

using Shape64x32 = TileShape<64, 32, 128, 4, 1, 2, 4>;
/// For sums of at most 32 terms, such as the gradient of the last layer's input.
using Shallow64x32 = TileShape<64, 32, 32, 4, 1, 2, 2>;

template <typename T, typename Shape, bool kBackward>
__global__ __launch_bounds__(Shape::kThreads) void fc_kernel(
    TileProduct<T, Shape, Along::K, kBackward ? Along::OUTER : Along::K> product, Epilogue epilogue,
    T* y) {
  extern __shared__ __align__(16) unsigned char bytes[];
  T* shared = reinterpret_cast<T*>(bytes);
  let_successors_start();
  wait_for_predecessors();
  const int m = int(blockIdx.y) * Shape::kM, n = int(blockIdx.x) * Shape::kN;
  product.run(shared, m, n, [](const T*, int) {});
  const ThreadPart<Shape> part(m, n, product.num_m, product.num_n);
  if (!part.inside) return;
  const Finish<kBackward, T> finish(epilogue, y, part.row, part.column, product.num_n);
  finish_tile<typename decltype(product)::Math, Shape>(shared, finish);
}

template <typename T, typename Shape, bool kBackward>
class FcMma final : public PreparedKernel {
 public:
  using Product = TileProduct<T, Shape, Along::K, kBackward ? Along::OUTER : Along::K>;

  explicit FcMma(const KernelQuery& query)
      : sizes_(sizes_of<kBackward>(query.in)), epilogue_(epilogue_of(query.attrs)) {
    TR_CUDA(cudaFuncSetAttribute(fc_kernel<T, Shape, kBackward>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 Product::kSharedBytes));
  }

  void run(const KernelArgs& args) const override {
    if (sizes_.m == 0 || sizes_.n == 0) return;
    Product product{};
    product.a = {args.in<T>(0), sizes_.k};
    product.b = {args.in<T>(1), kBackward ? sizes_.n : sizes_.k};
    product.num_m = int(sizes_.m);
    product.num_n = int(sizes_.n);
    product.num_k = int(sizes_.k);
    product.aligned_a = sizes_.k % mma::kChunk == 0 && aligned_to(16, args.in<T>(0));
    product.aligned_b = product.b.ld % mma::kChunk == 0 && aligned_to(16, args.in<T>(1));
    LaunchShape shape;
    shape.grid.x = unsigned(ceil_div<std::int64_t>(sizes_.n, Shape::kN));
    shape.grid.y = unsigned(ceil_div<std::int64_t>(sizes_.m, Shape::kM));
    shape.block.x = Shape::kThreads;
    shape.shared_bytes = Product::kSharedBytes;
    launch(args, shape, fc_kernel<T, Shape, kBackward>, product,
           with_inputs<kBackward, T>(epilogue_, args), args.out<T>(0));
  }

 private:
  Sizes sizes_;
  Epilogue epilogue_;
};

template <bool kBackward>
bool is_shallow(const KernelQuery& query) {
  return sizes_of<kBackward>(query.in).k <= Shallow64x32::kDepth;
}

/// Of a block; FP16 and BF16 are of one width. Compute capability 8.6, 8.9 and 12.0 have 99 KiB.
template <bool kBackward>
std::int64_t shared_bytes(const KernelQuery& query) {
  return is_shallow<kBackward>(query)
             ? FcMma<__half, Shallow64x32, kBackward>::Product::kSharedBytes
             : FcMma<__half, Shape64x32, kBackward>::Product::kSharedBytes;
}

template <typename T, bool kBackward>
std::unique_ptr<PreparedKernel> prepare_typed(const KernelQuery& query) {
  if (is_shallow<kBackward>(query)) {
    return std::make_unique<FcMma<T, Shallow64x32, kBackward>>(query);
  }
  return std::make_unique<FcMma<T, Shape64x32, kBackward>>(query);
}

template <bool kBackward>
std::unique_ptr<PreparedKernel> prepare(const KernelQuery& query, int) {
  if (query.in[0].dtype == DType::FP16) return prepare_typed<__half, kBackward>(query);
  return prepare_typed<__nv_bfloat16, kBackward>(query);
}

template <bool kBackward>
std::string refuse(const KernelQuery& query) {
  if (const std::string reason = refuse_old_code(); !reason.empty()) return reason;
  const std::int64_t needed = shared_bytes<kBackward>(query), most = most_shared_bytes();
  if (needed > most) {
    return "a block needs " + std::to_string(needed) + " bytes of shared memory, the GPU has " +
           std::to_string(most);
  }
  return refuse_shape<kBackward>(query);
}

template <bool kBackward>
KernelDef kernel(const char* op) {
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = std::string("cuda.") + op + ".mma";
  def.early_start = true;
  def.refuse = refuse<kBackward>;
  def.prepare = prepare<kBackward>;
  return def;
}

constexpr int kPriority = 20;  // before the library's products, which it refuses to stand in for

const KernelRegistration kFc{kernel<false>("fc"), kPriority};
const KernelRegistration kFcDx{kernel<true>("fc_dx"), kPriority};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// fc and fc_dx of 16-bit operands as one kernel each: product on the tensor cores, bias, activation
// or the activation's derivative in its epilogue. Made for small products, where the launch and the
// way of the operands to the multiprocessors take the time: a tile is small, so that a batch of
// some hundred samples fills the card.
#include <limits>
#include <vector>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/mma_tile.cuh"
#include "backend/cuda/scalar.cuh"
#include "backend/elementwise_functors.h"

namespace tr::cuda {
namespace {

using Shape64x32 = TileShape<64, 32, 128, 2, 1, 4, 4>;

constexpr std::int64_t kMaxTiles = 4 * 132;

/// What happens to a finished sum: y = act(sum + bias), or dx = act'(gate) sum.
struct Epilogue {
  const float* bias = nullptr;
  const void* gate = nullptr;
  int activation = -1;  // number in the functor table; -1: none
  float alpha = 0;
};

/// Calls f(functor) for entry `number` of the functor table: one uniform branch a thread.
template <typename... Functors, typename F>
__device__ void visit(functors::List<Functors...>, int number, float alpha, F&& f) {
  int index = 0;
  (void)((index++ == number ? (f(functors::make<Functors>(alpha)), true) : false) || ...);
}

/// Eight neighbours of the result, which one thread finishes.
constexpr int kWidth = 8;

template <bool kBackward, typename T>
struct Finish {
  const Epilogue& epilogue;
  T* y;
  int row, column, num_n;

  __device__ int count() const { return min(kWidth, num_n - column); }
  __device__ std::int64_t at() const { return std::int64_t(row) * num_n + column; }
  /// Whole vectors begin at multiples of their size.
  __device__ bool wide() const { return num_n % kWidth == 0; }

  __device__ void add_bias(float (&v)[kWidth]) const {
    if (epilogue.bias == nullptr) return;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < count()) v[i] += epilogue.bias[column + i];
    }
  }
  __device__ Vector<T, kWidth> gate() const {
    const T* from = static_cast<const T*>(epilogue.gate) + at();
    if (wide()) return *reinterpret_cast<const Vector<T, kWidth>*>(from);
    Vector<T, kWidth> gate{};
    for (int i = 0; i < count(); ++i) gate.v[i] = from[i];
    return gate;
  }
  __device__ void activate(float (&v)[kWidth]) const {
    if (epilogue.activation < 0) return;
    Vector<T, kWidth> saved{};
    if (kBackward) saved = gate();
    visit(functors::Table<StdMath>{}, epilogue.activation, epilogue.alpha, [&](auto act) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        v[i] = kBackward ? act.grad(to_float(saved.v[i]), v[i]) : act(v[i]);
      }
    });
  }
  __device__ void store(const float (&v)[kWidth]) const {
    Vector<T, kWidth> narrow;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) narrow.v[i] = from_float<T>(v[i]);
    T* to = y + at();
    if (wide()) {
      *reinterpret_cast<Vector<T, kWidth>*>(to) = narrow;
      return;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < count()) to[i] = narrow.v[i];
    }
  }
};

template <typename T, typename Shape, bool kBackward>
__global__ __launch_bounds__(Shape::kThreads) void fc_kernel(
    TileProduct<T, Shape, Along::K, kBackward ? Along::OUTER : Along::K> product, Epilogue epilogue,
    T* y) {
  static_assert(Shape::kThreads * kWidth == Shape::kM * Shape::kN);
  extern __shared__ __align__(16) unsigned char bytes[];
  T* shared = reinterpret_cast<T*>(bytes);
  const int m = int(blockIdx.y) * Shape::kM, n = int(blockIdx.x) * Shape::kN;
  product.run(shared, m, n, [](const T*, int) {});

  constexpr int kRowThreads = Shape::kN / kWidth;
  const int row = int(threadIdx.x) / kRowThreads;
  const int column = int(threadIdx.x) % kRowThreads * kWidth;
  if (m + row >= product.num_m || n + column >= product.num_n) return;
  float v[kWidth];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto part = product.sum(shared, row, column + half * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[half * 4 + i] = part.v[i];
  }
  const Finish<kBackward, T> finish{epilogue, y, m + row, n + column, product.num_n};
  if constexpr (!kBackward) finish.add_bias(v);
  finish.activate(v);
  finish.store(v);
}

int activation_number(const std::string& name) {
  int number = -1, index = 0;
  functors::for_each([&]<typename Functor>() {
    if (Functor::kName == name) number = index;
    ++index;
  });
  return number;
}

Epilogue epilogue_of(const Attrs& attrs) {
  Epilogue epilogue;
  if (attrs.contains("activation") && !attrs.str("activation").empty()) {
    epilogue.activation = activation_number(attrs.str("activation"));
    epilogue.alpha = attrs.f32("alpha");
  }
  return epilogue;
}

/// [rows, K] W [O, K] -> [rows, O], or backward [rows, O] W [O, K] -> [rows, K].
struct Sizes {
  std::int64_t m = 0, n = 0, k = 0;

  std::int64_t tiles() const {
    return ceil_div<std::int64_t>(m, Shape64x32::kM) * ceil_div<std::int64_t>(n, Shape64x32::kN);
  }
};
template <bool kBackward>
Sizes sizes_of(std::span<const TensorType> in) {
  const std::int64_t length = in[0].shape.back();
  const std::int64_t rows = length == 0 ? 0 : in[0].shape.num_elements() / length;
  const std::int64_t o = in[1].shape[0], k = in[1].shape[1];
  return {rows, kBackward ? k : o, kBackward ? o : k};
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
    Epilogue epilogue = epilogue_;
    if (args.has_in(2)) {
      if (kBackward) {
        epilogue.gate = args.in<T>(2);
      } else {
        epilogue.bias = args.in<float>(2);
      }
    }
    LaunchShape shape;
    shape.grid.x = unsigned(ceil_div<std::int64_t>(sizes_.n, Shape::kN));
    shape.grid.y = unsigned(ceil_div<std::int64_t>(sizes_.m, Shape::kM));
    shape.block.x = Shape::kThreads;
    shape.shared_bytes = Product::kSharedBytes;
    launch(args, shape, fc_kernel<T, Shape, kBackward>, product, epilogue, args.out<T>(0));
  }

 private:
  Sizes sizes_;
  Epilogue epilogue_;
};

template <bool kBackward>
std::unique_ptr<PreparedKernel> prepare(const KernelQuery& query, int) {
  if (query.in[0].dtype == DType::FP16)
    return std::make_unique<FcMma<__half, Shape64x32, kBackward>>(query);
  return std::make_unique<FcMma<__nv_bfloat16, Shape64x32, kBackward>>(query);
}

template <bool kBackward>
std::string refuse(const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (dtype != DType::FP16 && dtype != DType::BF16) {
    return "operands are " + std::string(name_of(dtype)) + ", expected fp16 or bf16";
  }
  if (query.in[1].dtype != dtype || query.out[0].dtype != dtype) {
    return "operands and result are of several dtypes, expected one";
  }
  if (kBackward && query.in.size() > 2 && query.in[2].dtype != dtype &&
      query.in[2].shape.rank() > 0) {
    return "the gate is " + std::string(name_of(query.in[2].dtype)) + ", expected " +
           std::string(name_of(dtype));
  }
  if (!device_has_tensor_cores()) return "the GPU is older than compute capability 8.0";
  const std::string activation =
      query.attrs.contains("activation") ? query.attrs.str("activation") : "";
  if (!activation.empty() && activation_number(activation) < 0) {
    return "there is no functor of activation '" + activation + "'";
  }
  const Sizes sizes = sizes_of<kBackward>(query.in);
  if (sizes.k > std::numeric_limits<int>::max() / 2) return "the sums have 2^30 terms or more";
  if (sizes.tiles() > kMaxTiles) {
    return "there are more than 528 tiles of 64 x 32: the library is faster";
  }
  return "";
}

template <bool kBackward>
KernelDef kernel(const char* op) {
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = std::string("cuda.") + op + ".mma";
  def.refuse = refuse<kBackward>;
  def.prepare = prepare<kBackward>;
  return def;
}

constexpr int kPriority = 20;  // before the library's products, which it refuses to stand in for

const KernelRegistration kFc{kernel<false>("fc"), kPriority};
const KernelRegistration kFcDx{kernel<true>("fc_dx"), kPriority};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// fc and fc_dx of 16-bit operands as one kernel each: product on the tensor cores, bias, activation
// or the activation's derivative in its epilogue. Made for small products, where the launch and the
// way of the operands to the multiprocessors take the time: a tile is small, so that a batch of
// some hundred samples fills the card.
#include <vector>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/mma_tile.cuh"
#include "backend/cuda/scalar.cuh"
#include "backend/elementwise_functors.h"

namespace tr::cuda {
namespace {

using Shape64x32 = TileShape<64, 32, 64, 2, 2, 4>;

/// What happens to a finished sum: y = act(sum + bias), or dx = act'(gate) sum.
struct Epilogue {
  const float* bias = nullptr;
  const void* gate = nullptr;
  int activation = -1;  // number in the functor table; -1: none
  float alpha = 0;
};

/// Calls f(functor) for entry `number` of the functor table: one uniform branch a thread.
template <int kIndex = 0, typename... Functors, typename F>
__device__ void visit(functors::List<Functors...>, int number, float alpha, F&& f) {
  int index = 0;
  (void)((index++ == number ? (f(functors::make<Functors>(alpha)), true) : false) || ...);
}

template <typename Shape, bool kBackward, typename T>
__device__ void finish(const Epilogue& epilogue, TileSums<Shape>& sums, T* y, int m, int n,
                       int num_m, int num_n) {
  const T* gate = static_cast<const T*>(epilogue.gate);
  const bool pairs = num_n % 2 == 0;
  const auto each = [&](auto&& f) {
#pragma unroll
    for (int i = 0; i < Shape::kRows; ++i) {
#pragma unroll
      for (int j = 0; j < Shape::kColumns; ++j) {
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const int row = m + sums.row(i, e), column = n + sums.column(j, e);
          if (row < num_m && column < num_n) f(sums.v[i][j][e], sums.v[i][j][e + 1], row, column);
        }
      }
    }
  };
  if (!kBackward && epilogue.bias != nullptr) {
    each([&](float& first, float& second, int, int column) {
      first += epilogue.bias[column];
      if (column + 1 < num_n) second += epilogue.bias[column + 1];
    });
  }
  if (epilogue.activation >= 0) {
    visit(functors::Table<StdMath>{}, epilogue.activation, epilogue.alpha, [&](auto act) {
      each([&](float& first, float& second, int row, int column) {
        if constexpr (kBackward) {
          const T* at = gate + std::int64_t(row) * num_n + column;
          first = act.grad(to_float(at[0]), first);
          if (column + 1 < num_n) second = act.grad(to_float(at[1]), second);
        } else {
          first = act(first);
          second = act(second);
        }
      });
    });
  }
  each([&](float& first, float& second, int row, int column) {
    T* at = y + std::int64_t(row) * num_n + column;
    if (pairs) {
      *reinterpret_cast<Vector<T, 2>*>(at) = {{from_float<T>(first), from_float<T>(second)}};
      return;
    }
    at[0] = from_float<T>(first);
    if (column + 1 < num_n) at[1] = from_float<T>(second);
  });
}

template <typename T, typename Shape, bool kBackward>
__global__ __launch_bounds__(Shape::kThreads) void fc_kernel(
    TileProduct<T, Shape, Along::K, kBackward ? Along::OUTER : Along::K> product, Epilogue epilogue,
    T* y) {
  extern __shared__ __align__(16) unsigned char shared[];
  TileSums<Shape> sums;
  const int m = int(blockIdx.y) * Shape::kM, n = int(blockIdx.x) * Shape::kN;
  product.run(reinterpret_cast<T*>(shared), m, n, sums, [](const T*, int) {});
  finish<Shape, kBackward>(epilogue, sums, y, m, n, product.num_m, product.num_n);
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
  int m = 0, n = 0, k = 0;
};
template <bool kBackward>
Sizes sizes_of(std::span<const TensorType> in) {
  const std::int64_t length = in[0].shape.back();
  const std::int64_t rows = length == 0 ? 0 : in[0].shape.num_elements() / length;
  const std::int64_t o = in[1].shape[0], k = in[1].shape[1];
  return {int(rows), int(kBackward ? k : o), int(kBackward ? o : k)};
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
    product.num_m = sizes_.m;
    product.num_n = sizes_.n;
    product.num_k = sizes_.k;
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
    shape.grid.x = unsigned(ceil_div(sizes_.n, Shape::kN));
    shape.grid.y = unsigned(ceil_div(sizes_.m, Shape::kM));
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
  if (query.in[0].dtype == DType::FP16) return std::make_unique<FcMma<__half, Shape64x32, kBackward>>(query);
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
  const std::int64_t most = std::int64_t(1) << 31;
  if (query.in[0].shape.num_elements() >= most || query.in[1].shape.num_elements() >= most) {
    return "an operand has 2^31 elements or more";
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

constexpr int kPriority = 5;

const KernelRegistration kFc{kernel<false>("fc"), kPriority};
const KernelRegistration kFcDx{kernel<true>("fc_dx"), kPriority};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// fc and fc_dx of 16-bit operands as one kernel each, like fc_mma.cu, for compute capability 9.0:
// the tensor copy engine brings all of a tile's operands at once, weights before the former kernel
// of the step has ended; a warp group multiplies them as they come; bias and activation act on the
// sums in its registers. A tile is 64 samples by as many features as let the operands come fastest.
#include <algorithm>

#include "backend/cuda/early_start.cuh"
#include "backend/cuda/fc_small.cuh"
#include "backend/cuda/tensor_map.h"
#include "backend/cuda/wgmma.cuh"

namespace tr::cuda {
namespace {

using namespace small_fc;
using tensor_copy::Barrier;
using tensor_copy::SwizzledTile;

constexpr int kM = 64;
constexpr int kDepth = 64;  // of a stage: lines of 128 bytes along K
constexpr int kMostStages = 32;
constexpr int kWarps = wgmma::kThreads / 32;

template <typename T, int kN, bool kBackward>
struct Stage {
  using A = SwizzledTile<T, Along::K, kM, kDepth>;
  using B = SwizzledTile<T, kBackward ? Along::OUTER : Along::K, kN, kDepth>;
  static constexpr int kBytesA = A::kElements * A::kElementBytes;
  static constexpr int kBytes = kBytesA + B::kElements * B::kElementBytes;
};

struct Product {
  CUtensorMap a, b;
  int num_m, num_n, num_k;
  int num_stages;
  bool early_b;  // no node of the step writes b before this one
};

/// Asks for the parts of A and B at `step` into stage `stage`; by one thread.
template <typename S, bool kBackward>
struct Loads {
  const Product& product;
  unsigned char* stages;
  Barrier* loaded;
  int m, n;

  __device__ unsigned char* at(int stage) const { return stages + stage * S::kBytes; }
  __device__ void expect(int stage) const { tensor_copy::expect(loaded[stage], S::kBytes); }
  __device__ void a(int stage, int step) const {
    tensor_copy::load(at(stage), product.a, m, step * kDepth, loaded[stage]);
  }
  __device__ void b(int stage, int step) const {
    const int row = kBackward ? step * kDepth : n, column = kBackward ? n : step * kDepth;
    tensor_copy::load(at(stage) + S::kBytesA, product.b, row, column, loaded[stage]);
  }
};

/// Two neighbours of a row of sums: bias and activation, or the activation's derivative. Not
/// inlined: the table's code stands once.
template <bool kBackward>
__device__ __noinline__ Vector<float, 2> activated(Vector<float, 2> v, Vector<float, 2> gate,
                                                   int activation, float alpha) {
  visit(functors::Table<StdMath>{}, activation, alpha, [&](auto act) {
#pragma unroll
    for (int i = 0; i < 2; ++i) v.v[i] = kBackward ? act.grad(gate.v[i], v.v[i]) : act(v.v[i]);
  });
  return v;
}

/// What a thread does with its part of the sums: wgmma's element 4 j + e is row lane / 4 + e / 2 *
/// 8 of the warp's 16, column 8 j + lane % 4 * 2 + e % 2. Bias and gate are asked for when it is
/// made, so that they are there when the sums are.
template <typename T, int kN, bool kBackward>
class Finish16 {
 public:
  using Pair = Vector<T, 2>;

  __device__ Finish16(const Epilogue& epilogue, const Product& product, T* y, int m, int n)
      : epilogue_(epilogue),
        y_(y),
        row_(m + int(threadIdx.x) / 32 * 16 + int(threadIdx.x) % 32 / 4),
        column_(n + int(threadIdx.x) % 4 * 2),
        num_m_(product.num_m),
        num_n_(product.num_n) {
    if constexpr (kBackward) {
      if (epilogue.activation >= 0) ask_for_gate(static_cast<const T*>(epilogue.gate));
    } else {
      if (epilogue.bias == nullptr) return;
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (column_ + 8 * j + i < num_n_) bias_[j].v[i] = epilogue.bias[column_ + 8 * j + i];
        }
      }
    }
  }

  __device__ void operator()(const float (&sums)[kN / 2]) const {
    const bool relu = epilogue_.activation == number_of<functors::Relu<StdMath>>();
#pragma unroll
    for (int j = 0; j < kN / 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        Vector<float, 2> v = {{sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]}};
        Vector<float, 2> gate{};
        if constexpr (kBackward) {
          gate = {{to_float(gate_[j][half].v[0]), to_float(gate_[j][half].v[1])}};
        } else {
          v.v[0] += bias_[j].v[0];
          v.v[1] += bias_[j].v[1];
        }
        if (relu) {  // the commonest stands in the loop
          const functors::Relu<StdMath> act{};
#pragma unroll
          for (int i = 0; i < 2; ++i)
            v.v[i] = kBackward ? act.grad(gate.v[i], v.v[i]) : act(v.v[i]);
        } else if (epilogue_.activation >= 0) {
          v = activated<kBackward>(v, gate, epilogue_.activation, epilogue_.alpha);
        }
        store(j, half, {{from_float<T>(v.v[0]), from_float<T>(v.v[1])}});
      }
    }
  }

 private:
  __device__ std::int64_t at(int j, int half) const {
    return std::int64_t(row_ + 8 * half) * num_n_ + column_ + 8 * j;
  }
  __device__ bool pairs() const { return num_n_ % 2 == 0; }

  __device__ bool inside(int j, int half) const {
    return row_ + 8 * half < num_m_ && column_ + 8 * j < num_n_;
  }

  /// One way for whole pairs, without a look at what came: all are under way at once.
  __device__ void ask_for_gate(const T* gate) {
    if (pairs()) {
#pragma unroll
      for (int j = 0; j < kN / 8; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          if (inside(j, half)) gate_[j][half] = *reinterpret_cast<const Pair*>(gate + at(j, half));
        }
      }
      return;
    }
    for (int j = 0; j < kN / 8; ++j) {
      for (int half = 0; half < 2; ++half) {
        for (int i = 0; i < 2; ++i) {
          if (inside(j, half) && column_ + 8 * j + i < num_n_) {
            gate_[j][half].v[i] = gate[at(j, half) + i];
          }
        }
      }
    }
  }
  __device__ void store(int j, int half, Pair pair) const {
    if (!inside(j, half)) return;
    T* to = y_ + at(j, half);
    if (pairs()) {
      *reinterpret_cast<Pair*>(to) = pair;
    } else {
      to[0] = pair.v[0];
      if (column_ + 8 * j + 1 < num_n_) to[1] = pair.v[1];
    }
  }

  const Epilogue& epilogue_;
  T* y_;
  int row_, column_, num_m_, num_n_;
  Pair gate_[kN / 8][2] = {};
  Vector<float, 2> bias_[kN / 8] = {};
};

template <typename T, int kN, bool kBackward>
__global__ __launch_bounds__(wgmma::kThreads) void fc_wgmma_kernel(
    const __grid_constant__ Product product, const __grid_constant__ Epilogue epilogue, T* y) {
  using S = Stage<T, kN, kBackward>;
  extern __shared__ unsigned char bytes[];
  __shared__ Barrier loaded[kMostStages];
  const int m = int(blockIdx.y) * kM, n = int(blockIdx.x) * kN;
  const int steps = (product.num_k + kDepth - 1) / kDepth;
  const int first = min(steps, product.num_stages), warp = int(threadIdx.x) / 32;
  const Loads<S, kBackward> loads{
      product, bytes + (1024 - mma::shared_address(bytes) % 1024) % 1024, loaded, m, n};

  let_successors_start();
  // A lane of each warp asks for some of the stages: one thread alone would take 200 cycles for
  // each.
  const bool asks = threadIdx.x % 32 == 0;
  if (asks) {
    for (int s = warp; s < first; s += kWarps) tensor_copy::init(loaded[s]);
    tensor_copy::publish_barriers();
    for (int s = warp; s < first; s += kWarps) {
      loads.expect(s);
      if (product.early_b) loads.b(s, s);
    }
  }
  wait_for_predecessors();
  if (asks) {
    for (int s = warp; s < first; s += kWarps) {
      loads.a(s, s);
      if (!product.early_b) loads.b(s, s);
    }
  }
  const Finish16<T, kN, kBackward> finish(epilogue, product, y, m, n);
  float sums[kN / 2] = {};
  __syncthreads();  // the barriers are there
  int stage = 0, parity = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    tensor_copy::wait(loaded[stage], parity);
    const unsigned char* tile = loads.at(stage);
    wgmma::begin();
    wgmma::multiply_stage<typename S::A, typename S::B, kDepth>(sums, tile, tile + S::kBytesA, T{});
    wgmma::commit();
    if (const int next = step + product.num_stages; next < steps) {
      wgmma::wait<0>();
      __syncthreads();  // all warps are through with the stage
      if (threadIdx.x == 0) {
        loads.expect(stage);
        loads.a(stage, next);
        loads.b(stage, next);
      }
    }
    if (++stage == product.num_stages) {
      stage = 0;
      parity ^= 1;
    }
  }
  wgmma::wait<0>();
  finish(sums);
}

constexpr int kMostBytes = 225 * 1024;  // a block may have 227 KiB, barriers included

template <typename T, int kN, bool kBackward>
class FcWgmma final : public PreparedKernel {
 public:
  using S = Stage<T, kN, kBackward>;

  explicit FcWgmma(const KernelQuery& query)
      : dtype_(query.in[0].dtype),
        sizes_(sizes_of<kBackward>(query.in)),
        epilogue_(epilogue_of(query.attrs)),
        stages_(int(std::min<std::int64_t>({ceil_div<std::int64_t>(sizes_.k, kDepth), kMostStages,
                                            (kMostBytes - 1024) / S::kBytes}))) {
    TR_CUDA(cudaFuncSetAttribute(fc_wgmma_kernel<T, kN, kBackward>,
                                 cudaFuncAttributeMaxDynamicSharedMemorySize, kMostBytes));
  }

  void run(const KernelArgs& args) const override {
    if (sizes_.m == 0 || sizes_.n == 0) return;
    const BoxedMatrix a{args.in<T>(0), dtype_, sizes_.m, sizes_.k, kM, kDepth};
    const BoxedMatrix b = kBackward
                              ? BoxedMatrix{args.in<T>(1), dtype_, sizes_.k, sizes_.n, kDepth, kN}
                              : BoxedMatrix{args.in<T>(1), dtype_, sizes_.n, sizes_.k, kN, kDepth};
    Product product{make_tensor_map(a), make_tensor_map(b), int(sizes_.m),
                    int(sizes_.n),      int(sizes_.k),      stages_,
                    args.settled_in(1)};
    LaunchShape shape;
    shape.grid.x = unsigned(ceil_div<std::int64_t>(sizes_.n, kN));
    shape.grid.y = unsigned(ceil_div<std::int64_t>(sizes_.m, kM));
    shape.block.x = wgmma::kThreads;
    shape.shared_bytes = std::size_t(stages_ * S::kBytes + 1024);
    launch(args, shape, fc_wgmma_kernel<T, kN, kBackward>, product,
           with_inputs<kBackward, T>(epilogue_, args), args.out<T>(0));
  }

 private:
  DType dtype_;
  Sizes sizes_;
  Epilogue epilogue_;
  int stages_;
};

/// Cycles until the operands have come: a multiprocessor takes 65 bytes a cycle, all of them
/// together 4900 (measured on an H200).
std::int64_t cycles_of(const Sizes& sizes, int n) {
  int device = 0, multiprocessors = 0;
  TR_CUDA(cudaGetDevice(&device));
  TR_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device));
  const std::int64_t tiles = sizes.tiles(kM, n), tile_bytes = 2 * sizes.k * (kM + n);
  return std::max(ceil_div<std::int64_t>(tiles, multiprocessors) * tile_bytes / 65,
                  tiles * tile_bytes / 4900);
}

/// The tile whose operands come first. All give the same bytes.
template <typename T, bool kBackward>
std::unique_ptr<PreparedKernel> prepare_typed(const KernelQuery& query) {
  const Sizes sizes = sizes_of<kBackward>(query.in);
  const std::int64_t of16 = cycles_of(sizes, 16), of32 = cycles_of(sizes, 32),
                     of64 = cycles_of(sizes, 64);
  if (of64 < std::min(of32, of16)) return std::make_unique<FcWgmma<T, 64, kBackward>>(query);
  if (of32 < of16) return std::make_unique<FcWgmma<T, 32, kBackward>>(query);
  return std::make_unique<FcWgmma<T, 16, kBackward>>(query);
}

template <bool kBackward>
std::unique_ptr<PreparedKernel> prepare(const KernelQuery& query, int) {
  if (query.in[0].dtype == DType::FP16) return prepare_typed<__half, kBackward>(query);
  return prepare_typed<__nv_bfloat16, kBackward>(query);
}

template <bool kBackward>
std::string refuse(const KernelQuery& query) {
  const Sizes sizes = sizes_of<kBackward>(query.in);
  if (sizes.k == 0) return "the sums have no terms";
  if (sizes.k % mma::kChunk != 0 || (kBackward && sizes.n % mma::kChunk != 0)) {
    return "rows of an operand are no multiple of 16 bytes long";
  }
  if (const std::string reason = refuse_shape<kBackward>(query); !reason.empty()) return reason;
  const auto* kernel = reinterpret_cast<const void*>(fc_wgmma_kernel<__half, 16, false>);
  if (!wgmma::has_image(kernel)) return "the GPU is not of compute capability 9.0";
  return "";
}

template <bool kBackward>
KernelDef kernel(const char* op) {
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = std::string("cuda.") + op + ".wgmma";
  def.early_start = true;
  def.refuse = refuse<kBackward>;
  def.prepare = prepare<kBackward>;
  return def;
}

constexpr int kPriority = 30;  // before fc_mma.cu

const KernelRegistration kFc{kernel<false>("fc"), kPriority};
const KernelRegistration kFcDx{kernel<true>("fc_dx"), kPriority};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// A convolution with 1x1 windows at stride 1 is a product [pixels, in] x [in, out]; where memory
// decides its time, this kernel makes it with the sums that batch norm wants, so that nobody reads
// y again for them. Compute capability 9.0: a block keeps the weights of its channels in shared
// memory and walks down the pixels; one warp asks the tensor copy engine for what comes next, two
// warp groups multiply and sum.
#include <algorithm>

#include "backend/cuda/channel_map.cuh"
#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/tensor_map.h"
#include "backend/cuda/tensor_ring.cuh"
#include "backend/cuda/wgmma.cuh"
#include "ops/conv_geometry.h"

namespace tr::cuda {
namespace {

constexpr int kGroups = 2;           // of warps that multiply
constexpr int kRows = 64 * kGroups;  // pixels of a tile
constexpr int kDepth = 64;           // of a stage: lines of 128 bytes along the channels of x
constexpr int kStages = 4;           // of x
constexpr int kConsumers = wgmma::kThreads * kGroups, kThreads = kConsumers + 32;
constexpr int kGroupWarps = wgmma::kThreads / 32;
constexpr std::int64_t kBlocks = 132;  // a constant, since sums are cut by it
constexpr int kLineBytes = 128;
constexpr int kStageBytes = kRows * kLineBytes;
constexpr int kSlabBytes = 64 * kLineBytes;  // of weights: 64 channels, 64 terms
constexpr std::int64_t kMostWeightBytes = 128 * 1024;

struct Pointwise {
  CUtensorMap x;
  std::int64_t pixels;
  int in, out;
  int tiles, steps;  // of pixels; of terms
  int columns;       // tiles of channels: blocks side by side have the same pixels
};

using Slab = tensor_copy::SwizzledTile<__half, Along::K, 64, kDepth>;  // any 16-bit values

/// The weights of kN channels from `first` on: slabs [terms / 64][channels / 64]. Lines are dealt
/// out so that a thread's sums are those of 8 neighbouring channels (channel_of). By the warps that
/// multiply.
template <typename T, int kN>
__device__ void load_weights(const T* weight, const Pointwise& p, int first, unsigned char* slabs) {
  const int chunks = p.steps * (kDepth / 8);
  constexpr int kInFlight = 8;
  for (int base = int(threadIdx.x); base < kN * chunks; base += kInFlight * kConsumers) {
    Vector<T, 8> values[kInFlight];
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const int i = base + u * kConsumers, line = i / chunks, k = i % chunks * 8;
#pragma unroll
      for (int j = 0; j < 8; ++j) values[u].v[j] = from_float<T>(0);
      if (i >= kN * chunks || k >= p.in) continue;
      const int channel = first + channel_of(line / 8, line % 8);
      values[u] = load<8>(weight + std::int64_t(channel) * p.in + k);
    }
#pragma unroll
    for (int u = 0; u < kInFlight; ++u) {
      const int i = base + u * kConsumers, line = i / chunks, k = i % chunks * 8;
      if (i >= kN * chunks) continue;
      unsigned char* slab = slabs + (k / kDepth * (kN / 64) + line / 64) * kSlabBytes;
      const int chunk = (k % kDepth / 8) ^ (line % 8);  // as the copy engine exchanges them
      store(reinterpret_cast<T*>(slab + line % 64 * kLineBytes + chunk * 16), values[u]);
    }
  }
}

/// A barrier of the warps that multiply.
__device__ void meet_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory"); }

/// y of kN channels of tiles of 128 pixels, and partial[slice, 0 or 1, channel].
template <typename T, int kN>
__global__ void __launch_bounds__(kThreads, 1)
    pointwise_kernel(const __grid_constant__ Pointwise p, const T* weight, T* y, float* partial) {
  constexpr int kSlabs = kN / 64;
  extern __shared__ unsigned char bytes[];
  __shared__ TensorRing<kStages> ring;
  unsigned char* stages = bytes + (1024 - mma::shared_address(bytes) % 1024) % 1024;
  unsigned char* weights = stages + kStages * kStageBytes;
  const int first = int(blockIdx.x) % p.columns * kN;
  const int slice = int(blockIdx.x) / p.columns, slices = int(gridDim.x) / p.columns;
  const int warp = int(threadIdx.x) / 32, lane = int(threadIdx.x) % 32;

  if (threadIdx.x == 0) ring.init(kGroups);
  __syncthreads();
  if (warp == kGroups * kGroupWarps) {
    if (lane == 0) {
      RingPlace<kStages> place;
      for (int tile = slice; tile < p.tiles; tile += slices) {
        for (int step = 0; step < p.steps; ++step, place.advance()) {
          ring.wait_free(place);
          tensor_copy::expect(ring.full[place.stage], kStageBytes);
          tensor_copy::load(stages + place.stage * kStageBytes, p.x, tile * kRows, step * kDepth,
                            ring.full[place.stage]);
        }
      }
    }
    __syncwarp();
    __syncthreads();  // of the sums
    return;
  }

  load_weights<T, kN>(weight, p, first, weights);
  tensor_copy::hand_over();
  meet_consumers();
  const int group = warp / kGroupWarps;
  ChannelSums<kN / 4, kGroups * kGroupWarps, kN> sums;
  RingPlace<kStages> place;
  for (int tile = slice; tile < p.tiles; tile += slices) {
    float c[kSlabs][32] = {};
    for (int step = 0; step < p.steps; ++step, place.advance()) {
      ring.wait_full(place);
      const unsigned char* a = stages + place.stage * kStageBytes + group * kSlabBytes;
      const unsigned char* b = weights + step * kSlabs * kSlabBytes;
      wgmma::begin();
#pragma unroll
      for (int n = 0; n < kSlabs; ++n) {
        wgmma::multiply_stage<Slab, Slab, kDepth>(c[n], a, b + n * kSlabBytes, T{});
      }
      wgmma::commit();
      wgmma::wait<0>();
      if (threadIdx.x % wgmma::kThreads == 0) ring.release(place);
    }
    const int row = group * 64 + warp % kGroupWarps * 16 + lane / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t pixel = std::int64_t(tile) * kRows + row + 8 * half;
      T* to = y + pixel * p.out + first + lane % 4 * 8;
#pragma unroll
      for (int q = 0; q < kN / 32; ++q) {
        Vector<T, 8> out;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float value = c[q / 2][q % 2 * 16 + i / 2 * 4 + 2 * half + i % 2];
          out.v[i] = from_float<T>(value);
          sums.add(q * 8 + i, value);  // rows behind the last are zero
        }
        if (pixel < p.pixels) store(to + q * 32, out);
      }
    }
  }
  sums.finish(partial + std::int64_t(slice) * 2 * p.out + first, p.out, warp, 0);
}

/// How a problem is cut; nothing of it depends on the device.
struct Cut {
  int channels;  // of a block
  std::int64_t columns, slices, weight_bytes;

  static Cut of(const ConvGeometry& g) {
    const std::int64_t steps = ceil_div<std::int64_t>(g.channels, kDepth);
    const std::int64_t tiles = ceil_div<std::int64_t>(g.batch * g.height * g.width, kRows);
    Cut cut;
    cut.channels =
        g.out_channels % 128 == 0 && steps * 128 * kLineBytes <= kMostWeightBytes ? 128 : 64;
    cut.columns = g.out_channels / cut.channels;
    cut.slices =
        std::clamp<std::int64_t>(kBlocks / std::max<std::int64_t>(cut.columns, 1), 1, tiles);
    cut.weight_bytes = steps * cut.channels * kLineBytes;
    return cut;
  }
  std::size_t shared_bytes() const {
    return std::size_t(kStages * kStageBytes + weight_bytes + 1024);
  }
};

template <typename T, int kN>
void launch_typed(const KernelArgs& args, const ConvGeometry& g, const Cut& cut) {
  Pointwise p{};
  p.pixels = g.batch * g.height * g.width;
  p.in = int(g.channels);
  p.out = int(g.out_channels);
  p.tiles = int(ceil_div<std::int64_t>(p.pixels, kRows));
  p.steps = int(ceil_div<std::int64_t>(g.channels, kDepth));
  p.columns = int(cut.columns);
  p.x =
      make_tensor_map({args.in<T>(0), args.in_type(0).dtype, p.pixels, g.channels, kRows, kDepth});
  LaunchShape shape;
  shape.grid.x = unsigned(cut.columns * cut.slices);
  shape.block.x = kThreads;
  shape.shared_bytes = cut.shared_bytes();
  TR_CUDA(cudaFuncSetAttribute(pointwise_kernel<T, kN>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(shape.shared_bytes)));
  launch(args, shape, pointwise_kernel<T, kN>, p, args.in<T>(1), args.out<T>(0),
         reinterpret_cast<float*>(args.workspace()));
}

void launch_pointwise(const KernelArgs& args) {
  const ConvGeometry g = conv_geometry(args.attrs(), args.in_type(0));
  const Cut cut = Cut::of(g);
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (cut.channels == 128) return launch_typed<T, 128>(args, g, cut);
    launch_typed<T, 64>(args, g, cut);
  });
  launch_finish_sums(args,
                     PartialSums{reinterpret_cast<const float*>(args.workspace()), cut.slices},
                     g.out_channels, StoreSums{args.out<float>(1), g.out_channels});
}

std::int64_t workspace_bytes(const KernelQuery& query) {
  const ConvGeometry g = conv_geometry(query.attrs, query.in[0]);
  return Cut::of(g).slices * 2 * g.out_channels * std::int64_t(sizeof(float));
}

/// Multiply-adds for each element that goes to memory, above which the tensor cores decide the
/// time: a library's product with a pass for the sums is as fast there.
constexpr std::int64_t kMostIntensity = 128;

std::string refuse(const KernelQuery& query) {
  const TensorType& x = query.in[0];
  if (size_of(x.dtype) != 2) return "its operands are 16 bits wide";
  const ConvGeometry g = conv_geometry(query.attrs, x);
  const bool fits = g.kernel[0] == 1 && g.kernel[1] == 1 && g.stride[0] == 1 && g.stride[1] == 1 &&
                    g.padding[0] == 0 && g.padding[1] == 0 && g.groups == 1;
  if (!fits) return "it is for 1x1 windows at stride 1 without padding or groups";
  if (query.attrs.flag("bias")) return "it adds no bias";
  if (g.channels % 8 != 0 || g.out_channels % 64 != 0) {
    return "expected a multiple of 8 channels to a multiple of 64";
  }
  if (Cut::of(g).weight_bytes > kMostWeightBytes) return "the weights exceed shared memory";
  if (g.channels * g.out_channels > kMostIntensity * (g.channels + g.out_channels)) {
    return "the product takes longer than its operands' way through memory";
  }
  const std::int64_t pixels = g.batch * g.height * g.width;
  if (pixels == 0 || pixels > INT32_MAX) return "the number of pixels is 0 or above 2^31";
  const auto* kernel = reinterpret_cast<const void*>(pointwise_kernel<__half, 64>);
  return wgmma::has_image(kernel) ? "" : "the GPU is not of compute capability 9.0";
}

KernelDef statistics_kernel() {
  KernelDef def = simple_kernel("conv_statistics", launch_pointwise, refuse);
  def.name = "cuda.conv_statistics.pointwise";
  def.workspace_bytes = workspace_bytes;
  return def;
}

const KernelRegistration kStatistics{statistics_kernel(), 20};

}  // namespace
}  // namespace tr::cuda

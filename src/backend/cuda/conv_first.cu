// SPDX-License-Identifier: Apache-2.0
// A network's first convolution, 3x3 over pictures of 3 channels (conv_first.cuh): y with the sums
// that batch norm wants, and the weights' gradient. The time is that of writing y, or of reading
// dy.
#include "backend/cuda/conv_first.cuh"

#include "backend/cuda/channel_map.cuh"
#include "backend/cuda/dispatch_16_bit.h"

namespace tr::cuda {
namespace {

using namespace first_conv;

/// y of 64 channels (block y) of tiles of 256 pixels (blocks x take turns); warp: 32 pixels.
template <typename T, bool kSums>
__global__ void __launch_bounds__(kThreads, 2)
    first_forward_kernel(const T* x, const T* weight, T* y, float* partial, FirstShape s) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const Weights<T> weights(weight);
  ChannelSums<16, kWarpsOfBlock, kOut> sums;
  const std::int64_t start = std::int64_t(blockIdx.x) * kForwardPixels;
  const std::int64_t step = std::int64_t(gridDim.x) * kForwardPixels;
  Terms<T> terms;
  terms.load(x, s, start + threadIdx.x);
  for (std::int64_t base = start; base < s.pixels; base += step) {
    terms.store(rows + threadIdx.x * kRowStride);
    __syncthreads();
    terms.load(x, s, base + step + threadIdx.x);  // of the next tile
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int first = warp * 32 + m * 16;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        float c[4][4] = {};
        weights.multiply(rows + first * kRowStride, part, c);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::int64_t p = base + first + g + 8 * half;
          if (p >= s.pixels) continue;
          Vector<T, 8> out;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float value = c[i / 2][2 * half + i % 2];
            out.v[i] = from_float<T>(value);
            if constexpr (kSums) sums.add(part * 8 + i, value);
          }
          store(y + p * s.out_channels + blockIdx.y * kOut + part * 32 + t * 8, out);
        }
      }
    }
    __syncthreads();  // the rows are read
  }
  if constexpr (kSums)
    sums.finish(place_of_sums(partial, s.out_channels, kOut), s.out_channels, warp, 0);
}

/// partial[block x, channel, term] of 64 channels (block y) over tiles of 128 pixels; warp: 16
/// pixels, all channels and terms.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    first_weight_kernel(const T* dy, const T* x, float* partial, FirstShape s) {
  __shared__ __align__(16) T rows[kWeightPixels * kRowStride];
  __shared__ __align__(16) T dys[kWeightPixels * kDyStride];
  const int warp = int(threadIdx.x) / 32;
  WeightSums<T> sums;
  for (std::int64_t base = std::int64_t(blockIdx.x) * kWeightPixels; base < s.pixels;
       base += std::int64_t(gridDim.x) * kWeightPixels) {
    for (int i = int(threadIdx.x); i < kWeightPixels * kOut / 8; i += kThreads) {
      const int pixel = i / (kOut / 8), chunk = i % (kOut / 8);
      Vector<T, 8> values;
#pragma unroll
      for (int j = 0; j < 8; ++j) values.v[j] = from_float<T>(0);
      const std::int64_t p = base + pixel;
      if (p < s.pixels) {
        values = load<8>(dy + p * s.out_channels + blockIdx.y * kOut + chunk * 8);
      }
      store(dys + pixel * kDyStride + chunk * 8, values);
    }
    if (threadIdx.x < kWeightPixels) {
      gather_row(x, s, base + threadIdx.x, rows + threadIdx.x * kRowStride);
    }
    __syncthreads();
    sums.add(rows + warp * 16 * kRowStride, dys + warp * 16 * kDyStride);
    __syncthreads();
  }
  static_assert(sizeof(dys) >= sizeof(float) * kOut * kTerms);
  sums.finish(reinterpret_cast<float*>(dys), partial, s.out_channels);
}

void launch_forward(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(0)));
  const LaunchShape shape = blocks_of(s, kForwardPixels);
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.num_out() == 1) {
      launch(args, shape, first_forward_kernel<T, false>, args.in<T>(0), args.in<T>(1),
             args.out<T>(0), nullptr, s);
      return;
    }
    launch(args, shape, first_forward_kernel<T, true>, args.in<T>(0), args.in<T>(1), args.out<T>(0),
           partial, s);
    launch_finish_sums(args, PartialSums{partial, shape.grid.x}, s.out_channels,
                       StoreSums{args.out<float>(1), s.out_channels});
  });
}

std::int64_t forward_workspace(const KernelQuery& query) {
  if (query.out.size() == 1) return 0;
  const FirstShape s = FirstShape::of(conv_geometry(query.attrs, query.in[0]));
  return std::int64_t(blocks_of(s, kForwardPixels).grid.x) * 2 * s.out_channels *
         std::int64_t(sizeof(float));
}

void launch_weight(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(1)));
  const BlockSumsLayout layout = weight_layout(s);
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(args, blocks_of(s, kWeightPixels), first_weight_kernel<T>, args.in<T>(0), args.in<T>(1),
           partial, s);
  });
  layout.sums.run(args, partial, args.out<float>(0), args.workspace() + layout.rest);
}

KernelDef first_kernel(const std::string& op, void (*launch)(const KernelArgs&), std::size_t x,
                       std::int64_t (*workspace)(const KernelQuery&)) {
  KernelDef def =
      simple_kernel(op, launch, [x](const KernelQuery& query) { return refuse(query, x); });
  def.name = "cuda." + op + ".first";
  def.workspace_bytes = workspace;
  return def;
}

std::int64_t weight_workspace(const KernelQuery& query) {
  return weight_layout(FirstShape::of(conv_geometry(query.attrs, query.in[1]))).bytes;
}

constexpr int kPriority = 20;  // above cuDNN's
const KernelRegistration kForward{first_kernel("conv", launch_forward, 0, forward_workspace),
                                  kPriority};
const KernelRegistration kStatistics{
    first_kernel("conv_statistics", launch_forward, 0, forward_workspace), kPriority};
const KernelRegistration kWeight{first_kernel("conv_dweight", launch_weight, 1, weight_workspace),
                                 kPriority};

}  // namespace
}  // namespace tr::cuda

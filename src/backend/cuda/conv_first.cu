// SPDX-License-Identifier: Apache-2.0
// A network's first convolution, 3x3 over pictures of 3 channels (conv_first.cuh): y with the sums
// that batch norm wants, and the weights' gradient. The time is that of writing y, or of reading
// dy.
#include "backend/cuda/conv_first_weight.cuh"

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
    __syncwarp();                                 // a warp multiplies its own pixels
    terms.load(x, s, base + step + threadIdx.x);  // of the next tile
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int first = warp * 32 + m * 16;
      const RowsOf16 pixels(rows + first * kRowStride);
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        float c[4][4] = {};
        weights.multiply(pixels, part, c);
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
    __syncwarp();  // the rows are read
  }
  if constexpr (kSums)
    sums.finish(place_of_sums(partial, s.out_channels, kOut), s.out_channels, warp, 0);
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

/// The sums of the terms become the weights' gradient as they are.
__global__ void __launch_bounds__(kRow* kBlocksDown)
    finish_weight_kernel(const float* partial, std::int64_t blocks, float* dweight) {
  const double sum = sum_of_blocks(partial, blocks);
  const int term = term_of(int(threadIdx.x));
  if (threadIdx.y == 0 && term >= 0) dweight[blockIdx.x * kTerms + term] = float(sum);
}

void launch_weight(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(1)));
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_term_sums<T>(args, {args.in<T>(0), nullptr, args.in<T>(1), partial}, s);
  });
  launch(args, finish_shape(s), finish_weight_kernel, partial, weight_blocks(s).grid.x,
         args.out<float>(0));
}

using Refuse = std::string (*)(const KernelQuery&, std::size_t);

KernelDef first_kernel(const std::string& op, void (*launch)(const KernelArgs&), std::size_t x,
                       Refuse refuse, std::int64_t (*workspace)(const KernelQuery&)) {
  KernelDef def =
      simple_kernel(op, launch, [x, refuse](const KernelQuery& query) { return refuse(query, x); });
  def.name = "cuda." + op + ".first";
  def.workspace_bytes = workspace;
  return def;
}

std::int64_t weight_workspace(const KernelQuery& query) {
  return term_sums_bytes(FirstShape::of(conv_geometry(query.attrs, query.in[1])));
}

constexpr int kPriority = 20;  // above cuDNN's
const KernelRegistration kForward{
    first_kernel("conv", launch_forward, 0, refuse, forward_workspace), kPriority};
const KernelRegistration kStatistics{
    first_kernel("conv_statistics", launch_forward, 0, refuse, forward_workspace), kPriority};
const KernelRegistration kWeight{
    first_kernel("conv_dweight", launch_weight, 1, refuse_sums, weight_workspace), kPriority};

}  // namespace
}  // namespace tr::cuda

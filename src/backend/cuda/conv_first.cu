// SPDX-License-Identifier: Apache-2.0
// A network's first convolution, 3x3 over pictures of 3 channels, on the tensor cores: y with the
// sums that batch norm wants, and the weights' gradient. 27 terms a pixel are too few for
// libraries' tiles; here each pixel's terms are gathered once, into a row of 32 in shared memory,
// and the time is that of writing y, or of reading dy.
#include "backend/cuda/channel_map.cuh"
#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/fc_epilogue.h"
#include "backend/cuda/mma_instructions.cuh"
#include "backend/cuda/workspace_layout.h"
#include "ops/conv_geometry.h"

namespace tr::cuda {
namespace {

constexpr int kIn = 3, kTaps = 9, kTerms = kIn * kTaps;
constexpr int kRow = 32;                          // terms, filled up with zeros
constexpr int kRowStride = kRow + mma::kPadding;  // of a row in shared memory
constexpr int kOut = 64;                          // channels of a block
constexpr int kThreads = 256, kWarpsOfBlock = kThreads / 32;
constexpr int kForwardPixels = kThreads;  // of a tile
constexpr int kWeightPixels = 16 * kWarpsOfBlock;
constexpr std::int64_t kBlocks = 264;  // a constant, since sums are cut by it

struct FirstShape {
  int height, width, out_height, out_width, stride_h, stride_w, padding_h, padding_w;
  std::int64_t pixels;  // of y
  std::int64_t out_channels;

  static FirstShape of(const ConvGeometry& g) {
    return {int(g.height),     int(g.width),      int(g.out_height),
            int(g.out_width),  int(g.stride[0]),  int(g.stride[1]),
            int(g.padding[0]), int(g.padding[1]), g.batch * g.out_height * g.out_width,
            g.out_channels};
  }
};

/// The terms of pixel `p` of y, (window cell, channel), to `row` in shared memory; zeros outside of
/// the picture, behind the last term, and for pixels that do not exist.
template <typename T>
__device__ void gather_row(const T* x, const FirstShape& s, std::int64_t p, T* row) {
  T terms[kRow];
#pragma unroll
  for (int i = 0; i < kRow; ++i) terms[i] = from_float<T>(0);
  if (p < s.pixels) {
    const auto pixel = std::uint32_t(p);
    const std::uint32_t line = pixel / std::uint32_t(s.out_width);
    const std::uint32_t n = line / std::uint32_t(s.out_height);
    const int h0 = int(line - n * std::uint32_t(s.out_height)) * s.stride_h - s.padding_h;
    const int w0 = int(pixel - line * std::uint32_t(s.out_width)) * s.stride_w - s.padding_w;
    const T* picture = x + std::int64_t(n) * s.height * s.width * kIn;
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
      const int h = h0 + tap / 3, w = w0 + tap % 3;
      if (unsigned(h) >= unsigned(s.height) || unsigned(w) >= unsigned(s.width)) continue;
      const T* from = picture + (std::int64_t(h) * s.width + w) * kIn;
#pragma unroll
      for (int c = 0; c < kIn; ++c) terms[tap * kIn + c] = from[c];
    }
  }
#pragma unroll
  for (int i = 0; i < kRow; i += 8) {
    Vector<T, 8> some;
#pragma unroll
    for (int j = 0; j < 8; ++j) some.v[j] = terms[i + j];
    store(row + i, some);
  }
}

/// y of 64 channels (block y) of tiles of 256 pixels (blocks x take turns); warp: 32 pixels.
template <typename T, bool kSums>
__global__ void __launch_bounds__(kThreads, 2)
    first_forward_kernel(const T* x, const T* weight, T* y, float* partial, FirstShape s) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const T* own = weight + std::int64_t(blockIdx.y) * kOut * kTerms;
  std::uint32_t b[2][8][2];
#pragma unroll
  for (int k = 0; k < 2; ++k) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int term = k * 16 + half * 8 + 2 * t;
        const T* from = own + channel_of(j, g) * kTerms + term;
        b[k][j][half] = packed(term < kTerms ? from[0] : from_float<T>(0),
                               term + 1 < kTerms ? from[1] : from_float<T>(0));
      }
    }
  }
  ChannelSums<16, kWarpsOfBlock, kOut> sums;
  for (std::int64_t base = std::int64_t(blockIdx.x) * kForwardPixels; base < s.pixels;
       base += std::int64_t(gridDim.x) * kForwardPixels) {
    gather_row(x, s, base + threadIdx.x, rows + threadIdx.x * kRowStride);
    __syncthreads();
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const int first = warp * 32 + m * 16;
      float c[8][4] = {};
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        std::uint32_t a[4];
        mma::load_matrices<false>(a,
                                  rows + (first + lane % 16) * kRowStride + k * 16 + lane / 16 * 8);
#pragma unroll
        for (int j = 0; j < 8; ++j) mma::multiply(c[j], a, b[k][j][0], b[k][j][1], T());
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t p = base + first + g + 8 * half;
        if (p >= s.pixels) continue;
        T* to = y + p * s.out_channels + blockIdx.y * kOut + t * 8;
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          Vector<T, 8> out;
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float value = c[part * 4 + i / 2][2 * half + i % 2];
            out.v[i] = from_float<T>(value);
            if constexpr (kSums) sums.add(part * 8 + i, value);
          }
          store(to + part * 32, out);
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
  constexpr int kDyStride = kOut + mma::kPadding;
  __shared__ __align__(16) T rows[kWeightPixels * kRowStride];
  __shared__ __align__(16) T dys[kWeightPixels * kDyStride];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  float c[4][4][4] = {};
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
    const int matrix = lane / 8, first = warp * 16 + lane % 8;
    std::uint32_t b[2][4];
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      mma::load_matrices<true>(
          b[n], rows + (first + matrix % 2 * 8) * kRowStride + n * 16 + matrix / 2 * 8);
    }
#pragma unroll
    for (int m = 0; m < 4; ++m) {
      std::uint32_t a[4];
      mma::load_matrices<true>(
          a, dys + (first + matrix / 2 * 8) * kDyStride + m * 16 + matrix % 2 * 8);
#pragma unroll
      for (int n = 0; n < 4; ++n) {
        mma::multiply(c[m][n], a, b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1], T());
      }
    }
    __syncthreads();
  }
  // The warps' sums, one warp after the other.
  auto* total = reinterpret_cast<float*>(dys);  // [kOut, kTerms]
  static_assert(sizeof(dys) >= sizeof(float) * kOut * kTerms);
  for (int turn = 0; turn < kWarpsOfBlock; ++turn) {
    if (warp == turn) {
#pragma unroll
      for (int m = 0; m < 4; ++m) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int channel = m * 16 + lane / 4 + e / 2 * 8;
            const int term = n * 8 + lane % 4 * 2 + e % 2;
            if (term >= kTerms) continue;
            float& sum = total[channel * kTerms + term];
            sum = (turn == 0 ? 0 : sum) + c[m][n][e];
          }
        }
      }
    }
    __syncthreads();
  }
  float* to = partial + (blockIdx.x * s.out_channels + std::int64_t(blockIdx.y) * kOut) * kTerms;
  for (int i = int(threadIdx.x); i < kOut * kTerms; i += kThreads) to[i] = total[i];
}

/// Blocks that take tiles in turns, for every 64 channels.
LaunchShape blocks_of(const FirstShape& s, int pixels_of_tile) {
  LaunchShape shape;
  shape.block.x = kThreads;
  shape.grid.x =
      unsigned(std::min<std::int64_t>(kBlocks, ceil_div<std::int64_t>(s.pixels, pixels_of_tile)));
  shape.grid.y = unsigned(s.out_channels / kOut);
  return shape;
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
    launch_finish_sums(args, partial, shape.grid.x, s.out_channels,
                       StoreSums{args.out<float>(1), s.out_channels});
  });
}

std::int64_t forward_workspace(const KernelQuery& query) {
  if (query.out.size() == 1) return 0;
  const FirstShape s = FirstShape::of(conv_geometry(query.attrs, query.in[0]));
  return std::int64_t(blocks_of(s, kForwardPixels).grid.x) * 2 * s.out_channels *
         std::int64_t(sizeof(float));
}

/// Workspace of the weights' gradient: the blocks' sums, then what adding them takes.
struct WeightLayout {
  ColumnSums sums;
  std::int64_t rest, bytes;

  explicit WeightLayout(const FirstShape& s)
      : sums{.rows = blocks_of(s, kWeightPixels).grid.x,
             .columns = s.out_channels * kTerms,
             .dtype = DType::FP32} {
    WorkspaceLayout layout;
    layout.reserve(sums.rows * sums.columns * std::int64_t(sizeof(float)));
    rest = layout.reserve(sums.workspace_bytes());
    bytes = layout.bytes();
  }
};

void launch_weight(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(1)));
  const WeightLayout layout(s);
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(args, blocks_of(s, kWeightPixels), first_weight_kernel<T>, args.in<T>(0), args.in<T>(1),
           partial, s);
  });
  layout.sums.run(args, partial, args.out<float>(0), args.workspace() + layout.rest);
}

/// x is input `i`.
std::string refuse(const KernelQuery& query, std::size_t i) {
  const TensorType& x = query.in[i];
  if (size_of(x.dtype) != 2) return "its operands are 16 bits wide";
  const ConvGeometry g = conv_geometry(query.attrs, x);
  const bool fits = g.channels == kIn && g.kernel[0] == 3 && g.kernel[1] == 3 && g.groups == 1 &&
                    g.dilation[0] == 1 && g.dilation[1] == 1 && g.out_channels % kOut == 0;
  if (!fits) return "it is for 3x3 windows over 3 channels, to a multiple of 64";
  if (query.attrs.flag("bias")) return "it adds no bias";
  const std::int64_t pixels = g.batch * g.out_height * g.out_width;
  if (pixels == 0 || pixels > INT32_MAX) return "the number of pixels is 0 or above 2^31";
  return device_has_tensor_cores() ? "" : "the device's tensor cores are too old";
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
  return WeightLayout(FirstShape::of(conv_geometry(query.attrs, query.in[1]))).bytes;
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

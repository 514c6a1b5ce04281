// SPDX-License-Identifier: Apache-2.0
// A network's first block, 3x3 convolution over pictures of 3 channels, batch norm and rectifier,
// without the feature map between them: its 27 terms a value are multiplied again wherever it is
// wanted, which is cheaper than its way through memory. Forward: its sums; then y. Backward: the
// sums of the norm's gradient, beside dy; then the gradient in front of the norm, which stays in
// shared memory and is multiplied with the pictures at once.
#include "backend/cuda/conv_first.cuh"

#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/dispatch_16_bit.h"

namespace tr::cuda {
namespace {

using namespace first_conv;

/// One number a channel, for the 64 channels of block y, in shared memory.
template <int kArrays>
struct alignas(16) ChannelConstants {
  float v[kArrays][kOut];

  __device__ void load(int i, const float* from) {
    for (int c = int(threadIdx.x); c < kOut; c += kThreads) v[i][c] = from[blockIdx.y * kOut + c];
  }
};

/// mean, weight rstd, bias: y = (x - mean) scale + bias as in batch_norm.cuh.
enum Constant { MEAN, SCALE, BIAS, OF_DZ, OF_X, REST };

template <int kArrays>
__device__ void load_norm(ChannelConstants<kArrays>& to, const NormalisationArrays& arrays) {
  to.load(MEAN, arrays.mean);
  to.load(BIAS, arrays.bias);
  for (int c = int(threadIdx.x); c < kOut; c += kThreads) {
    const std::int64_t channel = blockIdx.y * kOut + c;
    to.v[SCALE][c] = arrays.rstd[channel] * arrays.weight[channel];
  }
}

/// What a thread wants of its 8 channels of `part`.
template <int kArrays>
__device__ Normalisation<8> norm_of(const ChannelConstants<kArrays>& from, int part) {
  const int c = part * 32 + int(threadIdx.x) % 4 * 8;
  return {Floats<8>::load(from.v[MEAN] + c), Floats<8>::load(from.v[SCALE] + c),
          Floats<8>::load(from.v[BIAS] + c)};
}

template <typename T>
struct Block {
  const T *x, *weight;
  FirstShape shape;

  /// Element of y where a thread's 8 channels of a pixel begin.
  __device__ std::int64_t element(std::int64_t pixel, int part) const {
    return pixel * shape.out_channels + blockIdx.y * kOut + part * 32 + int(threadIdx.x) % 4 * 8;
  }
};

/// Calls use(p, row, part, values) for every 8 values of the convolution, pixels behind the last
/// too: pixel p, row `row` of the tile, channels 32 part + 8 (lane % 4) ... of block y; and
/// finish() behind each tile of kPixels. Warp: 16 or 32 pixels.
template <int kPixels, typename T, typename Use, typename Finish>
__device__ void for_tiles(const Block<T>& block, T* rows, Use&& use, Finish&& finish) {
  constexpr int kOfWarp = kPixels / kWarpsOfBlock;
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const Weights<T> weights(block.weight);
  const std::int64_t start = std::int64_t(blockIdx.x) * kPixels;
  const std::int64_t step = std::int64_t(gridDim.x) * kPixels;
  const bool gathers = threadIdx.x < kPixels;
  Terms<T> terms;
  if (gathers) terms.load(block.x, block.shape, start + threadIdx.x);
  for (std::int64_t base = start; base < block.shape.pixels; base += step) {
    if (gathers) terms.store(rows + threadIdx.x * kRowStride);
    __syncthreads();
    if (gathers) terms.load(block.x, block.shape, base + step + threadIdx.x);  // of the next tile
#pragma unroll
    for (int m = 0; m < kOfWarp; m += 16) {
      const int first = warp * kOfWarp + m;
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        float c[4][4] = {};
        weights.multiply(rows + first * kRowStride, part, c);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          float values[8];
#pragma unroll
          for (int i = 0; i < 8; ++i) values[i] = c[i / 2][2 * half + i % 2];
          const int row = first + lane / 4 + 8 * half;
          use(base + row, row, part, values);
        }
      }
    }
    finish();
    __syncthreads();
  }
}

/// partial[block x, 0 or 1, channel]: sums of the convolution and of its squares.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2) sums_kernel(Block<T> block, float* partial) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  const FirstShape& s = block.shape;
  ChannelSums<16, kWarpsOfBlock, kOut> sums;
  for_tiles<kForwardPixels>(
      block, rows,
      [&](std::int64_t, int, int part, const float(&values)[8]) {
  // Pixels behind the last have rows of zeros.
#pragma unroll
        for (int i = 0; i < 8; ++i) sums.add(part * 8 + i, values[i]);
      },
      [] {});
  sums.finish(place_of_sums(partial, s.out_channels, kOut), s.out_channels, int(threadIdx.x) / 32,
              0);
}

template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    forward_kernel(Block<T> block, NormalisationArrays arrays, T* y) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  __shared__ ChannelConstants<3> constants;
  load_norm(constants, arrays);
  const FirstShape& s = block.shape;
  for_tiles<kForwardPixels>(
      block, rows,
      [&](std::int64_t p, int, int part, const float(&values)[8]) {
        if (p >= s.pixels) return;
        const Normalisation<8> norm = norm_of(constants, part);
        Vector<T, 8> out;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const T rounded = from_float<T>(norm(i, to_float(from_float<T>(values[i]))));
          out.v[i] = to_float(rounded) <= 0 ? from_float<T>(0) : rounded;
        }
        store(y + block.element(p, part), out);
      },
      [] {});
}

/// The gradient before the normalisation, where the rectifier let it through.
template <typename T>
__device__ float gated(const Normalisation<8>& norm, int i, float x, T dy) {
  return to_float(from_float<T>(norm(i, x))) <= 0 ? 0 : to_float(dy);
}

/// partial[block x, 0 or 1, channel]: sums of dz and of dz (x - mean).
template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    gradient_sums_kernel(Block<T> block, NormalisationArrays arrays, const T* dy, float* partial) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  __shared__ ChannelConstants<3> constants;
  load_norm(constants, arrays);
  const FirstShape& s = block.shape;
  ChannelSums<16, kWarpsOfBlock, kOut> sums;
  for_tiles<kForwardPixels>(
      block, rows,
      [&](std::int64_t p, int, int part, const float(&values)[8]) {
        if (p >= s.pixels) return;
        const Normalisation<8> norm = norm_of(constants, part);
        const Vector<T, 8> gradient = load<8>(dy + block.element(p, part));
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float value = to_float(from_float<T>(values[i]));
          const float d = gated(norm, i, value, gradient.v[i]);
          sums.sum[part * 8 + i] += d;
          sums.squares[part * 8 + i] += d * (value - norm.mean.v[i]);
        }
      },
      [] {});
  sums.finish(place_of_sums(partial, s.out_channels, kOut), s.out_channels, int(threadIdx.x) / 32,
              0);
}

/// partial[block x, channel, term]: sums for the weights' gradient.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    weight_kernel(Block<T> block, NormalisationArrays arrays, Coefficients coefficients,
                  const T* dy, float* partial) {
  __shared__ __align__(16) T rows[kWeightPixels * kRowStride];
  __shared__ __align__(16) T dxs[kWeightPixels * kDyStride];
  __shared__ ChannelConstants<6> constants;
  load_norm(constants, arrays);
  constants.load(OF_DZ, coefficients.a);
  constants.load(OF_X, coefficients.b);
  constants.load(REST, coefficients.c);
  const FirstShape& s = block.shape;
  const int warp = int(threadIdx.x) / 32, t = int(threadIdx.x) % 4;
  WeightSums<T> sums;
  for_tiles<kWeightPixels>(
      block, rows,
      [&](std::int64_t p, int row, int part, const float(&values)[8]) {
        Vector<T, 8> out;
        const int c = part * 32 + t * 8;
        if (p < s.pixels) {
          const Vector<T, 8> gradient = load<8>(dy + block.element(p, part));
          const DxChannel<8> channel = {
              norm_of(constants, part), Floats<8>::load(constants.v[OF_DZ] + c),
              Floats<8>::load(constants.v[OF_X] + c), Floats<8>::load(constants.v[REST] + c)};
#pragma unroll
          for (int i = 0; i < 8; ++i) {
            const float value = to_float(from_float<T>(values[i]));
            const float d = gated(channel.norm, i, value, gradient.v[i]);
            out.v[i] = from_float<T>(channel(i, d, value));
          }
        } else {
#pragma unroll
          for (int i = 0; i < 8; ++i) out.v[i] = from_float<T>(0);
        }
        store(dxs + row * kDyStride + c, out);
      },
      [&] {
        __syncwarp();  // a warp reads what it wrote
        sums.add(rows + warp * 16 * kRowStride, dxs + warp * 16 * kDyStride);
      });
  static_assert(sizeof(dxs) >= sizeof(float) * kOut * kTerms);
  sums.finish(reinterpret_cast<float*>(dxs), partial, s.out_channels);
}

std::int64_t sums_bytes(const FirstShape& s) {
  return std::int64_t(blocks_of(s, kForwardPixels).grid.x) * 2 * s.out_channels *
         std::int64_t(sizeof(float));
}

template <typename T>
Block<T> block_of(const KernelArgs& args, int x) {
  return {args.in<T>(x), args.in<T>(x + 1),
          FirstShape::of(conv_geometry(args.attrs(), args.in_type(x)))};
}

/// x, conv_weight, weight, bias, running_mean, running_var -> y, mean, rstd, next_mean, next_var.
void launch_forward(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto block = block_of<T>(args, 0);
    const FirstShape& s = block.shape;
    const LaunchShape shape = blocks_of(s, kForwardPixels);
    auto* partial = reinterpret_cast<float*>(args.workspace());
    launch(args, shape, sums_kernel<T>, block, partial);
    launch_finish_sums(args, PartialSums{partial, shape.grid.x}, s.out_channels,
                       finish_statistics<T>(args, nullptr, s.pixels, {.running = 4}));
    launch(args, shape, forward_kernel<T>, block,
           NormalisationArrays{args.out<float>(1), args.out<float>(2), args.in<float>(2),
                               args.in<float>(3)},
           args.out<T>(0));
  });
}

/// Places in the workspace of the backward pass: coefficients, sums by block, and of the weights'
/// gradient.
struct BackwardPlaces {
  std::int64_t coefficients, partial, weight, bytes;

  explicit BackwardPlaces(const FirstShape& s) {
    WorkspaceLayout layout;
    coefficients = layout.reserve(3 * s.out_channels * std::int64_t(sizeof(float)));
    partial = layout.reserve(sums_bytes(s));
    weight = layout.reserve(WeightLayout(s).bytes);
    bytes = layout.bytes();
  }
};

/// dy, x, conv_weight, weight, bias, mean, rstd -> dconv_weight, dweight, dbias.
void launch_backward(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto block = block_of<T>(args, 1);
    const FirstShape& s = block.shape;
    const BackwardPlaces places(s);
    const auto at = [&](std::int64_t place) {
      return reinterpret_cast<float*>(args.workspace() + place);
    };
    const NormalisationArrays arrays{args.in<float>(5), args.in<float>(6), args.in<float>(3),
                                     args.in<float>(4)};
    float* a = at(places.coefficients);
    const Coefficients coefficients{a, a + s.out_channels, a + 2 * s.out_channels};
    const LaunchShape shape = blocks_of(s, kForwardPixels);
    launch(args, shape, gradient_sums_kernel<T>, block, arrays, args.in<T>(0), at(places.partial));
    launch_finish_sums(args, PartialSums{at(places.partial), shape.grid.x}, s.out_channels,
                       FinishSums{arrays.weight, arrays.rstd, args.out<float>(1),
                                  args.out<float>(2), coefficients, double(s.pixels), false});
    launch(args, blocks_of(s, kWeightPixels), weight_kernel<T>, block, arrays, coefficients,
           args.in<T>(0), at(places.weight));
    const WeightLayout layout(s);
    layout.sums.run(args, at(places.weight), args.out<float>(0),
                    args.workspace() + places.weight + layout.rest);
  });
}

KernelDef forward_def() {
  KernelDef def = simple_kernel("conv_norm_act", launch_forward,
                                [](const KernelQuery& query) { return refuse(query, 0); });
  def.workspace_bytes = [](const KernelQuery& query) {
    return sums_bytes(FirstShape::of(conv_geometry(query.attrs, query.in[0])));
  };
  return def;
}

KernelDef backward_def() {
  KernelDef def = simple_kernel("conv_norm_act_backward", launch_backward,
                                [](const KernelQuery& query) { return refuse(query, 1); });
  def.workspace_bytes = [](const KernelQuery& query) {
    return BackwardPlaces(FirstShape::of(conv_geometry(query.attrs, query.in[1]))).bytes;
  };
  return def;
}

const KernelRegistration kForward{forward_def()};
const KernelRegistration kBackward{backward_def()};

}  // namespace
}  // namespace tr::cuda

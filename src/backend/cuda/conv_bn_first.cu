// SPDX-License-Identifier: Apache-2.0
// A network's first convolution (conv_first.cuh) with the norm and the rectifier behind it. Its own
// result x = w p, p the terms of a pixel's window, is never written: what the norm wants of it is
// known from the windows alone,
//
//   mean = w E(p),   variance = w C w^T / n   with C = sum((p - E(p)) (p - E(p))^T),
//
// so one pass over the picture makes C, and the next multiplies, normalises, and writes y and the
// rectifier's mask. C serves the gradient too (conv_bn_first_dweight.cu).
#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/conv_first.cuh"
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/relu_mask.cuh"
#include "backend/cuda/workspace_layout.h"

namespace tr::cuda {
namespace {

using namespace first_conv;

constexpr int kProducts = kRow * kRow;  // of two places
constexpr int kPixelsOfWarp = 32;
static_assert(kForwardPixels == kWarpsOfBlock * kPixelsOfWarp);

/// Sums of a warp: the product of each two places of its pixels' rows. Of tiles of 16 x 8 products
/// those on and above the diagonal of 16 x 16 are made; the rest are the same numbers.
template <typename T>
class ProductSums {
 public:
  __device__ void add(const T* rows) {
    const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
    // Tensor cores cut what they add: long sums are made by additions that round.
    float tiles[kTiles][4] = {};
#pragma unroll
    for (int first = 0; first < kPixelsOfWarp; first += 16) {
      std::uint32_t a[2][4], b[2][4];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        mma::load_matrices<true>(a[i], rows + (first + lane % 8 + matrix / 2 * 8) * kRowStride +
                                           i * 16 + matrix % 2 * 8);
        mma::load_matrices<true>(b[i], rows + (first + lane % 8 + matrix % 2 * 8) * kRowStride +
                                           i * 16 + matrix / 2 * 8);
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int n = across(tile);
        mma::multiply(tiles[tile], a[down(tile)], b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1],
                      T());
      }
    }
#pragma unroll
    for (int i = 0; i < kTiles * 4; ++i) sums_[i / 4][i % 4] += tiles[i / 4][i % 4];
  }
  /// to[place, place]: the warps' sums, one warp after the other, by way of `total`. By all
  /// threads.
  __device__ void finish(float* total, float* to) const {
    const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
    __syncthreads();
    for (int turn = 0; turn < kWarpsOfBlock; ++turn) {
      if (warp == turn) {
#pragma unroll
        for (int i = 0; i < kTiles * 4; ++i) {
          const int tile = i / 4, e = i % 4;
          const int row = down(tile) * 16 + lane / 4 + e / 2 * 8;
          const int column = across(tile) * 8 + lane % 4 * 2 + e % 2;
          float& sum = total[row * kRow + column];
          sum = (turn == 0 ? 0 : sum) + sums_[tile][e];
          if (down(tile) == 0 && across(tile) >= 2) total[column * kRow + row] = sum;
        }
      }
      __syncthreads();
    }
    for (int i = int(threadIdx.x); i < kProducts; i += kThreads) to[i] = total[i];
  }

 private:
  static constexpr int kTiles = 6;

  __device__ static constexpr int down(int tile) { return tile / 4; }
  __device__ static constexpr int across(int tile) { return tile < 4 ? tile : tile - 2; }

  float sums_[kTiles][4] = {};
};

/// partial[block, place, place] over tiles of 256 pixels (blocks take turns); warp: 32 pixels.
template <typename T>
__global__ void __launch_bounds__(kThreads, 3)
    products_kernel(const T* picture, float* partial, FirstShape s) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  static_assert(sizeof(rows) >= sizeof(float) * kProducts);
  T* own = rows + int(threadIdx.x) / 32 * kPixelsOfWarp * kRowStride;
  const std::int64_t step = std::int64_t(gridDim.x) * kForwardPixels;
  std::int64_t base = std::int64_t(blockIdx.x) * kForwardPixels;
  ProductSums<T> sums;
  Terms<T> terms;
  terms.load(picture, s, base + threadIdx.x);
  for (; base < s.pixels; base += step) {
    terms.store(rows + threadIdx.x * kRowStride);
    __syncwarp();
    terms.load(picture, s, base + step + threadIdx.x);
    sums.add(own);
    __syncwarp();
  }
  sums.finish(reinterpret_cast<float*>(rows), partial + std::int64_t(blockIdx.x) * kProducts);
}

constexpr int kDown = 32;

/// products[place (block), place]: the blocks' sums, in double.
__global__ void __launch_bounds__(kRow* kDown)
    add_products_kernel(const float* partial, int blocks, double* products) {
  __shared__ double shared[kDown][kRow];
  const int at = int(blockIdx.x) * kRow + int(threadIdx.x);
  double sum = 0;
  for (int b = int(threadIdx.y); b < blocks; b += kDown) sum += partial[b * kProducts + at];
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int r = 1; r < kDown; ++r) sum += shared[r][threadIdx.x];
  products[at] = sum;
}

/// The moments of the windows, and from them the statistics of 64 channels (block). Four threads a
/// channel.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    statistics_kernel(const double* products, const T* weight, float* moments,
                      FinishStatistics<T> finish) {
  constexpr int kParts = kThreads / kOut;
  __shared__ double sums[kTerms], centred[kTerms][kTerms], weights[kOut][kTerms];
  const auto of_places = [&](int a, int b) { return products[a * kRow + b]; };
  for (int t = int(threadIdx.x); t < kTerms; t += kThreads) sums[t] = of_places(kOne, place_of(t));
  const std::int64_t first = std::int64_t(blockIdx.x) * kOut;
  for (int i = int(threadIdx.x); i < kOut * kTerms; i += kThreads) {
    weights[i / kTerms][i % kTerms] = double(to_float(weight[first * kTerms + i]));
  }
  __syncthreads();
  for (int i = int(threadIdx.x); i < kTerms * kTerms; i += kThreads) {
    const int a = i / kTerms, b = i % kTerms;
    centred[a][b] = of_places(place_of(a), place_of(b)) - sums[a] * sums[b] / finish.count;
    if (blockIdx.x == 0) moments[i] = float(centred[a][b]);
  }
  if (blockIdx.x == 0 && threadIdx.x < kTerms) {
    moments[kTerms * kTerms + threadIdx.x] = float(sums[threadIdx.x]);
  }
  __syncthreads();
  const int channel = int(threadIdx.x) / kParts, part = int(threadIdx.x) % kParts;
  double sum = 0, squares = 0;
  for (int a = part; a < kTerms; a += kParts) {
    double product = 0;
    for (int b = 0; b < kTerms; ++b) product += weights[channel][b] * centred[a][b];
    squares += weights[channel][a] * product;
    sum += weights[channel][a] * sums[a];
  }
#pragma unroll
  for (int width = 1; width < kParts; width *= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, width);
    squares += __shfl_xor_sync(0xffffffffu, squares, width);
  }
  if (part == 0) finish.keep(first + channel, sum / finish.count, squares / finish.count);
}

template <typename T>
struct ForwardCall {
  const T *picture, *weight;
  NormalisationArrays arrays;
  T* y;
  std::uint8_t* mask;
};

/// y and mask of 64 channels (block y) of tiles of 256 pixels (blocks x take turns); warp: 32
/// pixels.
template <typename T>
__global__ void __launch_bounds__(kThreads, 2) forward_kernel(ForwardCall<T> call, FirstShape s) {
  __shared__ __align__(16) T rows[kForwardPixels * kRowStride];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const Weights<T> weights(call.weight);
  float scale[16], shift[16];
#pragma unroll
  for (int part = 0; part < 2; ++part) {
    const Normalisation<8> norm =
        call.arrays.template load<8>(blockIdx.y * kOut + part * 32 + t * 8);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      scale[part * 8 + i] = norm.scale.v[i];
      shift[part * 8 + i] = fmaf(-norm.mean.v[i], norm.scale.v[i], norm.bias.v[i]);
    }
  }
  const std::int64_t step = std::int64_t(gridDim.x) * kForwardPixels;
  std::int64_t base = std::int64_t(blockIdx.x) * kForwardPixels;
  T* own = rows + warp * kPixelsOfWarp * kRowStride;
  Terms<T> terms;
  terms.load(call.picture, s, base + threadIdx.x);
  for (; base < s.pixels; base += step) {
    terms.store(own + lane * kRowStride);
    __syncwarp();
    terms.load(call.picture, s, base + step + threadIdx.x);  // of the next tile
#pragma unroll
    for (int m = 0; m < 2; ++m) {
      const RowsOf16 pixels(own + m * 16 * kRowStride);
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        float c[4][4] = {};
        weights.multiply(pixels, part, c);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::int64_t p = base + warp * kPixelsOfWarp + m * 16 + g + 8 * half;
          std::uint32_t out[4], bits = 0;
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int channel = part * 8 + 2 * i;
            const std::uint32_t values =
                rounded_pair(fmaf(c[i][2 * half], scale[channel], shift[channel]),
                             fmaf(c[i][2 * half + 1], scale[channel + 1], shift[channel + 1]), T());
            const std::uint32_t kept = ~not_positive(values, T());  // NaN goes through, as in relu
            out[i] = values & kept;
            bits |= marks_of_pair(kept) << (2 * i);
          }
          // The four threads of a pixel have 32 neighbours.
          bits <<= 8 * t;
          bits |= __shfl_xor_sync(0xffffffffu, bits, 1);
          bits |= __shfl_xor_sync(0xffffffffu, bits, 2);
          if (p >= s.pixels) continue;
          const std::int64_t at = p * s.out_channels + blockIdx.y * kOut + part * 32;
          *reinterpret_cast<uint4*>(call.y + at + t * 8) =
              make_uint4(out[0], out[1], out[2], out[3]);
          if (t == 0) *reinterpret_cast<std::uint32_t*>(call.mask + at / 8) = bits;
        }
      }
    }
    __syncwarp();  // the rows are read
  }
}

/// Places in the workspace: the blocks' sums, what they add up to.
struct Places {
  std::int64_t partial, products, bytes;

  explicit Places(const FirstShape& s) {
    WorkspaceLayout layout;
    partial = layout.reserve(std::int64_t(products_shape(s).grid.x) * kProducts *
                             std::int64_t(sizeof(float)));
    products = layout.reserve(kProducts * std::int64_t(sizeof(double)));
    bytes = layout.bytes();
  }
  static LaunchShape products_shape(const FirstShape& s) {
    LaunchShape shape = blocks_of(s, kForwardPixels, kProductBlocks);
    shape.grid.y = 1;
    return shape;
  }

 private:
  static constexpr std::int64_t kProductBlocks = 396;  // as kBlocks, three a multiprocessor
};

/// Inputs: picture, conv_weight, weight, bias, running_mean, running_var. Outputs: y, mean, rstd,
/// next_mean, next_var, mask, moments.
template <typename T>
void launch_typed(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(0)));
  const Places places(s);
  auto* partial = reinterpret_cast<float*>(args.workspace() + places.partial);
  auto* products = reinterpret_cast<double*>(args.workspace() + places.products);
  const LaunchShape tiles = Places::products_shape(s);
  launch(args, tiles, products_kernel<T>, args.in<T>(0), partial, s);
  LaunchShape add;
  add.grid.x = kRow;
  add.block = dim3(kRow, kDown);
  launch(args, add, add_products_kernel, partial, int(tiles.grid.x), products);
  LaunchShape statistics;
  statistics.grid.x = unsigned(s.out_channels / kOut);
  statistics.block.x = kThreads;
  launch(args, statistics, statistics_kernel<T>, products, args.in<T>(1), args.out<float>(6),
         finish_statistics<T>(args, nullptr, s.pixels, {.running = 4}));
  const NormalisationArrays arrays{args.out<float>(1), args.out<float>(2), args.in<float>(2),
                                   args.in<float>(3)};
  launch(args, blocks_of(s, kForwardPixels), forward_kernel<T>,
         ForwardCall<T>{args.in<T>(0), args.in<T>(1), arrays, args.out<T>(0),
                        args.out<std::uint8_t>(5)},
         s);
}

void launch_any(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype,
                  [&](auto tag) { launch_typed<typename decltype(tag)::type>(args); });
}

KernelDef forward_def() {
  KernelDef def = simple_kernel("conv_bn_act", launch_any,
                                [](const KernelQuery& query) { return refuse(query, 0); });
  def.name = "cuda.conv_bn_act.first";
  def.workspace_bytes = [](const KernelQuery& query) {
    return Places(FirstShape::of(conv_geometry(query.attrs, query.in[0]))).bytes;
  };
  return def;
}

const KernelRegistration kForward{forward_def()};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// Gradients of a network's first convolution (conv_first.cuh) and of norm and rectifier behind it,
// in one pass over dy and x. The norm's dx = a dz + b (x - mean) + c, with dz the gradient that the
// rectifier let through, is linear in what is known before its two sums are, so
//
//   dconv_weight = a sum(dz term) + b (sum(x term) - mean sum(term)) + c sum(term)
//
// for each term of a pixel's window; dx is neither written nor rounded.
#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/conv_first.cuh"
#include "backend/cuda/dispatch_16_bit.h"

namespace tr::cuda {
namespace {

using namespace first_conv;

constexpr int kPixels = kWeightPixels;                 // of a tile
constexpr int kChunksOfPixel = kOut / 8;               // of 16 bytes
constexpr int kRowsDown = kThreads / kChunksOfPixel;   // pixels that all threads copy at once
constexpr int kGroups = kOut / 16;                     // of channels, one a warp
constexpr int kShares = kWarpsOfBlock / kGroups;       // of a tile's pixels, one a warp
constexpr int kStepsOfShare = kPixels / kShares / 16;  // of the tensor cores
constexpr int kTermTiles = kRow / 8;
static_assert(kThreads % kChunksOfPixel == 0 && kPixels % kRowsDown == 0);

/// A term that is 1 for every pixel: its sums are those of dz.
constexpr int kOne = kTerms;
static_assert(kOne < kRow);

/// What a block leaves behind for 64 channels, in floats.
constexpr int kOfDz = 0, kOfX = kOut * kRow, kProduct = 2 * kOut * kRow, kOfTerms = kProduct + kOut,
              kOfBlock = kOfTerms + kRow;

constexpr int kTurn = 4;  // channels gated at once: constants of more do not fit in registers

template <typename T>
struct Stage {
  __align__(16) T dz[kPixels * kDyStride];
  T x[kPixels * kDyStride];
};

template <typename T>
struct Shared {
  Stage<T> stages[2];
  __align__(16) T rows[kPixels * kRowStride];
};

/// A thread's part of a tile: the same 8 channels of every 32nd pixel.
template <typename T>
struct Part {
  int pixel, chunk;
  std::int64_t channel;

  __device__ Part()
      : pixel(int(threadIdx.x) / kChunksOfPixel),
        chunk(int(threadIdx.x) % kChunksOfPixel),
        channel(std::int64_t(blockIdx.y) * kOut + chunk * 8) {}

  __device__ void copy(const T* dy, const T* x, const FirstShape& s, std::int64_t base,
                       Stage<T>& to) const {
#pragma unroll
    for (int u = 0; u < kPixels / kRowsDown; ++u) {
      const int row = pixel + u * kRowsDown;
      const std::int64_t p = base + row;
      const bool inside = p < s.pixels;
      const std::int64_t from = inside ? p * s.out_channels + channel : 0;
      mma::copy_async(to.dz + row * kDyStride + chunk * 8, dy + from, inside);
      mma::copy_async(to.x + row * kDyStride + chunk * 8, x + from, inside);
    }
  }
  /// Where its channels j ... j + 3, j 0 or kTurn, are among its 8: threads of odd rows begin with
  /// the others, so that 16 threads read all banks once.
  __device__ int turned(int j) const { return pixel % 2 * kTurn ^ j; }

  /// What it has copied: dy becomes dz, where it lies; the sums of dz (x - mean), channels turned.
  __device__ void gate(Stage<T>& stage, const NormalisationArrays& arrays,
                       float (&product)[8]) const {
#pragma unroll
    for (int c = 0; c < 8; c += kTurn) {
      const Normalisation<kTurn> norm = arrays.load<kTurn>(channel + turned(c));
#pragma unroll 2
      for (int u = 0; u < kPixels / kRowsDown; ++u) {
        const int at = (pixel + u * kRowsDown) * kDyStride + chunk * 8 + turned(c);
        Vector<T, kTurn> dz = load<kTurn>(stage.dz + at);
        const Vector<T, kTurn> values = load<kTurn>(stage.x + at);
#pragma unroll
        for (int j = 0; j < kTurn; ++j) {
          const float value = to_float(values.v[j]);
          if (to_float(from_float<T>(norm(j, value))) <= 0) dz.v[j] = from_float<T>(0);
          product[c + j] += to_float(dz.v[j]) * (value - norm.mean.v[j]);
        }
        store(stage.dz + at, dz);
      }
    }
  }
};

/// Sums of a warp over its share of the pixels, for its 16 channels and all terms; those of the
/// terms alone for the warp's eight of them, which 16 equal rows make.
template <typename T>
struct TermSums {
  float of_dz[kTermTiles][4] = {}, of_x[kTermTiles][4] = {}, of_terms[4] = {};

  __device__ void add(const Stage<T>& stage, const T* rows, int group, int share) {
    const T one = from_float<T>(1);
    const std::uint32_t both = packed(one, one), ones[4] = {both, both, both, both};
    add_product(stage.dz, rows, group, share, of_dz, [](int, std::uint32_t, std::uint32_t) {});
    float tile[4] = {};
    add_product(stage.x, rows, group, share, of_x, [&](int n, std::uint32_t b0, std::uint32_t b1) {
      if (n == group) mma::multiply(tile, ones, b0, b1, T());
    });
#pragma unroll
    for (int e = 0; e < 4; ++e) of_terms[e] += tile[e];
  }
  /// Calls f(place among a block's floats, value) for each sum.
  template <typename F>
  __device__ void each(int group, F&& f) {
    const int lane = int(threadIdx.x) % 32;
#pragma unroll
    for (int n = 0; n < kTermTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int channel = group * 16 + lane / 4 + e / 2 * 8;
        const int at = channel * kRow + n * 8 + lane % 4 * 2 + e % 2;
        f(kOfDz + at, of_dz[n][e]);
        f(kOfX + at, of_x[n][e]);
      }
    }
    if (lane / 4 != 0) return;  // the first of the equal rows
    f(kOfTerms + group * 8 + lane * 2, of_terms[0]);
    f(kOfTerms + group * 8 + lane * 2 + 1, of_terms[1]);
  }

 private:
  /// sums += the product of `values` and the terms; each(tile, b0, b1) sees the terms of a tile.
  template <typename Each>
  __device__ static void add_product(const T* values, const T* rows, int group, int share,
                                     float (&sums)[kTermTiles][4], Each&& each) {
    const int lane = int(threadIdx.x) % 32, matrix = lane / 8;
    // Tensor cores cut what they add: long sums are made by additions that round.
    float tile[kTermTiles][4] = {};
#pragma unroll
    for (int k = 0; k < kStepsOfShare; ++k) {
      const int first = (share * kStepsOfShare + k) * 16;
      std::uint32_t a[4], b[2][4];
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        mma::load_matrices<true>(b[n], rows + (first + lane % 8 + matrix % 2 * 8) * kRowStride +
                                           n * 16 + matrix / 2 * 8);
      }
      mma::load_matrices<true>(a, values + (first + lane % 8 + matrix / 2 * 8) * kDyStride +
                                      group * 16 + matrix % 2 * 8);
#pragma unroll
      for (int n = 0; n < kTermTiles; ++n) {
        const std::uint32_t b0 = b[n / 2][n % 2 * 2], b1 = b[n / 2][n % 2 * 2 + 1];
        mma::multiply(tile[n], a, b0, b1, T());
        each(n, b0, b1);
      }
    }
#pragma unroll
    for (int n = 0; n < kTermTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[n][e] += tile[n][e];
    }
  }
};
static_assert(kTermTiles == kGroups && kShares == 2);

/// The sums of a block's threads over the pixels that they gated, added in the order of the rows.
template <typename T>
__device__ void finish_gate(const Part<T>& part, float* shared, const float (&product)[8],
                            float* to) {
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const int channel = part.chunk * 8 + part.turned(j / kTurn * kTurn) + j % kTurn;
    shared[part.pixel * kOut + channel] = product[j];
  }
  __syncthreads();
  if (threadIdx.x >= kOut) return;
  float total = 0;
  for (int r = 0; r < kRowsDown; ++r) total += shared[r * kOut + threadIdx.x];
  to[kProduct + threadIdx.x] = total;
}

/// partial[block x, block y] of kOfBlock floats, of 64 channels (block y) over tiles of 128 pixels
/// (blocks x take turns).
template <typename T>
__global__ void __launch_bounds__(kThreads, 2)
    gradient_kernel(const T* dy, const T* x, const T* picture, NormalisationArrays arrays,
                    float* partial, FirstShape s) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<T>*>(bytes);
  const int warp = int(threadIdx.x) / 32, group = warp % kGroups, share = warp / kGroups;
  const bool gathers = threadIdx.x < kPixels;
  const Part<T> part;
  const std::int64_t start = std::int64_t(blockIdx.x) * kPixels;
  const std::int64_t step = std::int64_t(gridDim.x) * kPixels;
  float product[8] = {};
  TermSums<T> sums;
  Terms<T> terms;
  if (start < s.pixels) part.copy(dy, x, s, start, shared.stages[0]);
  mma::commit_copies();
  const auto gather = [&](std::int64_t base) {
    terms.load(picture, s, base + threadIdx.x);
    terms.v[kOne] = from_float<T>(1);
  };
  if (gathers) gather(start);
  int stage = 0;
  for (std::int64_t base = start; base < s.pixels; base += step) {
    __syncthreads();  // the rows and the other stage are read
    if (base + step < s.pixels) part.copy(dy, x, s, base + step, shared.stages[1 - stage]);
    mma::commit_copies();
    if (gathers) terms.store(shared.rows + threadIdx.x * kRowStride);
    mma::wait_for_copies<1>();
    part.gate(shared.stages[stage], arrays, product);
    __syncthreads();
    if (gathers) gather(base + step);
    sums.add(shared.stages[stage], shared.rows, group, share);
    stage = 1 - stage;
  }
  float* to = partial + (std::int64_t(blockIdx.x) * gridDim.y + blockIdx.y) * kOfBlock;
  auto* floats = reinterpret_cast<float*>(bytes);
  static_assert(sizeof(Shared<T>) >= sizeof(float) * kOfBlock);
  static_assert(sizeof(Shared<T>) >= sizeof(float) * kRowsDown * kOut);
  mma::wait_for_copies<0>();
  __syncthreads();
  if (share == 1) sums.each(group, [&](int at, float value) { floats[at] = value; });
  __syncthreads();
  if (share == 0) sums.each(group, [&](int at, float value) { to[at] = value + floats[at]; });
  __syncthreads();
  finish_gate(part, floats, product, to);
}

struct Outputs {
  float *dconv, *dweight, *dbias;
};

constexpr int kFinishDown = 8;

/// Adds the blocks' sums of channel block x up, in double, and makes the gradients of them.
__global__ void __launch_bounds__(kRow* kFinishDown)
    finish_kernel(const float* partial, std::int64_t blocks, std::int64_t pixels,
                  NormalisationArrays arrays, Outputs out) {
  constexpr int kSums = 4;
  __shared__ double shared[kSums][kFinishDown][kRow];
  const int term = int(threadIdx.x), row = int(threadIdx.y);
  const std::int64_t o = blockIdx.x;
  const std::int64_t tiles = gridDim.x / kOut, channel = o % kOut;
  const auto of_block = [&](std::int64_t b) { return partial + (b * tiles + o / kOut) * kOfBlock; };
  double sums[kSums] = {};
  for (std::int64_t b = row; b < blocks; b += kFinishDown) {
    sums[0] += of_block(b)[kOfDz + channel * kRow + term];
    sums[1] += of_block(b)[kOfX + channel * kRow + term];
    sums[2] += of_block(b)[kOfTerms + term];
  }
  for (std::int64_t b = row * kRow + term; b < blocks; b += kRow * kFinishDown) {
    sums[3] += of_block(b)[kProduct + channel];
  }
#pragma unroll
  for (int i = 0; i < kSums; ++i) shared[i][row][term] = sums[i];
  __syncthreads();
  if (row != 0) return;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    for (int r = 1; r < kFinishDown; ++r) sums[i] += shared[i][r][term];
  }
#pragma unroll
  for (int width = 1; width < kRow; width *= 2) {
    sums[3] += __shfl_xor_sync(0xffffffffu, sums[3], width);
  }
  const double sum = __shfl_sync(0xffffffffu, sums[0], kOne), product = sums[3];
  const double count = double(pixels), r = arrays.rstd[o], a = double(arrays.weight[o]) * r;
  const double b = -a * r * r * product / count, c = -a * sum / count;
  if (term < kTerms) {
    const double centred = sums[1] - double(arrays.mean[o]) * sums[2];
    out.dconv[o * kTerms + term] = float(a * sums[0] + b * centred + c * sums[2]);
  }
  if (term == 0) {
    out.dweight[o] = float(product * r);
    out.dbias[o] = float(sum);
  }
}

/// Inputs: dy, x, weight, bias, mean, rstd, picture. Outputs: dconv_weight, dweight, dbias.
template <typename T>
void launch_gradient(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(6)));
  const NormalisationArrays arrays{args.in<float>(4), args.in<float>(5), args.in<float>(2),
                                   args.in<float>(3)};
  auto* partial = reinterpret_cast<float*>(args.workspace());
  LaunchShape shape = blocks_of(s, kPixels);
  shape.shared_bytes = sizeof(Shared<T>);
  TR_CUDA(cudaFuncSetAttribute(gradient_kernel<T>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               int(sizeof(Shared<T>))));
  launch(args, shape, gradient_kernel<T>, args.in<T>(0), args.in<T>(1), args.in<T>(6), arrays,
         partial, s);
  LaunchShape finish;
  finish.grid.x = unsigned(s.out_channels);
  finish.block = dim3(kRow, kFinishDown);
  launch(args, finish, finish_kernel, partial, shape.grid.x, s.pixels, arrays,
         Outputs{args.out<float>(0), args.out<float>(1), args.out<float>(2)});
}

void launch_any(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype,
                  [&](auto tag) { launch_gradient<typename decltype(tag)::type>(args); });
}

KernelDef gradient_def() {
  KernelDef def = simple_kernel("bn_act_conv_dweight", launch_any, [](const KernelQuery& query) {
    if (most_shared_bytes() < std::int64_t(sizeof(Shared<__half>))) {
      return std::string("a block has too little shared memory");
    }
    return refuse(query, 6);
  });
  def.name = "cuda.bn_act_conv_dweight.first";
  def.workspace_bytes = [](const KernelQuery& query) {
    const LaunchShape shape =
        blocks_of(FirstShape::of(conv_geometry(query.attrs, query.in[6])), kPixels);
    return std::int64_t(shape.grid.x) * shape.grid.y * kOfBlock * std::int64_t(sizeof(float));
  };
  return def;
}

const KernelRegistration kGradient{gradient_def()};

}  // namespace
}  // namespace tr::cuda

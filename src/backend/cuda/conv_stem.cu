// SPDX-License-Identifier: Apache-2.0
// A network's first convolution, 7x7 windows at stride 2 over pictures of 3 channels
// (conv_stem.cuh): y with the sums that batch norm wants, and the weights' gradient.
//
// Terms that fill a row up are neighbours of the window times a weight of zero: a picture with
// values that are not finite spoils two pixels more than its windows.
#include "backend/cuda/channel_map.cuh"
#include "backend/cuda/conv_stem_weight.cuh"
#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/dispatch_16_bit.h"

namespace tr::cuda {
namespace {

using namespace stem_conv;

// Forward. Warp: 16 pixels of the tile, 32 channels. Blocks are small, so that one of two on a
// multiprocessor multiplies while the other stores.

constexpr int kForwardOut = 32;  // channels of a block
constexpr int kForwardWarps = kTilesDown, kForwardThreads = 32 * kForwardWarps;
constexpr int kStages = 3;
constexpr int kPitch = 704;  // elements of a staged row: the windows of a tile, in whole chunks
static_assert(kPitch >= (kPixels - 1) * kStep * kIn + 8 * kChunksOfRow + 8 && kPitch % 8 == 0);

/// The first element of a tile's rows that is read is even, and lies in a chunk of 16 bytes.
struct Lead {
  int zeros;  // terms in front of the window's first
  int chunk;  // element of the picture's row where the staged row begins; may be below zero
  int offset;

  __device__ explicit Lead(const Tile& tile) {
    const int first = tile.w * kIn;
    zeros = first & 1;
    chunk = (first - zeros) >> 3 << 3;
    offset = first - zeros - chunk;
  }
};

/// The tile's rows of the picture to shared memory, zeros outside of it.
template <typename T>
__device__ void stage_rows(const T* x, const StemShape& s, std::int64_t number, T* rows) {
  const Tile tile(s, number);
  const Lead lead(tile);
  const int elements = s.width * kIn;
  const bool whole_chunks = elements % 8 == 0;
  for (int i = int(threadIdx.x); i < kSide * kPitch / 8; i += kForwardThreads) {
    const int r = i / (kPitch / 8), e = lead.chunk + i % (kPitch / 8) * 8;
    const T* row = tile.row_of(x, s, r);
    T* to = rows + i * 8;
    if (whole_chunks) {
      const bool inside = row != nullptr && unsigned(e) < unsigned(elements);
      mma::copy_async(to, inside ? row + e : x, inside);
      continue;
    }
    Vector<T, 8> some;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const bool inside = row != nullptr && unsigned(e + j) < unsigned(elements);
      some.v[j] = inside ? row[e + j] : from_float<T>(0);
    }
    store(to, some);
  }
}

/// Element of a window's 8 terms number `chunk`, from its first term on.
__host__ __device__ constexpr int term_of(int chunk) {
  return chunk / kChunksOfRow * kPitch + chunk % kChunksOfRow * 8;
}

/// y of 32 channels (block y) of tiles of 112 pixels (blocks x take turns).
template <typename T, bool kSums>
__global__ void __launch_bounds__(kForwardThreads, 2)
    stem_forward_kernel(const T* x, const T* weight, T* y, float* partial, StemShape s) {
  __shared__ __align__(16) T staged[kStages][kSide * kPitch];
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  const int first_channel = int(blockIdx.y) * kForwardOut, first_pixel = warp * 16;

  // All tiles have the same lead: they begin at even columns.
  const int zeros = Lead(Tile(s, 0)).zeros;
  constexpr int kSteps = (kChunks + 1) / 2;
  std::uint32_t b[kSteps][4][2];
#pragma unroll
  for (int chunk = 0; chunk < 2 * kSteps; ++chunk) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::int64_t channel = first_channel + channel_of(j, g);
      const T* from = weight + (channel * kSide + chunk / kChunksOfRow) * kRun;
      const int k = chunk % kChunksOfRow * 8 + 2 * t - zeros;
      const auto term = [&](int i) {
        return chunk < kChunks && unsigned(i) < unsigned(kRun) ? from[i] : from_float<T>(0);
      };
      b[chunk / 2][j][chunk % 2] = packed(term(k), term(k + 1));
    }
  }

  ChannelSums<8, kTilesDown, kForwardOut> sums;
  for (int ahead = 0; ahead < kStages - 1; ++ahead) {
    const std::int64_t number = std::int64_t(blockIdx.x) + std::int64_t(ahead) * gridDim.x;
    if (number < s.tiles) stage_rows(x, s, number, staged[ahead]);
    mma::commit_copies();
  }
  int stage = 0;
  for (std::int64_t number = blockIdx.x; number < s.tiles; number += gridDim.x) {
    mma::wait_for_copies<kStages - 2>();
    __syncthreads();  // the stage is there, the one before it is read
    const std::int64_t ahead = number + std::int64_t(kStages - 1) * gridDim.x;
    const int free_stage = stage == 0 ? kStages - 1 : stage - 1;
    if (ahead < s.tiles) stage_rows(x, s, ahead, staged[free_stage]);
    mma::commit_copies();
    const Tile tile(s, number);
    if (first_pixel < tile.num_pixels) {
      const T* from = staged[stage] + Lead(tile).offset + (first_pixel + g) * (kStep * kIn) + 2 * t;
      constexpr int kBelow = 8 * kStep * kIn;  // from pixel g to pixel g + 8
      float c[4][4] = {};
#pragma unroll
      for (int k = 0; k < kSteps; ++k) {
        std::uint32_t a[4] = {};
        a[0] = pair_at(from + term_of(2 * k));
        a[1] = pair_at(from + term_of(2 * k) + kBelow);
        if (2 * k + 1 < kChunks) {
          a[2] = pair_at(from + term_of(2 * k + 1));
          a[3] = pair_at(from + term_of(2 * k + 1) + kBelow);
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) mma::multiply(c[j], a, b[k][j][0], b[k][j][1], T());
      }
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int p = first_pixel + g + 8 * half;
        if (p >= tile.num_pixels) continue;
        Vector<T, 8> out;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const float value = c[i / 2][2 * half + i % 2];
          out.v[i] = from_float<T>(value);
          if constexpr (kSums) sums.add(i, value);
        }
        store(y + (tile.pixel + p) * s.out_channels + first_channel + t * 8, out);
      }
    }
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
  if constexpr (kSums)
    sums.finish(place_of_sums(partial, s.out_channels, kForwardOut), s.out_channels, warp, 0);
}

LaunchShape forward_blocks(const StemShape& s) {
  return blocks_of(s, kForwardThreads, kBlocks, kForwardOut);
}

void launch_forward(const KernelArgs& args) {
  const StemShape s = StemShape::of(conv_geometry(args.attrs(), args.in_type(0)));
  const LaunchShape shape = forward_blocks(s);
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (args.num_out() == 1) {
      launch(args, shape, stem_forward_kernel<T, false>, args.in<T>(0), args.in<T>(1),
             args.out<T>(0), nullptr, s);
      return;
    }
    launch(args, shape, stem_forward_kernel<T, true>, args.in<T>(0), args.in<T>(1), args.out<T>(0),
           partial, s);
    launch_finish_sums(args, PartialSums{partial, shape.grid.x}, s.out_channels,
                       StoreSums{args.out<float>(1), s.out_channels});
  });
}

std::int64_t forward_workspace(const KernelQuery& query) {
  if (query.out.size() == 1) return 0;
  const StemShape s = StemShape::of(conv_geometry(query.attrs, query.in[0]));
  return std::int64_t(forward_blocks(s).grid.x) * 2 * s.out_channels * std::int64_t(sizeof(float));
}

void launch_weight(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_weight_sums(args, args.in<T>(0), args.in<T>(1), StoredGradient<T>{}, args.workspace());
  });
}

std::int64_t weight_workspace(const KernelQuery& query) {
  return weight_layout(StemShape::of(conv_geometry(query.attrs, query.in[1]))).bytes;
}

KernelDef stem_kernel(const std::string& op, void (*launch)(const KernelArgs&), std::size_t x,
                      std::int64_t (*workspace)(const KernelQuery&)) {
  KernelDef def =
      simple_kernel(op, launch, [x](const KernelQuery& query) { return refuse(query, x); });
  def.name = "cuda." + op + ".stem";
  def.workspace_bytes = workspace;
  return def;
}

constexpr int kPriority = 20;  // above cuDNN's
const KernelRegistration kForward{stem_kernel("conv", launch_forward, 0, forward_workspace),
                                  kPriority};
const KernelRegistration kStatistics{
    stem_kernel("conv_statistics", launch_forward, 0, forward_workspace), kPriority};
const KernelRegistration kWeight{stem_kernel("conv_dweight", launch_weight, 1, weight_workspace),
                                 kPriority};

}  // namespace
}  // namespace tr::cuda

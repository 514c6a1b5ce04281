// SPDX-License-Identifier: Apache-2.0
// A network's first convolution, 7x7 windows at stride 2 over pictures of 3 channels, on the tensor
// cores: y with the sums that batch norm wants, and the weights' gradient. A row of a window is 21
// neighbours in memory, so the terms of a product are read where the picture's rows lie in shared
// memory; nothing is gathered.
//
// Terms that fill a row up are neighbours of the window times a weight of zero: a picture with
// values that are not finite spoils two pixels more than its windows.
#include "backend/cuda/channel_map.cuh"
#include "backend/cuda/conv_sums.cuh"
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/fc_epilogue.h"
#include "backend/cuda/mma_instructions.cuh"
#include "backend/cuda/workspace_layout.h"
#include "ops/conv_geometry.h"

namespace tr::cuda {
namespace {

constexpr int kIn = 3, kSide = 7, kStep = 2;
constexpr int kRun = kSide * kIn;     // terms of a window's row
constexpr int kTerms = kSide * kRun;  // of a window
constexpr int kChunksOfRow = 3;       // of 8 terms: 24 hold a row
constexpr int kChunks = kSide * kChunksOfRow;
constexpr int kOut = 64;                  // channels of a block
constexpr int kPixels = 112;              // of a tile: neighbours in a row of y
constexpr int kTilesDown = kPixels / 16;  // of the tensor cores
constexpr std::int64_t kBlocks = 132;     // constants, since sums are cut by them
constexpr std::int64_t kWeightBlocks = 264;

struct StemShape {
  int height, width, out_height, out_width, padding_h, padding_w;
  int segments;  // tiles of a row of y
  std::int64_t tiles, out_channels;

  static StemShape of(const ConvGeometry& g) {
    const auto segments = int(ceil_div<std::int64_t>(g.out_width, kPixels));
    return {
        int(g.height),     int(g.width),      int(g.out_height), int(g.out_width),
        int(g.padding[0]), int(g.padding[1]), segments,          g.batch * g.out_height * segments,
        g.out_channels};
  }
};

/// Where a tile lies: its first pixel, and the corner of that one's window.
struct Tile {
  std::int64_t pixel;  // of y
  int num_pixels, n, h, w;

  __device__ Tile(const StemShape& s, std::int64_t number) {
    const auto tile = std::uint32_t(number);
    const std::uint32_t line = tile / std::uint32_t(s.segments);
    const int column = int(tile - line * std::uint32_t(s.segments)) * kPixels;
    n = int(line / std::uint32_t(s.out_height));
    const int row = int(line - std::uint32_t(n) * std::uint32_t(s.out_height));
    pixel = std::int64_t(line) * s.out_width + column;
    num_pixels = min(kPixels, s.out_width - column);
    h = row * kStep - s.padding_h;
    w = column * kStep - s.padding_w;
  }
  /// Row r of the windows; null outside of the picture.
  template <typename T>
  __device__ const T* row_of(const T* x, const StemShape& s, int r) const {
    if (unsigned(h + r) >= unsigned(s.height)) return nullptr;
    return x + (std::int64_t(n) * s.height + h + r) * s.width * kIn;
  }
};

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

template <typename T>
__device__ std::uint32_t pair_at(const T* p) {
  return *reinterpret_cast<const std::uint32_t*>(p);
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

// The weights' gradient. The pixels of a tile are the terms of its sums, and neighbours in them are
// two columns of the picture apart: its rows are dealt out to planes, one for every row of the
// windows, channel and parity of the column. Warp: a column of the windows, all channels.

constexpr int kWeightThreads = 32 * kSide;
constexpr int kPlanes = kSide * kIn;  // of one parity
constexpr int kPlanePitch = 136;      // elements: eight planes lie in different banks
constexpr int kGroups = 58;           // of 4 columns: those that a tile's windows cover
constexpr int kDyPitch = kOut + mma::kPadding;
constexpr int kTermTiles = (kPlanes + 7) / 8;
static_assert(4 * kGroups >= (kPixels - 1) * kStep + kSide + 1 && 2 * kGroups <= kPlanePitch);
static_assert(kPlanePitch / 2 % 32 == 4);

template <typename T>
struct WeightStage {
  __align__(16) T planes[2 * kPlanes * kPlanePitch];
  __align__(16) T dy[2][kPixels * kDyPitch];
};

/// Four columns of a row of the picture, all channels.
template <typename T>
struct FourColumns {
  T v[4 * kIn];

  __device__ void load(const T* x, const StemShape& s, const Tile& tile, int i) {
    const T* row = tile.row_of(x, s, i / kGroups);
    // The first is even: so are its elements, and words of the picture where its width is even.
    const int column = tile.w - (tile.w & 1) + i % kGroups * 4;
    if (row != nullptr && s.width % 2 == 0 && column >= 0 && column + 4 <= s.width) {
      const auto* words = reinterpret_cast<const Vector<T, 2>*>(row + column * kIn);
#pragma unroll
      for (int j = 0; j < 2 * kIn; ++j) {
        const Vector<T, 2> word = words[j];
        v[2 * j] = word.v[0];
        v[2 * j + 1] = word.v[1];
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < 4 * kIn; ++j) {
      const bool inside = row != nullptr && unsigned(column + j / kIn) < unsigned(s.width);
      v[j] = inside ? row[column * kIn + j] : from_float<T>(0);
    }
  }
  __device__ void store(T* planes, int i) const {
#pragma unroll
    for (int parity = 0; parity < 2; ++parity) {
#pragma unroll
      for (int c = 0; c < kIn; ++c) {
        const int plane = parity * kPlanes + i / kGroups * kIn + c;
        Vector<T, 2> word{{v[parity * kIn + c], v[(parity + 2) * kIn + c]}};
        cuda::store(planes + plane * kPlanePitch + i % kGroups * 2, word);
      }
    }
  }
};

template <typename T>
__device__ void stage_dy(const T* dy, const StemShape& s, const Tile& tile, T* to) {
  for (int i = int(threadIdx.x); i < kPixels * kOut / 8; i += kWeightThreads) {
    const int p = i / (kOut / 8), chunk = i % (kOut / 8);
    const bool inside = p < tile.num_pixels;
    const T* from = dy + (tile.pixel + p) * s.out_channels + blockIdx.y * kOut + chunk * 8;
    mma::copy_async(to + p * kDyPitch + chunk * 8, inside ? from : dy, inside);
  }
}

/// partial[block x, channel, term] of 64 channels (block y) over tiles of 112 pixels.
template <typename T>
__global__ void __launch_bounds__(kWeightThreads, 2)
    stem_weight_kernel(const T* dy, const T* x, float* partial, StemShape s) {
  __shared__ WeightStage<T> shared;
  constexpr int kLoads = (kSide * kGroups + kWeightThreads - 1) / kWeightThreads;
  const int lane = int(threadIdx.x) % 32, column = int(threadIdx.x) / 32;
  const int g = lane / 4, t = lane % 4;
  FourColumns<T> picture[kLoads];
  const auto load_picture = [&](const Tile& tile) {
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int i = int(threadIdx.x) + u * kWeightThreads;
      if (i < kSide * kGroups) picture[u].load(x, s, tile, i);
    }
  };

  const int shifted =
      column + (Tile(s, 0).w & 1);            // columns from a plane's first, of both parities
  const bool between = shifted / 2 % 2 != 0;  // pairs lie in two words
  const T* planes[kTermTiles];
#pragma unroll
  for (int n = 0; n < kTermTiles; ++n) {
    const int plane = shifted % 2 * kPlanes + min(n * 8 + g, kPlanes - 1);
    planes[n] = shared.planes + plane * kPlanePitch + shifted / 4 * 2 + 2 * t;
  }

  float c[4][kTermTiles][4] = {};
  int stage = 0;
  if (blockIdx.x < s.tiles) {
    const Tile tile(s, blockIdx.x);
    stage_dy(dy, s, tile, shared.dy[0]);
    load_picture(tile);
  }
  for (std::int64_t number = blockIdx.x; number < s.tiles; number += gridDim.x) {
    __syncthreads();  // the planes and the other stage of dy are read
#pragma unroll
    for (int u = 0; u < kLoads; ++u) {
      const int i = int(threadIdx.x) + u * kWeightThreads;
      if (i < kSide * kGroups) picture[u].store(shared.planes, i);
    }
    mma::commit_copies();
    mma::wait_for_copies<0>();
    __syncthreads();
    if (number + gridDim.x < s.tiles) {
      const Tile next(s, number + gridDim.x);
      stage_dy(dy, s, next, shared.dy[1 - stage]);
      load_picture(next);
    }
    const T* dys = shared.dy[stage];
#pragma unroll
    for (int k = 0; k < kPixels; k += 16) {
      std::uint32_t b[kTermTiles][2];
#pragma unroll
      for (int n = 0; n < kTermTiles; ++n) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const T* from = planes[n] + k + 8 * half;
          b[n][half] = pair_at(from);
          if (between) b[n][half] = __byte_perm(b[n][half], pair_at(from + 2), 0x5432);
        }
      }
      const int matrix = lane / 8;
#pragma unroll
      for (int m = 0; m < 4; ++m) {
        std::uint32_t a[4];
        mma::load_matrices<true>(
            a, dys + (k + lane % 8 + matrix / 2 * 8) * kDyPitch + m * 16 + matrix % 2 * 8);
#pragma unroll
        for (int n = 0; n < kTermTiles; ++n) mma::multiply(c[m][n], a, b[n][0], b[n][1], T());
      }
    }
    stage = 1 - stage;
  }
  float* to = partial + (blockIdx.x * s.out_channels + std::int64_t(blockIdx.y) * kOut) * kTerms;
#pragma unroll
  for (int m = 0; m < 4; ++m) {
#pragma unroll
    for (int n = 0; n < kTermTiles; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int plane = n * 8 + 2 * t + e % 2;
        if (plane >= kPlanes) continue;
        const int term = plane / kIn * kRun + column * kIn + plane % kIn;
        to[(m * 16 + g + e / 2 * 8) * kTerms + term] = c[m][n][e];
      }
    }
  }
}

/// Blocks that take tiles in turns, for every `channels`.
LaunchShape blocks_of(const StemShape& s, int threads, std::int64_t most, int channels) {
  LaunchShape shape;
  shape.block.x = unsigned(threads);
  shape.grid.x = unsigned(std::min(most, s.tiles));
  shape.grid.y = unsigned(s.out_channels / channels);
  return shape;
}
LaunchShape forward_blocks(const StemShape& s) {
  return blocks_of(s, kForwardThreads, kBlocks, kForwardOut);
}
LaunchShape weight_blocks(const StemShape& s) {
  return blocks_of(s, kWeightThreads, kWeightBlocks, kOut);
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

/// Workspace of the weights' gradient: the blocks' sums, then what adding them takes.
struct WeightLayout {
  ColumnSums sums;
  std::int64_t rest, bytes;

  explicit WeightLayout(const StemShape& s)
      : sums{.rows = weight_blocks(s).grid.x,
             .columns = s.out_channels * kTerms,
             .dtype = DType::FP32} {
    WorkspaceLayout layout;
    layout.reserve(sums.rows * sums.columns * std::int64_t(sizeof(float)));
    rest = layout.reserve(sums.workspace_bytes());
    bytes = layout.bytes();
  }
};

void launch_weight(const KernelArgs& args) {
  const StemShape s = StemShape::of(conv_geometry(args.attrs(), args.in_type(1)));
  const WeightLayout layout(s);
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_16_bit(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch(args, weight_blocks(s), stem_weight_kernel<T>, args.in<T>(0), args.in<T>(1), partial, s);
  });
  layout.sums.run(args, partial, args.out<float>(0), args.workspace() + layout.rest);
}

std::int64_t weight_workspace(const KernelQuery& query) {
  return WeightLayout(StemShape::of(conv_geometry(query.attrs, query.in[1]))).bytes;
}

/// x is input `i`.
std::string refuse(const KernelQuery& query, std::size_t i) {
  const TensorType& x = query.in[i];
  if (size_of(x.dtype) != 2) return "its operands are 16 bits wide";
  const ConvGeometry g = conv_geometry(query.attrs, x);
  const bool fits = g.channels == kIn && g.kernel[0] == kSide && g.kernel[1] == kSide &&
                    g.stride[0] == kStep && g.stride[1] == kStep && g.groups == 1 &&
                    g.dilation[0] == 1 && g.dilation[1] == 1 && g.out_channels % kOut == 0;
  if (!fits) return "it is for 7x7 windows at stride 2 over 3 channels, to a multiple of 64";
  if (query.attrs.flag("bias")) return "it adds no bias";
  const std::int64_t pixels = g.batch * g.out_height * g.out_width;
  if (pixels == 0 || pixels > INT32_MAX) return "the number of pixels is 0 or above 2^31";
  return refuse_old_code();
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

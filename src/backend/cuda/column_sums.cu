// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, for the gradient of a bias. Long columns are cut into pieces of
// rows, whose sums are then added by the same kernel.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/fc_epilogue.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"

namespace tr::cuda {
namespace {

constexpr int kAcross = 32;
constexpr int kDown = 16;     // rows that are summed side by side
constexpr int kInFlight = 4;  // loads of a thread
constexpr std::int64_t kRowsOfPiece = 512;
constexpr std::int64_t kMostPieces = 64;

/// Block (x, y): sums[y, 32 columns from 32 x on] over the rows of piece y.
template <typename T>
__global__ void column_sums_kernel(const T* values, float* sums, std::int64_t rows,
                                   std::int64_t columns, std::int64_t rows_of_piece) {
  __shared__ float shared[kDown][kAcross];
  const std::int64_t c = std::int64_t(blockIdx.x) * kAcross + threadIdx.x;
  const std::int64_t begin = blockIdx.y * rows_of_piece;
  const std::int64_t end = begin + rows_of_piece < rows ? begin + rows_of_piece : rows;
  float lanes[kInFlight] = {};
  if (c < columns) {
    for (std::int64_t r = begin + threadIdx.y; r < end; r += kDown * kInFlight) {
#pragma unroll
      for (int j = 0; j < kInFlight; ++j) {
        if (r + j * kDown < end) lanes[j] += to_float(values[(r + j * kDown) * columns + c]);
      }
    }
  }
  shared[threadIdx.y][threadIdx.x] = (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]);
  __syncthreads();
  if (threadIdx.y != 0 || c >= columns) return;
  float sum = 0;
  for (int i = 0; i < kDown; ++i) sum += shared[i][threadIdx.x];
  sums[blockIdx.y * columns + c] = sum;
}

std::int64_t num_pieces(std::int64_t rows) {
  return std::clamp<std::int64_t>(rows / kRowsOfPiece, 1, kMostPieces);
}

template <typename T>
void launch_sums(const KernelArgs& args, const T* values, float* sums, std::int64_t rows,
                 std::int64_t columns) {
  const std::int64_t pieces = num_pieces(rows);
  LaunchShape shape;
  shape.block = dim3(kAcross, kDown);
  shape.grid.x = unsigned(ceil_div<std::int64_t>(columns, kAcross));
  shape.grid.y = unsigned(pieces);
  launch(args, shape, column_sums_kernel<T>, values, sums, rows, columns,
         ceil_div<std::int64_t>(rows, pieces));
}

}  // namespace

std::int64_t ColumnSums::workspace_bytes() const {
  const std::int64_t pieces = num_pieces(rows);
  return pieces > 1 ? pieces * columns * std::int64_t(sizeof(float)) : 0;
}

void ColumnSums::run(const KernelArgs& args, const void* values, float* sums,
                     std::byte* workspace) const {
  if (columns == 0) return;
  const std::int64_t pieces = num_pieces(rows);
  auto* partials = reinterpret_cast<float*>(workspace);
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_sums(args, static_cast<const T*>(values), pieces > 1 ? partials : sums, rows, columns);
  });
  if (pieces > 1) launch_sums(args, partials, sums, pieces, columns);
}

}  // namespace tr::cuda

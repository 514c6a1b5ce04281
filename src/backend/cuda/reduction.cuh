// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reductions of a tensor to a shape that it is broadcast from: one value for each element of the
// small shape, of all elements of the large one that fall on it.

#include <algorithm>

#include "backend/cuda/broadcast.cuh"

namespace tr::cuda {

/// How floats are joined, and what no float at all gives. NaN is never lost.
struct JoinSum {
  static constexpr float kStart = 0;
  __device__ static float join(float a, float b) { return a + b; }
};
struct JoinProduct {
  static constexpr float kStart = 1;
  __device__ static float join(float a, float b) { return a * b; }
};
struct JoinMax {
  static constexpr float kStart = -INFINITY;
  __device__ static float join(float a, float b) { return a > b || a != a ? a : b; }
};
struct JoinMin {
  static constexpr float kStart = INFINITY;
  __device__ static float join(float a, float b) { return a < b || a != a ? a : b; }
};

namespace reduction {

constexpr int kLanes = 32;    // of a warp: neighbours in memory
constexpr int kWarps = 8;     // of a block
constexpr int kWanted = 512;  // blocks that fill a large device
constexpr int kMaxSlices = 256;
constexpr int kMinTerms = 32;  // of one thread, before a sum is cut into slices

/// One sum for each element of `kept`, over `repeated`; slice s of a sum has its terms
/// [s, s + 1) * slice_terms and goes to place s * outputs of the result.
template <typename Offset>
struct Sums {
  Axes<Offset> kept, repeated;
  std::int64_t outputs, terms, slice_terms;
  DType dtype;      // of the result
  float scale = 1;  // of the result

  std::int64_t num_slices() const { return terms == 0 ? 1 : ceil_div(terms, slice_terms); }
};

/// A warp's lanes are neighbouring outputs, its block's warps share their terms.
template <typename Join, typename Source, typename Offset>
__global__ void sum_columns_kernel(Source x, void* y, Sums<Offset> sums) {
  __shared__ float partial[kWarps][kLanes];
  const std::int64_t begin = blockIdx.y * sums.slice_terms;
  const std::int64_t end = min(sums.terms, begin + sums.slice_terms);
  for (std::int64_t base = std::int64_t(blockIdx.x) * kLanes; base < sums.outputs;
       base += std::int64_t(gridDim.x) * kLanes) {
    const std::int64_t output = base + threadIdx.x;
    const bool exists = output < sums.outputs;
    float sum = Join::kStart;
    if (exists) {
      const std::int64_t from = sums.kept.offset(Offset(output));
#pragma unroll 4
      for (std::int64_t term = begin + threadIdx.y; term < end; term += kWarps) {
        sum = Join::join(sum, x(from + sums.repeated.offset(Offset(term)), output));
      }
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && exists) {
      for (int warp = 1; warp < kWarps; ++warp) sum = Join::join(sum, partial[warp][threadIdx.x]);
      put(y, sums.dtype, blockIdx.y * sums.outputs + output, sum * sums.scale);
    }
    __syncthreads();
  }
}

/// A warp's lanes share one output's terms.
template <typename Join, typename Source, typename Offset>
__global__ void sum_rows_kernel(Source x, void* y, Sums<Offset> sums) {
  const std::int64_t begin = blockIdx.y * sums.slice_terms;
  const std::int64_t end = min(sums.terms, begin + sums.slice_terms);
  for (std::int64_t output = std::int64_t(blockIdx.x) * kWarps + threadIdx.y; output < sums.outputs;
       output += std::int64_t(gridDim.x) * kWarps) {
    const std::int64_t from = sums.kept.offset(Offset(output));
    float sum = Join::kStart;
#pragma unroll 4
    for (std::int64_t term = begin + threadIdx.x; term < end; term += kLanes) {
      sum = Join::join(sum, x(from + sums.repeated.offset(Offset(term)), output));
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      sum = Join::join(sum, __shfl_down_sync(0xffffffffu, sum, width));
    }
    if (threadIdx.x == 0) put(y, sums.dtype, blockIdx.y * sums.outputs + output, sum * sums.scale);
  }
}

/// Terms of one slice: a cut by shape alone, so that few outputs of long sums fill the device too.
inline std::int64_t slice_terms(std::int64_t outputs, std::int64_t terms, bool columns) {
  const std::int64_t blocks = ceil_div<std::int64_t>(outputs, columns ? kLanes : kWarps);
  const std::int64_t least = std::int64_t(kMinTerms) * (columns ? kWarps : kLanes);
  const std::int64_t slices =
      std::clamp<std::int64_t>(std::min(kWanted / blocks, terms / least), 1, kMaxSlices);
  return std::max<std::int64_t>(1, ceil_div(terms, slices));
}

template <typename Offset>
Sums<Offset> sums_of(const Shape& in, const Shape& out) {
  const Broadcast<Offset> map(in, out);
  Sums<Offset> sums{map.kept, map.repeated, out.num_elements(), 0, 1, DType::FP32};
  sums.terms = in.num_elements() == 0 ? 0 : std::int64_t(map.repeated.count());
  sums.slice_terms = slice_terms(sums.outputs, sums.terms, !map.repeats_last());
  return sums;
}

template <typename Join, typename Source, typename Offset>
void launch_sums(const KernelArgs& args, const Source& x, void* y, const Sums<Offset>& sums,
                 bool columns) {
  LaunchShape shape = shape_for(sums.outputs, columns ? kLanes : kWarps);
  shape.block = dim3(kLanes, kWarps);
  shape.grid.y = unsigned(sums.num_slices());
  launch(args, shape,
         columns ? sum_columns_kernel<Join, Source, Offset> : sum_rows_kernel<Join, Source, Offset>,
         x, y, sums);
}

/// What a second launch joins: the values of slices.
struct Slices {
  const float* values;
  __device__ float operator()(std::int64_t i, std::int64_t) const { return values[i]; }
};

}  // namespace reduction

/// What is reduced: f(element of the large tensor) where f is called with the element's place and
/// that of its result.
struct ReduceResult {
  void* to = nullptr;
  DType dtype = DType::FP32;
  float scale = 1;
  std::byte* workspace = nullptr;  // reduce_workspace() bytes
};

/// Bytes of the values of slices: `out` may have any shape that broadcasts to `in`.
inline std::int64_t reduce_workspace(const Shape& in, const Shape& out) {
  const std::int64_t outputs = out.num_elements();
  if (outputs == 0) return 0;
  const std::int64_t slices = reduction::sums_of<std::int64_t>(in, out).num_slices();
  return slices == 1 ? 0 : slices * outputs * std::int64_t(sizeof(float));
}

/// Reduces source(place in `in`, place in `out`). Long sums of few outputs are cut into slices,
/// which a second launch joins; the cut depends on the shapes alone.
template <typename Join, typename Offset, typename Source>
void reduce(const KernelArgs& args, const Source& source, const Shape& in, const Shape& out,
            const ReduceResult& result) {
  using namespace reduction;
  const bool columns = !Broadcast<Offset>(in, out).repeats_last();
  Sums<Offset> sums = sums_of<Offset>(in, out);
  const std::int64_t slices = sums.num_slices();
  if (slices == 1) {
    sums.dtype = result.dtype;
    sums.scale = result.scale;
    return launch_sums<Join>(args, source, result.to, sums, columns);
  }
  launch_sums<Join>(args, source, result.workspace, sums, columns);
  Sums<Offset> rest{{}, {}, sums.outputs, slices, slices, result.dtype, result.scale};
  rest.kept.push(Offset(sums.outputs), 1);
  rest.repeated.push(Offset(slices), Offset(sums.outputs));
  launch_sums<Join>(args, Slices{reinterpret_cast<const float*>(result.workspace)}, result.to, rest,
                    true);
}

}  // namespace tr::cuda

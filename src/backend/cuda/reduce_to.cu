// SPDX-License-Identifier: Apache-2.0
// reduce_to and mul_reduce: sums over the axes along which a tensor was broadcast, of its elements
// or of its products with another.
#include <algorithm>

#include "backend/cuda/axes.h"
#include "backend/cuda/cast.cuh"

namespace tr::cuda {
namespace {

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
  DType dtype;  // of the result

  std::int64_t num_slices() const { return terms == 0 ? 1 : ceil_div(terms, slice_terms); }
};

__device__ void put(void* to, DType dtype, std::int64_t i, float value) {
  switch (dtype) {
    case DType::FP16: static_cast<__half*>(to)[i] = from_float<__half>(value); break;
    case DType::BF16: static_cast<__nv_bfloat16*>(to)[i] = from_float<__nv_bfloat16>(value); break;
    default: static_cast<float*>(to)[i] = value;
  }
}

/// What is summed, by element.
template <typename T>
struct Values {
  const T* x;
  __device__ float operator()(std::int64_t i) const { return to_float(x[i]); }
};
template <typename T>
struct Products {
  const T *a, *b;
  __device__ float operator()(std::int64_t i) const { return to_float(a[i]) * to_float(b[i]); }
};

/// A warp's lanes are neighbouring outputs, its block's warps share their terms.
template <typename Source, typename Offset>
__global__ void sum_columns_kernel(Source x, void* y, Sums<Offset> sums) {
  __shared__ float partial[kWarps][kLanes];
  const std::int64_t begin = blockIdx.y * sums.slice_terms;
  const std::int64_t end = min(sums.terms, begin + sums.slice_terms);
  for (std::int64_t base = std::int64_t(blockIdx.x) * kLanes; base < sums.outputs;
       base += std::int64_t(gridDim.x) * kLanes) {
    const std::int64_t output = base + threadIdx.x;
    const bool exists = output < sums.outputs;
    float sum = 0;
    if (exists) {
      const std::int64_t from = sums.kept.offset(Offset(output));
#pragma unroll 4
      for (std::int64_t term = begin + threadIdx.y; term < end; term += kWarps) {
        sum += x(from + sums.repeated.offset(Offset(term)));
      }
    }
    partial[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && exists) {
      for (int warp = 1; warp < kWarps; ++warp) sum += partial[warp][threadIdx.x];
      put(y, sums.dtype, blockIdx.y * sums.outputs + output, sum);
    }
    __syncthreads();
  }
}

/// A warp's lanes share one output's terms.
template <typename Source, typename Offset>
__global__ void sum_rows_kernel(Source x, void* y, Sums<Offset> sums) {
  const std::int64_t begin = blockIdx.y * sums.slice_terms;
  const std::int64_t end = min(sums.terms, begin + sums.slice_terms);
  for (std::int64_t output = std::int64_t(blockIdx.x) * kWarps + threadIdx.y; output < sums.outputs;
       output += std::int64_t(gridDim.x) * kWarps) {
    const std::int64_t from = sums.kept.offset(Offset(output));
    float sum = 0;
#pragma unroll 4
    for (std::int64_t term = begin + threadIdx.x; term < end; term += kLanes) {
      sum += x(from + sums.repeated.offset(Offset(term)));
    }
    for (int width = kLanes / 2; width > 0; width /= 2) {
      sum += __shfl_down_sync(0xffffffffu, sum, width);
    }
    if (threadIdx.x == 0) put(y, sums.dtype, blockIdx.y * sums.outputs + output, sum);
  }
}

/// Terms of one slice: a cut by shape alone, so that few outputs of long sums fill the device too.
std::int64_t slice_terms(std::int64_t outputs, std::int64_t terms, bool columns) {
  const std::int64_t blocks = ceil_div<std::int64_t>(outputs, columns ? kLanes : kWarps);
  const std::int64_t least = std::int64_t(kMinTerms) * (columns ? kWarps : kLanes);
  const std::int64_t slices =
      std::clamp<std::int64_t>(std::min(kWanted / blocks, terms / least), 1, kMaxSlices);
  return std::max<std::int64_t>(1, ceil_div(terms, slices));
}

template <typename Offset>
Sums<Offset> sums_of(const TensorType& in, const TensorType& out) {
  const Broadcast<Offset> map(in.shape, out.shape);
  Sums<Offset> sums{map.kept, map.repeated, out.shape.num_elements(), 0, 1, out.dtype};
  sums.terms = in.shape.num_elements() == 0 ? 0 : std::int64_t(map.repeated.count());
  sums.slice_terms = slice_terms(sums.outputs, sums.terms, !map.repeats_last());
  return sums;
}

template <typename Source, typename Offset>
void launch_sums(const KernelArgs& args, const Source& x, void* y, const Sums<Offset>& sums,
                 bool columns) {
  LaunchShape shape = shape_for(sums.outputs, columns ? kLanes : kWarps);
  shape.block = dim3(kLanes, kWarps);
  shape.grid.y = unsigned(sums.num_slices());
  launch(args, shape,
         columns ? sum_columns_kernel<Source, Offset> : sum_rows_kernel<Source, Offset>, x, y,
         sums);
}

/// Long sums of few outputs are cut into slices, which a second launch adds up.
template <typename Offset, typename Source>
void reduce(const KernelArgs& args, const Source& source) {
  const TensorType &in = args.in_type(0), &out = args.out_type(0);
  const bool columns = !Broadcast<Offset>(in.shape, out.shape).repeats_last();
  Sums<Offset> sums = sums_of<Offset>(in, out);
  const std::int64_t slices = sums.num_slices();
  if (slices == 1) return launch_sums(args, source, args.out<void>(0), sums, columns);
  sums.dtype = DType::FP32;
  launch_sums(args, source, args.workspace(), sums, columns);
  Sums<Offset> rest{{}, {}, sums.outputs, slices, slices, out.dtype};
  rest.kept.push(Offset(sums.outputs), 1);
  rest.repeated.push(Offset(slices), Offset(sums.outputs));
  launch_sums(args, Values<float>{reinterpret_cast<const float*>(args.workspace())},
              args.out<void>(0), rest, true);
}

void launch_reduce_to(const KernelArgs& args) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  const std::int64_t outputs = args.out_type(0).shape.num_elements();
  if (outputs == 0) return;
  if (count == outputs) return launch_cast(args);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_offset(count, [&](auto offset_tag) {
      reduce<typename decltype(offset_tag)::type>(args, Values<T>{args.in<T>(0)});
    });
  });
}

void launch_mul_reduce(const KernelArgs& args) {
  if (args.out_type(0).shape.num_elements() == 0) return;
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_offset(args.in_type(0).shape.num_elements(), [&](auto offset_tag) {
      reduce<typename decltype(offset_tag)::type>(args, Products<T>{args.in<T>(0), args.in<T>(1)});
    });
  });
}

/// Bytes of the sums of slices.
std::int64_t slice_bytes(const KernelQuery& query) {
  const std::int64_t outputs = query.out[0].shape.num_elements();
  if (outputs == 0) return 0;
  const std::int64_t slices = sums_of<std::int64_t>(query.in[0], query.out[0]).num_slices();
  return slices == 1 ? 0 : slices * outputs * std::int64_t(sizeof(float));
}

KernelDef reduce_to_kernel() {
  KernelDef def = simple_kernel("reduce_to", launch_reduce_to, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
  });
  def.workspace_bytes = [](const KernelQuery& query) {
    const bool copies = query.in[0].shape.num_elements() == query.out[0].shape.num_elements();
    return copies ? std::int64_t(0) : slice_bytes(query);
  };
  return def;
}

KernelDef mul_reduce_kernel() {
  KernelDef def = simple_kernel("mul_reduce", launch_mul_reduce, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(2), query.out});
  });
  def.workspace_bytes = slice_bytes;
  return def;
}

const KernelRegistration kReduceTo{reduce_to_kernel()};
const KernelRegistration kMulReduce{mul_reduce_kernel()};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// dropout and its gradient: one function, x or dy times the mask over 1 - p.
#include "backend/cuda/map.cuh"
#include "backend/cuda/step_row.cuh"
#include "backend/dropout_draw.h"

namespace tr::cuda {
namespace {

constexpr int kWords = 4;  // of a Philox block: one an element

/// What the step tells of its draws, read from the device when the kernel runs.
struct Draws {
  const std::int64_t* counters;
  StepTable<const std::int64_t> step_ints;
  std::uint64_t draw_id;
  std::uint32_t threshold;
  float scale;

  __device__ DrawAddress address(std::int64_t sample) const {
    const std::int64_t* row = step_ints.row(counters);
    return dropout_address(std::uint64_t(row[kIntSeed]), std::uint64_t(counters[kCounterStep]),
                           draw_id, std::uint64_t(row[kIntSampleOffset] + sample));
  }
  __device__ float applied(std::uint32_t word, float value) const {
    return (word >> 8) >= threshold ? value * scale : 0.0f;
  }
};

/// `N` elements a thread, of one sample; `pieces` of them make a sample. A sample of `elements`
/// that N divides is read in vectors.
template <typename T, int N, bool kWhole, typename Offset>
__global__ void dropout_kernel(const T* x, T* y, std::int64_t samples, std::int64_t elements,
                               Draws draws) {
  const std::int64_t pieces = ceil_div<std::int64_t>(elements, N);
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; i < samples * pieces;
       i += stride) {
    const Offset sample = Offset(i) / Offset(pieces);
    const std::int64_t first = std::int64_t(Offset(i) - sample * Offset(pieces)) * N;
    const std::int64_t at = std::int64_t(sample) * elements + first;
    Vector<T, N> values;
    if constexpr (kWhole) {
      values = load<N>(x + at);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (first + j < elements) values.v[j] = x[at + j];
      }
    }
    const DrawAddress address = draws.address(std::int64_t(sample));
#pragma unroll
    for (int block = 0; block < N / kWords; ++block) {
      const Philox4 words = address.block(std::uint32_t(first / kWords + block));
#pragma unroll
      for (int j = 0; j < kWords; ++j) {
        T& value = values.v[block * kWords + j];
        value = from_float<T>(draws.applied(words.v[j], to_float(value)));
      }
    }
    if constexpr (kWhole) {
      store(y + at, values);
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        if (first + j < elements) y[at + j] = values.v[j];
      }
    }
  }
}

/// Several elements of a sample have one draw: element e that of e % count.
template <typename T>
struct MapShared {
  const T* x;
  T* y;
  std::int64_t elements, count;
  Draws draws;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t sample = i / elements, draw = (i - sample * elements) % count;
    const Philox4 words = draws.address(sample).block(std::uint32_t(draw / kWords));
    y[i] = from_float<T>(draws.applied(words.v[draw % kWords], to_float(x[i])));
  }
};

void launch_dropout(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t samples = shape[0], count = shape.num_elements();
  const std::int64_t elements = samples == 0 ? 0 : count / samples;
  const double p = args.attrs().f64("p");
  const Draws draws{args.in<std::int64_t>(1),
                    {args.in<std::int64_t>(2), args.in_type(2).shape},
                    std::uint64_t(args.attrs().i64("draw_id")),
                    dropout_threshold(p),
                    float(1.0 / (1.0 - p))};
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const std::int64_t shared =
        dropout_draws(args.attrs().str("per"), elements, shape.rank() == 0 ? 1 : shape.back());
    if (shared != elements) {
      launch_map<1>(args, count, true, MapShared<T>{x, y, elements, shared, draws});
      return;
    }
    const bool whole = elements % kWide == 0 && aligned_to(kVectorBytes, x, y);
    const std::int64_t pieces = samples * ceil_div<std::int64_t>(elements, whole ? kWide : kWords);
    dispatch_offset(pieces, [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      const auto kernel =
          whole ? dropout_kernel<T, kWide, true, Offset> : dropout_kernel<T, kWords, false, Offset>;
      launch(args, shape_for(pieces), kernel, x, y, samples, elements, draws);
    });
  });
}

std::string refuse(const KernelQuery& query) {
  if (query.in.size() < 3) return "counters and step_ints are missing: draws have no address";
  return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
}

const KernelRegistration kForward{simple_kernel("dropout", launch_dropout, refuse)};
const KernelRegistration kBackward{simple_kernel("dropout_backward", launch_dropout, refuse)};

}  // namespace
}  // namespace tr::cuda

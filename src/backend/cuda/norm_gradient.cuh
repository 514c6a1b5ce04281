// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two passes of a batch norm's backward step over whatever its gradient comes from. A source
// has kInFlight; load<N>(place), which holds the vector `x` beside what it needs; and
// dz<N>(norm, loaded, j), the gradient before the normalisation.

#include "backend/cuda/batch_norm.cuh"

namespace tr::cuda {

/// The sums; dz is stored too, where somebody wants it.
template <typename T, typename Source, bool kStore>
struct NormSums {
  static constexpr int kInFlight = Source::kInFlight;
  Source source;
  T* dz;
  NormalisationArrays arrays;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  template <int N>
  __device__ auto load(const Place& at) const {
    return source.template load<N>(at);
  }
  template <int N, typename Loaded>
  __device__ void add(const Normalisation<N>& norm, const Loaded& in, const Place& at,
                      float (&sums)[2][N]) const {
    Vector<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = source.template dz<N>(norm, in, j);
      sums[0][j] += d;
      sums[1][j] += d * (to_float(in.x.v[j]) - norm.mean.v[j]);
      if constexpr (kStore) out.v[j] = from_float<T>(d);
    }
    if constexpr (kStore) store(dz + at.i, out);
  }
};

template <typename T, typename Source>
struct NormDx {
  static constexpr int kInFlight = Source::kInFlight;
  Source source;
  T* dx;
  NormalisationArrays arrays;
  Coefficients coefficients;

  template <int N>
  __device__ DxChannel<N> channel(std::int64_t c) const {
    return load_dx_channel<N>(arrays, coefficients, c);
  }
  template <int N>
  __device__ auto load(const Place& at) const {
    return source.template load<N>(at);
  }
  template <int N, typename Loaded>
  __device__ void finish(const DxChannel<N>& channel, const Loaded& in, const Place& at) const {
    Vector<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = source.template dz<N>(channel.norm, in, j);
      out.v[j] = from_float<T>(channel(j, d, to_float(in.x.v[j])));
    }
    store(dx + at.i, out);
  }
};

/// Outputs 1 and 2 (dweight, dbias) and the coefficients of dx from the sums over x, input 1.
inline void launch_finish_norm(const KernelArgs& args, const PartialSums& sums,
                               const NormalisationArrays& arrays, bool frozen) {
  const BackwardWorkspace space(args);
  const ChannelRows x = ChannelRows::of(args.in_type(1).shape);
  launch_finish_sums(args, sums, x.channels,
                     FinishSums{arrays.weight,
                                arrays.rstd,
                                args.out<float>(1),
                                args.out<float>(2),
                                {space.a, space.b, space.c},
                                double(x.rows),
                                frozen});
}

/// The same with the pass over `shape` that makes the sums; dz is stored there if kStore.
template <typename T, bool kStore, typename Source>
void launch_norm_sums(const KernelArgs& args, const ChannelRows& shape, const Source& source, T* dz,
                      const NormalisationArrays& arrays, bool frozen) {
  const BackwardWorkspace space(args);
  const auto sums = launch_channel_sums<T>(
      args, shape, NormSums<T, Source, kStore>{source, dz, arrays}, space.partial);
  launch_finish_norm(args, sums, arrays, frozen);
}

/// Output 0, dx.
template <typename T, typename Source>
void launch_norm_dx(const KernelArgs& args, const ChannelRows& shape, const Source& source,
                    const NormalisationArrays& arrays) {
  const BackwardWorkspace space(args);
  launch_channel_map<T>(
      args, shape, NormDx<T, Source>{source, args.out<T>(0), arrays, {space.a, space.b, space.c}});
}

}  // namespace tr::cuda

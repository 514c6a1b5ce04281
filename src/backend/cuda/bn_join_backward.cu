// SPDX-License-Identifier: Apache-2.0
// Gradients of two batch norms whose results are added in front of one rectifier, as where a
// residual network's short way has a norm of its own: the gradient behind the rectifier is made
// once and serves both, in two passes.
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/second_gradient.cuh"
#include "backend/cuda/workspace_layout.h"

namespace tr::cuda {
namespace {

/// A norm's x and statistics.
template <typename T>
struct Side {
  const T* x;
  const float* mean;
};

template <int N>
struct TwoMeans {
  Floats<N> of[2];
};

/// Sums of dz, and of dz (x - mean) of both sides; dz is kept.
template <typename T, typename More>
struct JoinSums {
  static constexpr int kInFlight = 2, kSums = 3;
  const T* dy;
  More more;
  const std::uint8_t* mask;
  Side<T> sides[2];
  T* dz;

  template <int N>
  struct Loaded {
    Vector<T, N> dy, more, x[2];
    unsigned bits;
  };
  template <int N>
  __device__ TwoMeans<N> channel(std::int64_t c) const {
    return {{Floats<N>::load(sides[0].mean + c), Floats<N>::load(sides[1].mean + c)}};
  }
  template <int N>
  __device__ Loaded<N> load(const Place& at) const {
    Loaded<N> loaded;
    loaded.dy = cuda::load<N>(dy + at.i);
    if constexpr (More::kGiven) loaded.more = more.template load<N>(at);
    for (int side = 0; side < 2; ++side) loaded.x[side] = cuda::load<N>(sides[side].x + at.i);
    loaded.bits = load_mask<N>(mask, at.i);
    return loaded;
  }
  template <int N>
  __device__ void add(const TwoMeans<N>& mean, const Loaded<N>& in, const Place& at,
                      float (&sums)[kSums][N]) const {
    Vector<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float value = to_float(in.dy.v[j]);
      // Rounded as the sum of two gradients is where nothing is fused.
      if constexpr (More::kGiven) value = to_float(from_float<T>(value + to_float(in.more.v[j])));
      const float d = (in.bits >> j) & 1u ? value : 0;
      sums[0][j] += d;
      for (int side = 0; side < 2; ++side) {
        sums[1 + side][j] += d * (to_float(in.x[side].v[j]) - mean.of[side].v[j]);
      }
      out.v[j] = from_float<T>(d);
    }
    store(dz + at.i, out);
  }
};

/// dx of both sides; the first stands where dz did.
template <typename T>
struct JoinDx {
  static constexpr int kInFlight = 2;
  Side<T> sides[2];
  Coefficients coefficients[2];
  T* dx[2];

  template <int N>
  struct Channel {
    Floats<N> mean[2], a[2], b[2], c[2];
  };
  template <int N>
  struct Loaded {
    Vector<T, N> dz, x[2];
  };
  template <int N>
  __device__ Channel<N> channel(std::int64_t c) const {
    Channel<N> channel;
    for (int side = 0; side < 2; ++side) {
      channel.mean[side] = Floats<N>::load(sides[side].mean + c);
      channel.a[side] = Floats<N>::load(coefficients[side].a + c);
      channel.b[side] = Floats<N>::load(coefficients[side].b + c);
      channel.c[side] = Floats<N>::load(coefficients[side].c + c);
    }
    return channel;
  }
  template <int N>
  __device__ Loaded<N> load(const Place& at) const {
    return {cuda::load<N>(dx[0] + at.i),
            {cuda::load<N>(sides[0].x + at.i), cuda::load<N>(sides[1].x + at.i)}};
  }
  template <int N>
  __device__ void finish(const Channel<N>& channel, const Loaded<N>& in, const Place& at) const {
    for (int side = 0; side < 2; ++side) {
      Vector<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float centred = to_float(in.x[side].v[j]) - channel.mean[side].v[j];
        out.v[j] = from_float<T>(fmaf(channel.a[side].v[j], to_float(in.dz.v[j]),
                                      fmaf(channel.b[side].v[j], centred, channel.c[side].v[j])));
      }
      store(dx[side] + at.i, out);
    }
  }
};

/// Places in the workspace: coefficients of both sides, partial sums.
struct Places {
  std::int64_t coefficients[2], partial, bytes;

  explicit Places(const TensorType& x) {
    WorkspaceLayout layout;
    for (std::int64_t& place : coefficients) {
      place = layout.reserve(3 * x.shape.back() * std::int64_t(sizeof(float)));
    }
    partial = layout.reserve(partial_bytes(ChannelRows::of(x.shape), x.dtype, 3));
    bytes = layout.bytes();
  }
};

/// dy, x, weight, mean, rstd, mask, other_x, other_weight, other_mean, other_rstd, more -> dx,
/// dweight, dbias, other_dx, other_dweight, other_dbias.
template <typename T>
void launch_typed(const KernelArgs& args) {
  const ChannelRows shape = ChannelRows::of(args.in_type(1).shape);
  const Places places(args.in_type(1));
  const auto at = [&](std::int64_t place) {
    return reinterpret_cast<float*>(args.workspace() + place);
  };
  constexpr int kSide[] = {1, 6}, kMean[] = {3, 8};  // weight behind x, rstd behind mean
  JoinDx<T> dx{};
  for (int side = 0; side < 2; ++side) {
    float* a = at(places.coefficients[side]);
    dx.sides[side] = {args.in<T>(kSide[side]), args.in<float>(kMean[side])};
    dx.coefficients[side] = {a, a + shape.channels, a + 2 * shape.channels};
    dx.dx[side] = args.out<T>(3 * side);
  }
  PartialSums sums{};
  dispatch_more<T>(args, 10, args.in_type(1), [&](const auto& more) {
    const JoinSums<T, std::decay_t<decltype(more)>> join{
        args.in<T>(0), more, args.in<std::uint8_t>(5), {dx.sides[0], dx.sides[1]}, dx.dx[0]};
    sums = launch_channel_sums<T>(args, shape, join, at(places.partial));
  });
  for (int side = 0; side < 2; ++side) {
    launch_finish_sums(args, sums, shape.channels,
                       FinishSums{args.in<float>(kSide[side] + 1), args.in<float>(kMean[side] + 1),
                                  args.out<float>(3 * side + 1), args.out<float>(3 * side + 2),
                                  dx.coefficients[side], double(shape.rows), false},
                       1 + side);
  }
  launch_channel_map<T>(args, shape, dx);
}

void launch_join(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype,
                  [&](auto tag) { launch_typed<typename decltype(tag)::type>(args); });
}

std::string refuse(const KernelQuery& query) {
  if (size_of(query.in[0].dtype) != 2 || query.in[0].shape.back() % 8 != 0) {
    return "a mask has 8 channels a byte: expected 16-bit values and a multiple of 8 channels";
  }
  return refuse_more(query);
}

KernelDef join_kernel() {
  KernelDef def = simple_kernel("bn_join_backward", launch_join, refuse);
  def.workspace_bytes = [](const KernelQuery& query) { return Places(query.in[1]).bytes; };
  return def;
}

const KernelRegistration kJoin{join_kernel()};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the forward and the backward pass of batch norm share: the formula of y, which the backward
// pass computes again to know where the rectifier let it through, and the mask of a residual sum.

#include <cstdint>

#include "backend/cuda/channel_map.cuh"

namespace tr::cuda {

/// y = (x - mean) scale + bias with scale = weight rstd; one form everywhere, so that the same x
/// gives the same y.
template <int N>
struct Normalisation {
  Floats<N> mean, scale, bias;

  __device__ float operator()(int j, float x) const {
    return fmaf(x - mean.v[j], scale.v[j], bias.v[j]);
  }
};

/// Where the constants of a normalisation lie, one a channel.
struct NormalisationArrays {
  const float *mean, *rstd, *weight, *bias;

  template <int N>
  __device__ Normalisation<N> load(std::int64_t c) const {
    Normalisation<N> n{Floats<N>::load(mean + c), Floats<N>::load(rstd + c),
                       Floats<N>::load(bias + c)};
    const Floats<N> w = Floats<N>::load(weight + c);
#pragma unroll
    for (int j = 0; j < N; ++j) n.scale.v[j] *= w.v[j];
    return n;
  }
};

/// One bit an element of a feature map whose channels are a multiple of 8: element i is bit i % 8
/// of byte i / 8. A whole byte comes as it is: to shift it would be to wait for it before the next
/// row's loads.
template <int N>
__device__ inline unsigned load_mask(const std::uint8_t* mask, std::int64_t i) {
  static_assert(N == 8 || N == 4 || N == 1);
  if constexpr (N == 8) return mask[i / 8];
  return unsigned(mask[i / 8]) >> (i % 8);
}

/// Sums of x and its squares, both counted from `pivot` (a value of each channel, so that a large
/// mean takes no digits from the variance).
template <typename T>
struct Statistics {
  static constexpr int kInFlight = 2 * kRowsInFlight;  // one vector a row
  const T* x;

  template <int N>
  __device__ Floats<N> channel(std::int64_t c) const {
    Floats<N> pivot;
#pragma unroll
    for (int j = 0; j < N; ++j) pivot.v[j] = to_float(x[c + j]);
    return pivot;
  }
  template <int N>
  __device__ Vector<T, N> load(const Place& at) const {
    return cuda::load<N>(x + at.i);
  }
  template <int N>
  __device__ void add(const Floats<N>& pivot, const Vector<T, N>& values, const Place&,
                      float (&sums)[2][N]) const {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float d = to_float(values.v[j]) - pivot.v[j];
      sums[0][j] += d;
      sums[1][j] += d * d;
    }
  }
};

/// From the sums to what the step keeps of them.
template <typename T>
struct FinishStatistics {
  const T* pivot;  // null: 0
  const float *running_mean, *running_var;
  float *mean, *rstd, *next_mean, *next_var;
  double count, momentum, eps;

  __device__ void operator()(std::int64_t c, double sum, double squares) const {
    const double shift = sum / count;
    const double m = shift + (pivot == nullptr ? 0.0 : double(to_float(pivot[c])));
    keep(c, m, squares / count - shift * shift);
  }
  /// `centred`: the variance, which rounding may have made negative.
  __device__ void keep(std::int64_t c, double m, double centred) const {
    const double variance = centred > 0 ? centred : (centred == centred ? 0 : centred);
    mean[c] = float(m);
    rstd[c] = float(1 / sqrt(variance + eps));
    next_mean[c] = float(running_mean[c] * (1 - momentum) + m * momentum);
    next_var[c] =
        float(running_var[c] * (1 - momentum) + variance * (count / (count - 1)) * momentum);
  }
};

/// Bytes of the workspace of launch_statistics(); `given` is the optional input with statistics.
inline std::int64_t statistics_bytes(const KernelQuery& query, std::size_t given) {
  if (query.in.size() > given && query.in[given].shape.rank() > 0) return 0;
  return partial_bytes(ChannelRows::of(query.in[0].shape), query.in[0].dtype);
}

/// Where a node has its running statistics (two inputs), what comes of them (four outputs: mean,
/// rstd, next_mean, next_var), and an input with the sums of x and of its squares; given -1: they
/// are made here.
struct StatisticsPlaces {
  int running = 3, outputs = 1, given = -1;
};

template <typename T>
FinishStatistics<T> finish_statistics(const KernelArgs& args, const T* pivot, std::int64_t rows,
                                      const StatisticsPlaces& at) {
  return {pivot,
          args.in<float>(at.running),
          args.in<float>(at.running + 1),
          args.out<float>(at.outputs),
          args.out<float>(at.outputs + 1),
          args.out<float>(at.outputs + 2),
          args.out<float>(at.outputs + 3),
          double(rows),
          args.attrs().f64("momentum"),
          args.attrs().f64("eps")};
}

template <typename T>
void launch_statistics(const KernelArgs& args, const ChannelRows& shape, const T* x,
                       const StatisticsPlaces& at) {
  if (at.given >= 0) {
    return launch_finish_sums(args, PartialSums{args.in<float>(at.given), 1}, shape.channels,
                              finish_statistics<T>(args, nullptr, shape.rows, at));
  }
  auto* partial = reinterpret_cast<float*>(args.workspace());
  const auto sums = launch_channel_sums<T>(args, shape, Statistics<T>{x}, partial);
  launch_finish_sums(args, sums, shape.channels, finish_statistics<T>(args, x, shape.rows, at));
}

/// dx = a dz + b (x - mean) + c, a channel at a time.
struct Coefficients {
  float *a, *b, *c;
};

struct FinishSums {
  const float *weight, *rstd;
  float *dweight, *dbias;
  Coefficients coefficients;
  double count;
  bool frozen;  // mean and rstd do not depend on x

  __device__ void operator()(std::int64_t c, double sum, double product) const {
    const double r = rstd[c], a = double(weight[c]) * r;
    dbias[c] = float(sum);
    dweight[c] = float(product * r);
    coefficients.a[c] = float(a);
    coefficients.b[c] = frozen ? 0.0f : float(-a * r * r * product / count);
    coefficients.c[c] = frozen ? 0.0f : float(-a * sum / count);
  }
};

template <int N>
struct DxChannel {
  Normalisation<N> norm;
  Floats<N> a, b, c;

  __device__ float operator()(int j, float dz, float x) const {
    return fmaf(a.v[j], dz, fmaf(b.v[j], x - norm.mean.v[j], c.v[j]));
  }
};

template <int N>
__device__ inline DxChannel<N> load_dx_channel(const NormalisationArrays& arrays,
                                               const Coefficients& coefficients, std::int64_t c) {
  return {arrays.load<N>(c), Floats<N>::load(coefficients.a + c),
          Floats<N>::load(coefficients.b + c), Floats<N>::load(coefficients.c + c)};
}

/// Places in the workspace: coefficients, rstd of a frozen norm, partial sums.
struct BackwardWorkspace {
  float *a, *b, *c, *rstd, *partial;

  static std::int64_t bytes(const TensorType& x) {
    return 4 * x.shape.back() * std::int64_t(sizeof(float)) +
           partial_bytes(ChannelRows::of(x.shape), x.dtype);
  }
  explicit BackwardWorkspace(const KernelArgs& args)
      : a(reinterpret_cast<float*>(args.workspace())) {
    const std::int64_t channels = args.in_type(1).shape.back();
    b = a + channels;
    c = b + channels;
    rstd = c + channels;
    partial = rstd + channels;
  }
};

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// Batch norm, rectifier and 2x2 pooling in one pass each way: a thread has the four pixels of a
// window. The index has two bits an element of y; 8 channels are one 16-bit number.
#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/pixel_map.cuh"

namespace tr::cuda {
namespace {

constexpr int kCells = 4;
constexpr int kWide = 8;  // channels of a vector: 16-bit values only

template <typename T>
struct Cells {
  Vector<T, kWide> x[kCells];
};

/// Where the cells of a window lie.
struct Windows {
  PixelMap in, out;

  __device__ std::int64_t element(const Place& at, int cell) const {
    const Pixel p = pixel_of(std::uint32_t(at.row), out);
    return in.at(p.n, 2 * p.h + cell / 2, 2 * p.w + cell % 2, at.c);
  }
  template <typename T>
  __device__ Cells<T> load(const T* x, const Place& at) const {
    const std::int64_t first = element(at, 0), below = std::int64_t(in.width) * in.channels;
    Cells<T> cells;
    cells.x[0] = cuda::load<kWide>(x + first);
    cells.x[1] = cuda::load<kWide>(x + first + in.channels);
    cells.x[2] = cuda::load<kWide>(x + first + below);
    cells.x[3] = cuda::load<kWide>(x + first + below + in.channels);
    return cells;
  }
};

template <typename T>
struct PoolForward {
  static constexpr int kInFlight = 1;
  const T* x;
  T* y;
  std::uint16_t* index;
  NormalisationArrays arrays;
  Windows windows;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  template <int N>
  __device__ Cells<T> load(const Place& at) const {
    return windows.load(x, at);
  }
  template <int N>
  __device__ void finish(const Normalisation<N>& norm, const Cells<T>& in, const Place& at) const {
    Vector<T, N> best;
    unsigned cells = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float most = to_float(from_float<T>(norm(j, to_float(in.x[0].v[j]))));
      unsigned which = 0;
#pragma unroll
      for (unsigned cell = 1; cell < kCells; ++cell) {
        const float value = to_float(from_float<T>(norm(j, to_float(in.x[cell].v[j]))));
        const bool wins = value > most || value != value;
        most = wins ? value : most;
        which = wins ? cell : which;
      }
      best.v[j] = from_float<T>(most <= 0 ? 0 : most);
      cells |= which << (2 * j);
    }
    store(y + at.i, best);
    index[at.i / N] = std::uint16_t(cells);
  }
};

template <typename T>
struct PoolLoaded {
  Vector<T, kWide> dy;
  Cells<T> cells;
  unsigned index;
};

/// What the sums and dx read: the gradient of a window goes to the cell that won, if the rectifier
/// let it through.
template <typename T>
struct PoolSource {
  const T *dy, *x;
  const std::uint16_t* index;
  Windows windows;

  __device__ PoolLoaded<T> load(const Place& at) const {
    PoolLoaded<T> loaded;
    loaded.dy = cuda::load<kWide>(dy + at.i);
    loaded.index = index[at.i / kWide];
    loaded.cells = windows.load(x, at);
    return loaded;
  }
  /// Value of x in the cell that won.
  __device__ static float winner(const PoolLoaded<T>& in, int j) {
    const unsigned which = (in.index >> (2 * j)) & 3u;
    float value = to_float(in.cells.x[0].v[j]);
#pragma unroll
    for (unsigned cell = 1; cell < kCells; ++cell) {
      value = which == cell ? to_float(in.cells.x[cell].v[j]) : value;
    }
    return value;
  }
  template <int N>
  __device__ static float dz(const Normalisation<N>& norm, const PoolLoaded<T>& in, int j,
                             float winner) {
    return to_float(from_float<T>(norm(j, winner))) <= 0 ? 0 : to_float(in.dy.v[j]);
  }
};

template <typename T>
struct PoolSums {
  static constexpr int kInFlight = 1;
  PoolSource<T> source;
  NormalisationArrays arrays;

  template <int N>
  __device__ Normalisation<N> channel(std::int64_t c) const {
    return arrays.load<N>(c);
  }
  template <int N>
  __device__ PoolLoaded<T> load(const Place& at) const {
    return source.load(at);
  }
  template <int N>
  __device__ void add(const Normalisation<N>& norm, const PoolLoaded<T>& in, const Place&,
                      float (&sums)[2][N]) const {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float x = source.winner(in, j), d = source.dz(norm, in, j, x);
      sums[0][j] += d;
      sums[1][j] += d * (x - norm.mean.v[j]);
    }
  }
};

template <typename T>
struct PoolDx {
  static constexpr int kInFlight = 1;
  PoolSource<T> source;
  T* dx;
  NormalisationArrays arrays;
  Coefficients coefficients;

  template <int N>
  __device__ DxChannel<N> channel(std::int64_t c) const {
    return load_dx_channel<N>(arrays, coefficients, c);
  }
  template <int N>
  __device__ PoolLoaded<T> load(const Place& at) const {
    return source.load(at);
  }
  template <int N>
  __device__ void finish(const DxChannel<N>& channel, const PoolLoaded<T>& in,
                         const Place& at) const {
    float d[N];
#pragma unroll
    for (int j = 0; j < N; ++j) d[j] = source.dz(channel.norm, in, j, source.winner(in, j));
#pragma unroll
    for (unsigned cell = 0; cell < kCells; ++cell) {
      Vector<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const float dz = ((in.index >> (2 * j)) & 3u) == cell ? d[j] : 0;
        out.v[j] = from_float<T>(channel(j, dz, to_float(in.cells.x[cell].v[j])));
      }
      store(dx + source.windows.element(at, int(cell)), out);
    }
  }
};

Windows windows_of(const TensorType& x, const TensorType& y) {
  return {PixelMap::of(x.shape), PixelMap::of(y.shape)};
}

template <typename F>
void launch_wide(const KernelArgs& args, const ChannelRows& shape, const F& f) {
  if (shape.rows == 0) return;
  launch(args, channel_map_shape(shape, kWide, F::kInFlight), channel_map_kernel<kWide, F>, f,
         shape.rows, shape.channels);
}

void launch_forward(const KernelArgs& args) {
  const TensorType &x_type = args.in_type(0), &y_type = args.out_type(0);
  const ChannelRows rows = ChannelRows::of(x_type.shape);
  dispatch_16_bit(x_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    launch_statistics<T>(args, rows, x, {.given = args.has_in(5) ? 5 : -1});
    launch_wide(args, ChannelRows::of(y_type.shape),
                PoolForward<T>{
                    x,
                    args.out<T>(0),
                    args.out<std::uint16_t>(5),
                    {args.out<float>(1), args.out<float>(2), args.in<float>(1), args.in<float>(2)},
                    windows_of(x_type, y_type)});
  });
}

void launch_backward(const KernelArgs& args) {
  const TensorType &dy_type = args.in_type(0), &x_type = args.in_type(1);
  const NormalisationArrays arrays{args.in<float>(4), args.in<float>(5), args.in<float>(2),
                                   args.in<float>(3)};
  const BackwardWorkspace space(args);
  const Coefficients coefficients{space.a, space.b, space.c};
  const ChannelRows rows = ChannelRows::of(dy_type.shape);
  dispatch_16_bit(x_type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const PoolSource<T> source{args.in<T>(0), args.in<T>(1), args.in<std::uint16_t>(6),
                               windows_of(x_type, dy_type)};
    const auto sums =
        launch_channel_sums<T>(args, rows, PoolSums<T>{source, arrays}, space.partial);
    launch_finish_sums(
        args, sums, rows.channels,
        FinishSums{arrays.weight, arrays.rstd, args.out<float>(1), args.out<float>(2), coefficients,
                   double(ChannelRows::of(x_type.shape).rows), false});
    launch_wide(args, rows, PoolDx<T>{source, args.out<T>(0), arrays, coefficients});
  });
}

/// The feature map in front of the pooling is input `i`.
std::string refuse(const KernelQuery& query, std::size_t i) {
  const TensorType& x = query.in[i];
  if (size_of(x.dtype) != 2 || x.shape.back() % kWide != 0) {
    return "an index has 8 channels in 16 bits: expected 16-bit values and a multiple of 8 "
           "channels";
  }
  return refuse_many_pixels(query);
}

KernelDef forward_kernel() {
  KernelDef def = simple_kernel("bn_pool", launch_forward,
                                [](const KernelQuery& query) { return refuse(query, 0); });
  def.workspace_bytes = [](const KernelQuery& query) { return statistics_bytes(query, 5); };
  return def;
}

KernelDef backward_kernel() {
  KernelDef def = simple_kernel("bn_pool_backward", launch_backward,
                                [](const KernelQuery& query) { return refuse(query, 1); });
  def.workspace_bytes = [](const KernelQuery& query) {
    return BackwardWorkspace::bytes(query.in[0]);  // sums go over the windows
  };
  return def;
}

const KernelRegistration kForward{forward_kernel()};
const KernelRegistration kBackward{backward_kernel()};

}  // namespace
}  // namespace tr::cuda

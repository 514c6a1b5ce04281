// SPDX-License-Identifier: Apache-2.0
// normalize_image: pixels through a table of 256 entries a channel, in shared memory. Compiled with
// --fmad=false: the table is the host's, bit for bit.
#include <bit>

#include "backend/cuda/map.cuh"
#include "core/pixel/image_tail.h"
#include "core/pixel/normalize.h"

namespace tr::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kMostBlocks = 4096;  // each makes a table: some pixels must follow

struct ImageSizes {
  std::int32_t height, width, channels, out_channels;
};

struct ChannelNorms {
  float mean[pixel::kMostTailChannels], std[pixel::kMostTailChannels];
};

/// Where an element of the result lies.
struct Place {
  std::int64_t sample;
  std::int32_t y, x, c;

  __device__ Place(std::int64_t i, const ImageSizes& sizes) {
    const std::int64_t pixel = i / sizes.out_channels, row = pixel / sizes.width;
    c = std::int32_t(i - pixel * sizes.out_channels);
    x = std::int32_t(pixel - row * sizes.width);
    sample = row / sizes.height;
    y = std::int32_t(row - sample * sizes.height);
  }
  __device__ void advance(const ImageSizes& sizes) {
    if (++c < sizes.out_channels) return;
    c = 0;
    if (++x < sizes.width) return;
    x = 0;
    if (++y < sizes.height) return;
    y = 0;
    ++sample;
  }
};

template <typename T>
__device__ T value_at(const Place& place, const std::uint8_t* image, const pixel::ImageTail* tails,
                      const ImageSizes& sizes, const T* table) {
  if (place.c >= sizes.channels) return from_float<T>(0);
  const pixel::ImageTail& tail = tails[place.sample];
  if (pixel::is_erased(tail.erased, place.y, place.x)) return from_float<T>(0);
  const std::int32_t x = pixel::tail_column(tail, place.x, sizes.width);
  const std::int64_t row = place.sample * sizes.height + place.y;
  return table[256 * place.c + image[(row * sizes.width + x) * sizes.channels + place.c]];
}

/// N elements a thread at a time; `count` is a whole number of them.
template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(const std::uint8_t* image, const pixel::ImageTail* tails, T* out,
                     std::int64_t count, const ImageSizes sizes,
                     const __grid_constant__ ChannelNorms norms) {
  extern __shared__ __align__(16) unsigned char memory[];
  T* table = reinterpret_cast<T*>(memory);
  for (int i = int(threadIdx.x); i < 256 * sizes.channels; i += kThreads) {
    table[i] = from_float<T>(
        pixel::normalized(std::uint8_t(i & 255), norms.mean[i >> 8], norms.std[i >> 8]));
  }
  __syncthreads();
  const std::int64_t stride = std::int64_t(gridDim.x) * kThreads * N;
  for (std::int64_t i = (std::int64_t(blockIdx.x) * kThreads + threadIdx.x) * N; i < count;
       i += stride) {
    Place place(i, sizes);
    Vector<T, N> values;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = value_at(place, image, tails, sizes, table);
      place.advance(sizes);
    }
    store(out + i, values);
  }
}

ChannelNorms norms_of(const Attrs& attrs, std::int64_t channels) {
  ChannelNorms norms{};
  for (std::size_t c = 0; c < std::size_t(channels); ++c) {
    norms.mean[c] = std::bit_cast<float>(std::uint32_t(attrs.ints("mean_bits")[c]));
    norms.std[c] = std::bit_cast<float>(std::uint32_t(attrs.ints("std_bits")[c]));
  }
  return norms;
}

template <typename T, int N>
void launch_vectors(const KernelArgs& args) {
  const Shape& in = args.in_type(0).shape;
  const std::int64_t count = args.out_type(0).shape.num_elements();
  const ImageSizes sizes{std::int32_t(in[1]), std::int32_t(in[2]), std::int32_t(in[3]),
                         std::int32_t(args.out_type(0).shape.back())};
  LaunchShape shape = shape_for(ceil_div<std::int64_t>(count, N), kThreads, kMostBlocks);
  shape.shared_bytes = 256 * std::size_t(sizes.channels) * sizeof(T);
  launch(args, shape, normalize_kernel<T, N>, args.in<std::uint8_t>(0),
         args.in<pixel::ImageTail>(1), args.out<T>(0), count, sizes,
         norms_of(args.attrs(), sizes.channels));
}

void launch_normalize(const KernelArgs& args) {
  const std::int64_t count = args.out_type(0).shape.num_elements();
  if (count == 0) return;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    if (count % kWide == 0 && aligned_to(kVectorBytes, args.out<T>(0))) {
      launch_vectors<T, kWide>(args);
    } else {
      launch_vectors<T, 1>(args);
    }
  });
}

const KernelRegistration kNormalizeImage{simple_kernel("normalize_image", launch_normalize)};

}  // namespace
}  // namespace tr::cuda

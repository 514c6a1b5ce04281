// SPDX-License-Identifier: Apache-2.0
#pragma once

// A second gradient of a norm's y, the input `more`, which the backward kernels add to dy. It has a
// pixel for each of dy's or, with attribute more_stride, only those whose height and width are
// multiples of the stride: at all others it is zero (graph/passes/compact_strided_gradient.cpp).

#include <algorithm>
#include <string>
#include <type_traits>

#include "backend/cuda/channel_map.cuh"
#include "backend/cuda/divisor.h"
#include "backend/cuda/pixel_map.cuh"

namespace tr::cuda {

/// load<N>(from) or zeros. Vectors go by whole words: element by element they would be put together
/// at once, so that the next row's loads waited for them.
template <int N, typename T>
__device__ inline Vector<T, N> load_if(bool wanted, const T* from) {
  using Word = std::conditional_t<N * sizeof(T) % sizeof(std::uint32_t) == 0, std::uint32_t, T>;
  constexpr int kWords = N * sizeof(T) / sizeof(Word);
  Vector<Word, kWords> words{};
  if (wanted) words = cuda::load<kWords>(reinterpret_cast<const Word*>(from));
  return *reinterpret_cast<const Vector<T, N>*>(&words);
}

/// Each form has kGiven; a given one has load<N>(place).
struct NoGradient {
  static constexpr bool kGiven = false;
};

template <typename T>
struct WholeGradient {
  static constexpr bool kGiven = true;
  const T* values;

  template <int N>
  __device__ Vector<T, N> load(const Place& at) const {
    return cuda::load<N>(values + at.i);
  }
};

template <typename T>
struct StridedGradient {
  static constexpr bool kGiven = true;
  const T* values;
  Divisor height, width, down, across;  // of dy; strides
  PixelMap compact;

  template <int N>
  __device__ Vector<T, N> load(const Place& at) const {
    const Divisor::Split line = width.split(std::uint32_t(at.row));
    const Divisor::Split image = height.split(line.quotient);
    const Divisor::Split h = down.split(image.rest), w = across.split(line.rest);
    const std::int64_t from = compact.at(image.quotient, int(h.quotient), int(w.quotient), at.c);
    return load_if<N>((h.rest | w.rest) == 0, values + from);
  }
};

inline bool is_strided(const Attrs& attrs) {
  const std::vector<std::int64_t>& stride = attrs.ints("more_stride");
  return stride[0] != 1 || stride[1] != 1;
}

/// Calls f with the form that input `index` has, for a dy of type `dy`.
template <typename T, typename F>
void dispatch_more(const KernelArgs& args, int index, const TensorType& dy, F&& f) {
  if (!args.has_in(index)) return f(NoGradient{});
  const T* values = args.in<T>(index);
  if (!is_strided(args.attrs())) return f(WholeGradient<T>{values});
  const std::vector<std::int64_t>& stride = args.attrs().ints("more_stride");
  const auto divisor = [](std::int64_t size) { return Divisor(std::max<std::int64_t>(size, 1)); };
  f(StridedGradient<T>{values, divisor(dy.shape[1]), divisor(dy.shape[2]), divisor(stride[0]),
                       divisor(stride[1]), PixelMap::of(args.in_type(index).shape)});
}

/// Reason why its form is not taken.
inline std::string refuse_more(const KernelQuery& query) {
  return is_strided(query.attrs) ? refuse_many_pixels(query) : "";
}

}  // namespace tr::cuda

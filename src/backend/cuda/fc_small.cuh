// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernels of small 16-bit products share (fc_mma.cu, fc_tma.cu): sizes, what they refuse,
// and the epilogue: bias, activation or its derivative, rounding.

#include <limits>
#include <string>

#include "backend/cuda/dispatch.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/scalar.cuh"
#include "backend/elementwise_functors.h"

namespace tr::cuda::small_fc {

/// What happens to a finished sum: y = act(sum + bias), or dx = act'(gate) sum.
struct Epilogue {
  const float* bias = nullptr;
  const void* gate = nullptr;
  int activation = -1;  // number in the functor table; -1: none
  float alpha = 0;
};

/// Calls f(functor) for entry `number` of the functor table: one uniform branch a thread.
template <typename... Functors, typename F>
__device__ void visit(functors::List<Functors...>, int number, float alpha, F&& f) {
  int index = 0;
  (void)((index++ == number ? (f(functors::make<Functors>(alpha)), true) : false) || ...);
}

/// The number that `visit` knows Functor by.
template <typename Functor, typename... Functors>
constexpr int number_in(functors::List<Functors...>) {
  int number = -1, index = 0;
  ((std::is_same_v<Functor, Functors> ? void(number = index) : void(), ++index), ...);
  return number;
}
template <typename Functor>
constexpr int number_of() {
  return number_in<Functor>(functors::Table<StdMath>{});
}

/// Eight neighbours of the result, which one thread finishes.
constexpr int kWidth = 8;

/// The thread's part of a tile's epilogue: kWidth neighbours of the result. It asks for the bias or
/// the gate when it is made, so that they are there when the sums are.
template <bool kBackward, typename T>
class Finish {
 public:
  __device__ Finish(const Epilogue& epilogue, T* y, int row, int column, int num_n)
      : epilogue_(epilogue),
        to_(y + std::int64_t(row) * num_n + column),
        count_(min(kWidth, num_n - column)),
        wide_(num_n % kWidth == 0) {
    if (kBackward) {
      if (epilogue.activation < 0) return;
      const T* gate = static_cast<const T*>(epilogue.gate) + (to_ - y);
      if (wide_) {
        gate_ = *reinterpret_cast<const Vector<T, kWidth>*>(gate);
        return;
      }
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (i < count_) gate_.v[i] = gate[i];
      }
    } else if (epilogue.bias != nullptr) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) {
        if (i < count_) bias_[i] = epilogue.bias[column + i];
      }
    }
  }

  __device__ void operator()(float (&v)[kWidth]) const {
    if constexpr (!kBackward) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) v[i] += bias_[i];
    }
    if (epilogue_.activation >= 0) {
      visit(functors::Table<StdMath>{}, epilogue_.activation, epilogue_.alpha, [&](auto act) {
#pragma unroll
        for (int i = 0; i < kWidth; ++i) {
          v[i] = kBackward ? act.grad(to_float(gate_.v[i]), v[i]) : act(v[i]);
        }
      });
    }
    store(v);
  }

 private:
  __device__ void store(const float (&v)[kWidth]) const {
    Vector<T, kWidth> narrow;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) narrow.v[i] = from_float<T>(v[i]);
    if (wide_) {
      *reinterpret_cast<Vector<T, kWidth>*>(to_) = narrow;
      return;
    }
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      if (i < count_) to_[i] = narrow.v[i];
    }
  }

  const Epilogue& epilogue_;
  T* to_;
  int count_;
  bool wide_;  // whole vectors begin at multiples of their size
  Vector<T, kWidth> gate_{};
  float bias_[kWidth] = {};
};

/// The thread's part of a tile whose sums lie in shared memory.
template <typename Math, typename Shape, typename Finish>
__device__ void finish_tile(const void* sums, const Finish& finish) {
  constexpr int kRowThreads = Shape::kN / kWidth;
  const int row = int(threadIdx.x) / kRowThreads;
  const int column = int(threadIdx.x) % kRowThreads * kWidth;
  float v[kWidth];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const auto part = Math::sum(sums, row, column + half * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) v[half * 4 + i] = part.v[i];
  }
  finish(v);
}

/// Where a thread's part of a tile's result lies.
template <typename Shape>
struct ThreadPart {
  static_assert(Shape::kThreads * kWidth >= Shape::kM * Shape::kN);
  int row, column;
  bool inside;

  __device__ ThreadPart(int m, int n, int num_m, int num_n)
      : row(m + int(threadIdx.x) / (Shape::kN / kWidth)),
        column(n + int(threadIdx.x) % (Shape::kN / kWidth) * kWidth),
        inside(int(threadIdx.x) * kWidth < Shape::kM * Shape::kN && row < num_m && column < num_n) {
  }
};

inline int activation_number(const std::string& name) {
  int number = -1, index = 0;
  functors::for_each([&]<typename Functor>() {
    if (Functor::kName == name) number = index;
    ++index;
  });
  return number;
}

inline Epilogue epilogue_of(const Attrs& attrs) {
  Epilogue epilogue;
  if (attrs.contains("activation") && !attrs.str("activation").empty()) {
    epilogue.activation = activation_number(attrs.str("activation"));
    epilogue.alpha = attrs.f32("alpha");
  }
  return epilogue;
}

/// [rows, K] W [O, K] -> [rows, O], or backward [rows, O] W [O, K] -> [rows, K].
struct Sizes {
  std::int64_t m = 0, n = 0, k = 0;

  std::int64_t tiles(std::int64_t rows, std::int64_t columns) const {
    return ceil_div(m, rows) * ceil_div(n, columns);
  }
};
template <bool kBackward>
Sizes sizes_of(std::span<const TensorType> in) {
  const std::int64_t length = in[0].shape.back();
  const std::int64_t rows = length == 0 ? 0 : in[0].shape.num_elements() / length;
  const std::int64_t o = in[1].shape[0], k = in[1].shape[1];
  return {rows, kBackward ? k : o, kBackward ? o : k};
}

constexpr std::int64_t kMaxTiles = 528;  // of 64 x 32: four on each multiprocessor of an H200

/// The kernel's inputs beside the product's operands.
template <bool kBackward, typename T>
Epilogue with_inputs(Epilogue epilogue, const KernelArgs& args) {
  if (!args.has_in(2)) return epilogue;
  if (kBackward) {
    epilogue.gate = args.in<T>(2);
  } else {
    epilogue.bias = args.in<float>(2);
  }
  return epilogue;
}

template <bool kBackward>
std::string refuse_shape(const KernelQuery& query) {
  const DType dtype = query.in[0].dtype;
  if (dtype != DType::FP16 && dtype != DType::BF16) {
    return "operands are " + std::string(name_of(dtype)) + ", expected fp16 or bf16";
  }
  if (query.in[1].dtype != dtype || query.out[0].dtype != dtype) {
    return "operands and result are of several dtypes, expected one";
  }
  if (kBackward && query.in.size() > 2 && query.in[2].dtype != dtype &&
      query.in[2].shape.rank() > 0) {
    return "the gate is " + std::string(name_of(query.in[2].dtype)) + ", expected " +
           std::string(name_of(dtype));
  }
  const std::string activation =
      query.attrs.contains("activation") ? query.attrs.str("activation") : "";
  if (!activation.empty() && activation_number(activation) < 0) {
    return "there is no functor of activation '" + activation + "'";
  }
  const Sizes sizes = sizes_of<kBackward>(query.in);
  if (sizes.k > std::numeric_limits<int>::max() / 2) return "the sums have 2^30 terms or more";
  if (sizes.tiles(64, 32) > kMaxTiles) {
    return "there are more than 528 tiles of 64 x 32: the library is faster";
  }
  return "";
}

}  // namespace tr::cuda::small_fc

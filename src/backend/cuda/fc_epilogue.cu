// SPDX-License-Identifier: Apache-2.0
// Bias, activation and its derivative on a product in fp32, rounded once to the result's dtype.
#include "backend/cuda/fc_epilogue.h"

#include <map>

#include "backend/cuda/cast.cuh"
#include "backend/cuda/dispatch.h"
#include "backend/cuda/fc_product.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/map.cuh"
#include "backend/cuda/relu_mask.cuh"
#include "backend/cuda/scalar.cuh"
#include "backend/elementwise_functors.h"

namespace tr::cuda::epilogue {
namespace {

constexpr int kAcross = 32;  // threads along the columns: a warp reads neighbours
constexpr int kDown = 8;
constexpr int kWidth = 4;
constexpr std::int64_t kMostDown = 65535;  // of blocks, along y

struct Identity {
  static constexpr bool kHasAlpha = false;
  __device__ float operator()(float x) const { return x; }
  __device__ float grad(float, float dy) const { return dy; }
};

/// `columns` counts vectors of N.
template <typename T, int N, typename Functor>
__global__ void forward_kernel(const Vector<float, N>* product, const Vector<float, N>* bias,
                               Vector<T, N>* result, std::int64_t rows, std::int64_t columns,
                               Functor f) {
  const std::int64_t c = std::int64_t(blockIdx.x) * kAcross + threadIdx.x;
  if (c >= columns) return;
  const Vector<float, N> b = bias != nullptr ? bias[c] : Vector<float, N>{};
  for (std::int64_t r = std::int64_t(blockIdx.y) * kDown + threadIdx.y; r < rows;
       r += std::int64_t(gridDim.y) * kDown) {
    const Vector<float, N> p = product[r * columns + c];
    Vector<T, N> y;
#pragma unroll
    for (int j = 0; j < N; ++j) y.v[j] = from_float<T>(f(p.v[j] + b.v[j]));
    result[r * columns + c] = y;
  }
}

template <typename T, int N, typename Functor>
__global__ void backward_kernel(const Vector<float, N>* product, const Vector<T, N>* gate,
                                Vector<T, N>* result, std::int64_t rows, std::int64_t columns,
                                Functor f) {
  const std::int64_t c = std::int64_t(blockIdx.x) * kAcross + threadIdx.x;
  if (c >= columns) return;
  for (std::int64_t r = std::int64_t(blockIdx.y) * kDown + threadIdx.y; r < rows;
       r += std::int64_t(gridDim.y) * kDown) {
    const Vector<float, N> p = product[r * columns + c];
    const Vector<T, N> saved = gate[r * columns + c];
    Vector<T, N> dx;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      dx.v[j] = from_float<T>(f.grad(to_float(saved.v[j]), p.v[j]));
    }
    result[r * columns + c] = dx;
  }
}

LaunchShape shape_of(std::int64_t rows, std::int64_t columns) {
  LaunchShape shape;
  shape.block = dim3(kAcross, kDown);
  shape.grid.x = unsigned(ceil_div<std::int64_t>(columns, kAcross));
  shape.grid.y =
      unsigned(std::clamp<std::int64_t>(ceil_div<std::int64_t>(rows, kDown), 1, kMostDown));
  return shape;
}

template <typename T, int N>
const Vector<T, N>* vectors(const void* data) {
  return static_cast<const Vector<T, N>*>(data);
}
template <typename T, int N>
Vector<T, N>* vectors(void* data) {
  return static_cast<Vector<T, N>*>(data);
}

template <typename T, int N, typename Functor>
void forward_typed(const KernelArgs& args, const EpilogueCall& call, const Functor& f) {
  const std::int64_t columns = call.columns / N;
  launch(args, shape_of(call.rows, columns), forward_kernel<T, N, Functor>,
         vectors<float, N>(call.product), vectors<float, N>(call.bias), vectors<T, N>(call.result),
         call.rows, columns, f);
}

template <typename T, int N, typename Functor>
void backward_typed(const KernelArgs& args, const EpilogueCall& call, const Functor& f) {
  // Elements are independent: one long row if that makes vectors possible.
  const std::int64_t count = call.rows * call.columns;
  const bool flat = call.columns % N != 0;
  const std::int64_t rows = flat ? 1 : call.rows, columns = (flat ? count : call.columns) / N;
  launch(args, shape_of(rows, columns), backward_kernel<T, N, Functor>,
         vectors<float, N>(call.product), vectors<T, N>(call.gate), vectors<T, N>(call.result),
         rows, columns, f);
}

template <typename Functor>
Functor functor_of(float alpha) {
  if constexpr (Functor::kHasAlpha) {
    return Functor{alpha};
  } else {
    return Functor{};
  }
}

bool can_be_wide(const EpilogueCall& call, std::int64_t length) {
  return length % kWidth == 0 &&
         aligned_to(16, static_cast<const char*>(static_cast<const void*>(call.product)),
                    static_cast<const char*>(static_cast<const void*>(call.bias)),
                    static_cast<const char*>(call.gate), static_cast<const char*>(call.result));
}

template <typename Functor>
void forward(const KernelArgs& args, const EpilogueCall& call) {
  if (call.rows * call.columns == 0) return;
  const auto f = functor_of<Functor>(call.alpha);
  dispatch_float(call.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (can_be_wide(call, call.columns)) {
      forward_typed<T, kWidth>(args, call, f);
    } else {
      forward_typed<T, 1>(args, call, f);
    }
  });
}

template <typename Functor>
void backward(const KernelArgs& args, const EpilogueCall& call) {
  if (call.rows * call.columns == 0) return;
  const auto f = functor_of<Functor>(call.alpha);
  dispatch_float(call.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (can_be_wide(call, call.rows * call.columns)) {
      backward_typed<T, kWidth>(args, call, f);
    } else {
      backward_typed<T, 1>(args, call, f);
    }
  });
}

struct AddEntry {
  std::map<std::string_view, Epilogue>& table;
  template <typename Functor>
  void operator()() const {
    table[Functor::kName] = {forward<Functor>, backward<Functor>};
  }
};

std::map<std::string_view, Epilogue> make_table() {
  std::map<std::string_view, Epilogue> table;
  table[""] = {forward<Identity>, backward<Identity>};
  functors::for_each(AddEntry{table});
  return table;
}

constexpr int kStreamThreads = 256;
constexpr int kStreamVectors = 4;  // of 16 bytes that a thread asks for at once

/// What says which elements stay: a gate of the same type, x itself, the same with a mask of the
/// result for others, or such a mask.
enum class Keep : std::uint8_t { GATE, OWN, OWN_AND_MARK, MASK };

/// x = 0 where it does not stay. From the end on: what the product wrote last may still lie in the
/// L2 cache.
template <typename T, Keep kKeep>
__global__ __launch_bounds__(kStreamThreads) void drop_kernel(const uint4* gate, uint4* x,
                                                              std::uint8_t* mask,
                                                              std::int64_t count) {
  const std::int64_t last =
      count - 1 - std::int64_t(blockIdx.x) * (kStreamVectors * kStreamThreads) - threadIdx.x;
  uint4 values[kStreamVectors], saved[kStreamVectors];
  std::uint32_t bits[kStreamVectors];
#pragma unroll
  for (int j = 0; j < kStreamVectors; ++j) {
    const std::int64_t i = last - j * kStreamThreads;
    if (i >= 0) values[j] = x[i];
    if (kKeep == Keep::GATE && i >= 0) saved[j] = gate[i];
    if (kKeep == Keep::MASK && i >= 0) bits[j] = mask[i];
  }
#pragma unroll
  for (int j = 0; j < kStreamVectors; ++j) {
    const std::int64_t i = last - j * kStreamThreads;
    if (i < 0) return;
    if constexpr (kKeep == Keep::MASK) {
      values[j].x &= kept_bits(bits[j], 0);
      values[j].y &= kept_bits(bits[j], 1);
      values[j].z &= kept_bits(bits[j], 2);
      values[j].w &= kept_bits(bits[j], 3);
    } else {
      const uint4 by = kKeep == Keep::GATE ? saved[j] : values[j];
      values[j].x &= ~not_positive(by.x, T{});
      values[j].y &= ~not_positive(by.y, T{});
      values[j].z &= ~not_positive(by.z, T{});
      values[j].w &= ~not_positive(by.w, T{});
    }
    if constexpr (kKeep == Keep::OWN_AND_MARK) mask[i] = std::uint8_t(marks_of<T>(values[j]));
    x[i] = values[j];
  }
}

/// Of any place and number.
template <typename T>
struct DropWhereNotPositive {
  const T* gate;
  T* x;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const Vector<T, N> saved = load<N>(gate + i);
    Vector<T, N> values = load<N>(x + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      if (to_float(saved.v[j]) <= 0.0f) values.v[j] = from_float<T>(0.0f);
    }
    store(x + i, values);
  }
};

/// A thread makes kStreamVectors bytes of the mask, each of eight neighbours of 16 bits. Rows of
/// whole mask rows lie one behind the other.
template <typename T>
__global__ __launch_bounds__(kStreamThreads) void mark_whole_rows_kernel(const uint4* gate,
                                                                         std::uint8_t* mask,
                                                                         std::int64_t count) {
  const std::int64_t first =
      std::int64_t(blockIdx.x) * (kStreamVectors * kStreamThreads) + threadIdx.x;
  uint4 values[kStreamVectors] = {};
#pragma unroll
  for (int j = 0; j < kStreamVectors; ++j) {
    if (first + j * kStreamThreads < count) values[j] = gate[first + j * kStreamThreads];
  }
#pragma unroll
  for (int j = 0; j < kStreamVectors; ++j) {
    if (first + j * kStreamThreads < count)
      mask[first + j * kStreamThreads] = std::uint8_t(marks_of<T>(values[j]));
  }
}

/// A thread makes a byte of the mask: eight neighbours of a row. Bits behind the last column are 0.
template <typename T>
__global__ void mark_positive_kernel(const T* gate, std::uint8_t* mask, std::int64_t rows,
                                     std::int64_t columns, std::int64_t row_bytes, bool wide) {
  const std::int64_t at = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * row_bytes) return;
  const std::int64_t row = at / row_bytes, column = at % row_bytes * 8;
  const T* from = gate + row * columns + column;
  unsigned bits = 0;
  if (wide && column < columns) {
    const Vector<T, 8> values = load<8>(from);
#pragma unroll
    for (int j = 0; j < 8; ++j) bits |= unsigned(!(to_float(values.v[j]) <= 0.0f)) << j;
  } else {
    for (int j = 0; j < 8 && column + j < columns; ++j) {
      bits |= unsigned(!(to_float(from[j]) <= 0.0f)) << j;
    }
  }
  mask[at] = std::uint8_t(bits);
}

}  // namespace
}  // namespace tr::cuda::epilogue

namespace tr::cuda {

const Epilogue* find_epilogue(std::string_view name) {
  static const std::map<std::string_view, Epilogue> table = epilogue::make_table();
  const auto found = table.find(name);
  return found == table.end() ? nullptr : &found->second;
}

namespace {

/// A grid whose threads take kStreamVectors of `vectors` each.
LaunchShape stream_shape(std::int64_t vectors) {
  return shape_for(ceil_div<std::int64_t>(vectors, epilogue::kStreamVectors),
                   epilogue::kStreamThreads, INT32_MAX);
}

}  // namespace

void drop_where_not_positive(const KernelArgs& args, const void* gate, void* x, DType dtype,
                             std::int64_t count) {
  const std::int64_t bytes = count * std::int64_t(size_of(dtype));
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* from = static_cast<const T*>(gate);
    auto* to = static_cast<T*>(x);
    const bool aligned = aligned_to(kVectorBytes, from, to);
    if (!aligned || bytes % kVectorBytes != 0) {
      launch_map<kVectorBytes / int(sizeof(T))>(args, count, aligned,
                                                epilogue::DropWhereNotPositive<T>{from, to});
      return;
    }
    const std::int64_t vectors = bytes / kVectorBytes;
    launch(args, stream_shape(vectors),
           gate == x ? epilogue::drop_kernel<T, epilogue::Keep::OWN>
                     : epilogue::drop_kernel<T, epilogue::Keep::GATE>,
           static_cast<const uint4*>(gate), static_cast<uint4*>(x), nullptr, vectors);
  });
}

void drop_where_not_marked(const KernelArgs& args, const void* mask, void* x, DType dtype,
                           std::int64_t count) {
  using epilogue::Keep;
  const std::int64_t vectors = count / 8;
  launch(args, stream_shape(vectors),
         dtype == DType::FP16 ? epilogue::drop_kernel<__half, Keep::MASK>
                              : epilogue::drop_kernel<__nv_bfloat16, Keep::MASK>,
         nullptr, static_cast<uint4*>(x),
         const_cast<std::uint8_t*>(static_cast<const std::uint8_t*>(mask)), vectors);
}

void relu_and_mark(const KernelArgs& args, void* x, void* mask, DType dtype, std::int64_t count) {
  using epilogue::Keep;
  const std::int64_t vectors = count / 8;
  launch(args, stream_shape(vectors),
         dtype == DType::FP16 ? epilogue::drop_kernel<__half, Keep::OWN_AND_MARK>
                              : epilogue::drop_kernel<__nv_bfloat16, Keep::OWN_AND_MARK>,
         nullptr, static_cast<uint4*>(x), static_cast<std::uint8_t*>(mask), vectors);
}

void mark_positive(const KernelArgs& args, const void* gate, void* mask, DType dtype,
                   std::int64_t rows, std::int64_t columns) {
  const std::int64_t row_bytes = mask_row_bits(columns) / 8;
  auto* bits = static_cast<std::uint8_t*>(mask);
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* from = static_cast<const T*>(gate);
    const bool wide = columns % 8 == 0 && aligned_to(8 * sizeof(T), from);
    if constexpr (sizeof(T) == 2) {
      if (wide && row_bytes * 8 == columns) {
        launch(args, stream_shape(rows * row_bytes), epilogue::mark_whole_rows_kernel<T>,
               static_cast<const uint4*>(gate), bits, rows * row_bytes);
        return;
      }
    }
    launch(args, shape_for(rows * row_bytes, 256, INT32_MAX), epilogue::mark_positive_kernel<T>,
           from, bits, rows, columns, row_bytes, wide);
  });
}

void round_vector(const KernelArgs& args, const float* from, void* to, DType dtype,
                  std::int64_t count) {
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* rounded = static_cast<T*>(to);
    launch_map<kVectorBytes / int(sizeof(float))>(
        args, count, aligned_to(kVectorBytes, from, rounded), Cast<float, T>{from, rounded});
  });
}

}  // namespace tr::cuda

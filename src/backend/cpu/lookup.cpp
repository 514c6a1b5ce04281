// SPDX-License-Identifier: Apache-2.0
// gather, embedding and their gradients; prepend_tokens and position_embedding.
#include <cstring>
#include <limits>

#include "backend/cpu/broadcast.h"

namespace tr::cpu {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// x [outer, length, inner] at index [outer, count, inner].
struct GatherShape {
  std::int64_t outer = 1, length = 1, count = 1, inner = 1;

  GatherShape(const Attrs& attrs, const Shape& x, const Shape& index) {
    const std::int64_t given = attrs.i64("axis");
    const int axis = int(given < 0 ? given + x.rank() : given);
    for (int i = 0; i < x.rank(); ++i) {
      if (i != axis) (i < axis ? outer : inner) *= x[i];
    }
    length = x[axis];
    count = index[axis];
  }
};

/// Calls f(index, outer, i, inner).
template <typename F>
void for_index(const KernelArgs& args, int input, const GatherShape& s, std::int64_t begin,
               std::int64_t end, F&& f) {
  dispatch_index(args.in_type(input).dtype, [&](auto tag) {
    const auto* index = args.in<typename decltype(tag)::type>(input);
    for (std::int64_t at = begin; at < end; ++at) {
      f(std::int64_t(index[at]), at / (s.count * s.inner), at / s.inner % s.count, at % s.inner);
    }
  });
}

void launch_gather(const KernelArgs& args) {
  const GatherShape s(args.attrs(), args.in_type(0).shape, args.in_type(1).shape);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    const T nan = from_float<T>(kNan);
    for_chunks(args.pool(), s.outer * s.count * s.inner, kStreamChunk,
               [&](std::int64_t begin, std::int64_t end) {
                 for_index(args, 1, s, begin, end,
                           [&](std::int64_t k, std::int64_t o, std::int64_t i, std::int64_t j) {
                             const bool inside = k >= 0 && k < s.length;
                             y[(o * s.count + i) * s.inner + j] =
                                 inside ? x[(o * s.length + k) * s.inner + j] : nan;
                           });
               });
  });
}

void launch_gather_backward(const KernelArgs& args) {
  const GatherShape s(args.attrs(), args.out_type(0).shape, args.in_type(1).shape);
  auto* sums = reinterpret_cast<float*>(args.workspace());
  const std::int64_t run = s.count * s.inner, whole = s.length * s.inner;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    T* dx = args.out<T>(0);
    for_chunks(args.pool(), s.outer, rows_per_task(run + whole),
               [&](std::int64_t begin, std::int64_t end) {
                 std::fill(sums + begin * whole, sums + end * whole, 0.0f);
                 for_index(args, 1, s, begin * run, end * run,
                           [&](std::int64_t k, std::int64_t o, std::int64_t i, std::int64_t j) {
                             if (k < 0 || k >= s.length) return;
                             sums[(o * s.length + k) * s.inner + j] +=
                                 to_float(dy[(o * s.count + i) * s.inner + j]);
                           });
                 store_floats(sums + begin * whole, dx + begin * whole, (end - begin) * whole);
               });
  });
}

void launch_embedding(const KernelArgs& args) {
  const std::int64_t rows = args.in_type(1).shape[0], features = args.in_type(1).shape[1];
  const std::int64_t count = args.in_type(0).shape.num_elements();
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* weight = args.in<T>(1);
    T* y = args.out<T>(0);
    dispatch_index(args.in_type(0).dtype, [&](auto index_tag) {
      const auto* ids = args.in<typename decltype(index_tag)::type>(0);
      for_chunks(args.pool(), count, rows_per_task(features),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) {
                     const auto id = std::int64_t(ids[i]);
                     T* to = y + i * features;
                     if (id < 0 || id >= rows) {
                       std::fill_n(to, features, from_float<T>(kNan));
                     } else {
                       std::copy_n(weight + id * features, features, to);
                     }
                   }
                 });
    });
  });
}

/// Columns of the table that one task sums, all ids of them: a cut by shape alone.
constexpr std::int64_t kColumns = 64;

void launch_embedding_dweight(const KernelArgs& args) {
  const std::int64_t rows = args.out_type(0).shape[0], features = args.out_type(0).shape[1];
  const std::int64_t count = args.in_type(1).shape.num_elements();
  const std::int64_t padding = args.attrs().i64("padding_idx");
  float* dweight = args.out<float>(0);
  const void* dy = args.in<void>(0);
  const DType dtype = args.in_type(0).dtype;
  dispatch_index(args.in_type(1).dtype, [&](auto tag) {
    const auto* ids = args.in<typename decltype(tag)::type>(1);
    for_chunks(args.pool(), features, kColumns, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t n = end - begin;
      for (std::int64_t row = 0; row < rows; ++row) {
        std::fill_n(dweight + row * features + begin, n, 0.0f);
      }
      float wide[kRowBlock];
      for (std::int64_t i = 0; i < count; ++i) {
        const auto id = std::int64_t(ids[i]);
        if (id < 0 || id >= rows || id == padding) continue;
        const float* from = floats_of(dy, dtype, i * features + begin, n, wide);
        float* into = dweight + id * features + begin;
        for (std::int64_t j = 0; j < n; ++j) into[j] += from[j];
      }
    });
  });
}

/// weight may be fp32 where x is not.
void launch_position(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const FloatOperand x = float_operand(args, 0, shape), weight = float_operand(args, 1, shape);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* y = args.out<T>(0);
    for_row_runs(args.pool(), shape, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      float wide_x[kRowBlock], wide_weight[kRowBlock], result[kRowBlock];
      T* to = y + row * x.map.columns() + column;
      const float* from = x.row(row, column, n, wide_x);
      const float* more = weight.row(row, column, n, wide_weight);
      float* into = result_floats(to, result);
      for (std::int64_t j = 0; j < n; ++j) into[j] = from[j] + more[j];
      put_floats(to, into, n);
    });
  });
}

void launch_tokens(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t channels = shape[2], tokens = args.in_type(1).shape[0];
  const std::int64_t first = tokens * channels, rest = shape[1] * channels - first;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_chunks(args.pool(), shape[0], rows_per_task(first + rest),
               [&](std::int64_t begin, std::int64_t end) {
                 float wide[kRowBlock];
                 for (std::int64_t n = begin; n < end; ++n) {
                   T* to = args.out<T>(0) + n * (first + rest);
                   for (std::int64_t i = 0; i < first; i += kRowBlock) {
                     const std::int64_t run = std::min(kRowBlock, first - i);
                     store_floats(floats_of(args.in<void>(1), args.in_type(1).dtype, i, run, wide),
                                  to + i, run);
                   }
                   std::copy_n(args.in<T>(0) + n * rest, rest, to + first);
                 }
               });
  });
}

KernelDef gather_backward_kernel() {
  KernelDef def = simple_kernel("gather_backward", launch_gather_backward);
  def.workspace_bytes = [](const KernelQuery& query) {
    return query.out[0].shape.num_elements() * std::int64_t(sizeof(float));
  };
  return def;
}

const KernelRegistration kGather{simple_kernel("gather", launch_gather)};
const KernelRegistration kGatherBackward{gather_backward_kernel()};
const KernelRegistration kEmbedding{simple_kernel("embedding", launch_embedding)};
const KernelRegistration kDweight{simple_kernel("embedding_dweight", launch_embedding_dweight)};
const KernelRegistration kPosition{
    simple_kernel("position_embedding", launch_position, refuse_unless_floating)};
const KernelRegistration kTokens{
    simple_kernel("prepend_tokens", launch_tokens, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu

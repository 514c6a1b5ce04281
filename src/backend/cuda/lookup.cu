// SPDX-License-Identifier: Apache-2.0
// gather, embedding and their gradients; prepend_tokens and position_embedding.
#include "backend/cuda/broadcast.cuh"
#include "backend/cuda/workspace_layout.h"

namespace tr::cuda {
namespace {

/// Class numbers, ids: int32 or int64.
struct Numbers {
  const void* data;
  bool wide;

  Numbers(const KernelArgs& args, int i)
      : data(args.in<void>(i)), wide(args.in_type(i).dtype == DType::INT64) {}
  __device__ std::int64_t operator[](std::int64_t i) const {
    return wide ? static_cast<const std::int64_t*>(data)[i]
                : std::int64_t(static_cast<const std::int32_t*>(data)[i]);
  }
};

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

struct MapGather {
  const void* x;
  void* y;
  DType dtype;
  Numbers index;
  GatherShape s;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t k = index[i], o = i / (s.count * s.inner), j = i % s.inner;
    const bool inside = k >= 0 && k < s.length;
    put(y, dtype, i, inside ? get(x, dtype, (o * s.length + k) * s.inner + j) : NAN);
  }
};

void launch_gather(const KernelArgs& args) {
  const GatherShape s(args.attrs(), args.in_type(0).shape, args.in_type(1).shape);
  launch_map<1>(
      args, s.outer * s.count * s.inner, true,
      MapGather{args.in<void>(0), args.out<void>(0), args.out_type(0).dtype, Numbers(args, 1), s});
}

/// An element of dx looks for its number among all of its line: no two threads write one place.
struct MapGatherBackward {
  const void* dy;
  void* dx;
  DType dtype;
  Numbers index;
  GatherShape s;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t o = i / (s.length * s.inner), k = i / s.inner % s.length, j = i % s.inner;
    float sum = 0;
    for (std::int64_t c = 0; c < s.count; ++c) {
      const std::int64_t at = (o * s.count + c) * s.inner + j;
      if (index[at] == k) sum += get(dy, dtype, at);
    }
    put(dx, dtype, i, sum);
  }
};

void launch_gather_backward(const KernelArgs& args) {
  const GatherShape s(args.attrs(), args.out_type(0).shape, args.in_type(1).shape);
  launch_map<1>(args, s.outer * s.length * s.inner, true,
                MapGatherBackward{args.in<void>(0), args.out<void>(0), args.out_type(0).dtype,
                                  Numbers(args, 1), s});
}

struct MapEmbedding {
  Numbers ids;
  const void* weight;
  void* y;
  DType dtype;
  std::int64_t rows, features;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t token = i / features, id = ids[token];
    const bool inside = id >= 0 && id < rows;
    put(y, dtype, i, inside ? get(weight, dtype, id * features + i - token * features) : NAN);
  }
};

void launch_embedding(const KernelArgs& args) {
  const Shape& weight = args.in_type(1).shape;
  launch_map<1>(args, args.out_type(0).shape.num_elements(), true,
                MapEmbedding{Numbers(args, 0), args.in<void>(1), args.out<void>(0),
                             args.out_type(0).dtype, weight[0], weight[1]});
}

// The gradient of a table: tokens of one id form a chain in the order of their places. A block
// walks the chain of each id and adds its rows: no two blocks write one row, and the order is
// fixed.

constexpr int kLinkWarps = 8;

/// A warp a token: the next token of the same id (count: none), and whether there is none before.
__global__ void link_kernel(Numbers ids, std::int64_t count, std::int32_t* next,
                            std::int32_t* is_first) {
  const int lane = int(threadIdx.x);
  const std::int64_t stride = std::int64_t(gridDim.x) * kLinkWarps;
  for (std::int64_t i = std::int64_t(blockIdx.x) * kLinkWarps + threadIdx.y; i < count;
       i += stride) {
    const std::int64_t id = ids[i];
    bool seen = false;
    for (std::int64_t j = i - 1; j >= 0 && !seen; j -= 32) {
      seen = __any_sync(0xffffffffu, j - lane >= 0 && ids[j - lane] == id);
    }
    std::int64_t found = count;
    for (std::int64_t j = i + 1; j < count && found == count; j += 32) {
      const unsigned hits = __ballot_sync(0xffffffffu, j + lane < count && ids[j + lane] == id);
      if (hits != 0) found = j + __ffs(int(hits)) - 1;
    }
    if (lane == 0) {
      next[i] = std::int32_t(found);
      is_first[i] = seen ? 0 : 1;
    }
  }
}

struct Table {
  float* dweight;
  std::int64_t rows, features, padding;
};

__global__ void add_rows_kernel(Numbers ids, std::int64_t count, const std::int32_t* next,
                                const std::int32_t* is_first, const void* dy, DType dtype,
                                Table table) {
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    const std::int64_t id = ids[i];
    if (is_first[i] == 0 || id < 0 || id >= table.rows || id == table.padding) continue;
    for (std::int64_t c = threadIdx.x; c < table.features; c += blockDim.x) {
      float sum = 0;
      for (std::int64_t j = i; j < count; j = next[j])
        sum += get(dy, dtype, j * table.features + c);
      table.dweight[id * table.features + c] = sum;
    }
  }
}

struct MapZero {
  float* x;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<float, N> zero = {};
    store(x + i, zero);
  }
};

void launch_embedding_dweight(const KernelArgs& args) {
  const Shape& weight = args.out_type(0).shape;
  const std::int64_t count = args.in_type(1).shape.num_elements();
  const Table table{args.out<float>(0), weight[0], weight[1], args.attrs().i64("padding_idx")};
  launch_map<4>(args, weight.num_elements(), aligned_to(kVectorBytes, table.dweight),
                MapZero{table.dweight});
  if (count == 0) return;
  auto* next = reinterpret_cast<std::int32_t*>(args.workspace());
  std::int32_t* is_first = next + count;
  LaunchShape links = shape_for(count, kLinkWarps);
  links.block = dim3(32, kLinkWarps);
  launch(args, links, link_kernel, Numbers(args, 1), count, next, is_first);
  LaunchShape adds = shape_for(count, 1);
  adds.block = dim3(unsigned(weight[1] >= 256 ? 256 : 64));
  launch(args, adds, add_rows_kernel, Numbers(args, 1), count, next, is_first, args.in<void>(0),
         args.in_type(0).dtype, table);
}

KernelDef dweight_kernel() {
  KernelDef def = simple_kernel(
      "embedding_dweight", launch_embedding_dweight, [](const KernelQuery& query) -> std::string {
        const std::int64_t count = query.in[1].shape.num_elements();
        if (count <= INT32_MAX) return "";
        return "there are " + std::to_string(count) + " ids, expected less than 2^31";
      });
  def.workspace_bytes = [](const KernelQuery& query) {
    return 2 * query.in[1].shape.num_elements() * std::int64_t(sizeof(std::int32_t));
  };
  return def;
}

template <typename Offset>
struct MapPosition {
  Operand<Offset> x, weight;
  void* y;
  DType dtype;

  template <int N>
  __device__ void run(std::int64_t i) const {
    put(y, dtype, i, x(i) + weight(i));
  }
};

void launch_position(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  dispatch_offset(shape.num_elements(), [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const Operand<Offset> x(args, 0, shape), weight(args, 1, shape);
    launch_map<1>(args, shape.num_elements(), true,
                  MapPosition<Offset>{x, weight, args.out<void>(0), args.out_type(0).dtype});
  });
}

/// Elements [0, first) of a sample are those of the tokens.
struct MapTokens {
  const void *x, *weight;
  void* y;
  DType dtype, weight_dtype;
  std::int64_t first, rest;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t n = i / (first + rest), at = i - n * (first + rest);
    put(y, dtype, i,
        at < first ? get(weight, weight_dtype, at) : get(x, dtype, n * rest + at - first));
  }
};

void launch_tokens(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t first = args.in_type(1).shape.num_elements();
  launch_map<1>(
      args, shape.num_elements(), true,
      MapTokens{args.in<void>(0), args.in<void>(1), args.out<void>(0), args.out_type(0).dtype,
                args.in_type(1).dtype, first, shape[1] * shape[2] - first});
}

const KernelRegistration kGather{simple_kernel("gather", launch_gather)};
const KernelRegistration kGatherBackward{simple_kernel("gather_backward", launch_gather_backward)};
const KernelRegistration kEmbedding{simple_kernel("embedding", launch_embedding)};
const KernelRegistration kDweight{dweight_kernel()};
const KernelRegistration kPosition{
    simple_kernel("position_embedding", launch_position, refuse_unless_floating)};
const KernelRegistration kTokens{
    simple_kernel("prepend_tokens", launch_tokens, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// gather, embedding, prepend_tokens and position_embedding. Gradients are in lookup_gradient.cu.
#include "backend/cuda/lookup.cuh"

namespace tr::cuda {
namespace {

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
const KernelRegistration kEmbedding{simple_kernel("embedding", launch_embedding)};
const KernelRegistration kPosition{
    simple_kernel("position_embedding", launch_position, refuse_unless_floating)};
const KernelRegistration kTokens{
    simple_kernel("prepend_tokens", launch_tokens, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cuda

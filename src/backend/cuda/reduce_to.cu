// SPDX-License-Identifier: Apache-2.0
// reduce_to and mul_reduce: sums over the axes along which a tensor was broadcast, of its elements
// or of its products with another.
#include "backend/cuda/cast.cuh"
#include "backend/cuda/reduction.cuh"

namespace tr::cuda {
namespace {

template <typename T>
struct Values {
  const T* x;
  __device__ float operator()(std::int64_t i, std::int64_t) const { return to_float(x[i]); }
};
template <typename T>
struct Products {
  const T *a, *b;
  __device__ float operator()(std::int64_t i, std::int64_t) const {
    return to_float(a[i]) * to_float(b[i]);
  }
};
/// Of a with a b that is repeated too.
template <typename T, typename Offset>
struct BroadcastProducts {
  const T *a, *b;
  Place<Offset> of_b;
  __device__ float operator()(std::int64_t i, std::int64_t) const {
    return to_float(a[i]) * to_float(b[of_b(i)]);
  }
};

ReduceResult result_of(const KernelArgs& args) {
  return {args.out<void>(0), args.out_type(0).dtype, 1, args.workspace()};
}

void launch_reduce_to(const KernelArgs& args) {
  const Shape &in = args.in_type(0).shape, &out = args.out_type(0).shape;
  if (out.num_elements() == 0) return;
  if (in.num_elements() == out.num_elements()) return launch_cast(args);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    dispatch_offset(in.num_elements(), [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      reduce<JoinSum, Offset>(args, Values<T>{args.in<T>(0)}, in, out, result_of(args));
    });
  });
}

void launch_mul_reduce(const KernelArgs& args) {
  const Shape &in = args.in_type(0).shape, &out = args.out_type(0).shape;
  const Shape& of_b = args.in_type(1).shape;
  if (out.num_elements() == 0) return;
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T *a = args.in<T>(0), *b = args.in<T>(1);
    dispatch_offset(in.num_elements(), [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      if (in.num_elements() == of_b.num_elements()) {
        reduce<JoinSum, Offset>(args, Products<T>{a, b}, in, out, result_of(args));
      } else {
        const BroadcastProducts<T, Offset> products{a, b, Place<Offset>(in, of_b)};
        reduce<JoinSum, Offset>(args, products, in, out, result_of(args));
      }
    });
  });
}

std::int64_t slice_bytes(const KernelQuery& query) {
  return reduce_workspace(query.in[0].shape, query.out[0].shape);
}

KernelDef reduce_to_kernel() {
  KernelDef def = simple_kernel("reduce_to", launch_reduce_to, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
  });
  def.workspace_bytes = [](const KernelQuery& query) {
    const bool copies = query.in[0].shape.num_elements() == query.out[0].shape.num_elements();
    return copies ? std::int64_t(0) : slice_bytes(query);
  };
  return def;
}

KernelDef mul_reduce_kernel() {
  KernelDef def = simple_kernel("mul_reduce", launch_mul_reduce, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(2), query.out});
  });
  def.workspace_bytes = slice_bytes;
  return def;
}

const KernelRegistration kReduceTo{reduce_to_kernel()};
const KernelRegistration kMulReduce{mul_reduce_kernel()};

}  // namespace

void sum_floats_to(const KernelArgs& args, const float* values, const Shape& large,
                   const TensorType& out_type, void* out, std::byte* workspace) {
  if (out_type.shape.num_elements() == 0) return;
  dispatch_offset(large.num_elements(), [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    reduce<JoinSum, Offset>(args, Values<float>{values}, large, out_type.shape,
                            {out, out_type.dtype, 1, workspace});
  });
}

std::int64_t sum_floats_workspace(const Shape& large, const Shape& out) {
  return reduce_workspace(large, out);
}

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// sum, mean, amax, amin, prod and var over axes, and their gradients.
#include "backend/cuda/reduction.cuh"

#include "backend/cuda/workspace_layout.h"
#include "ops/reduction.h"

namespace tr::cuda {
namespace {

// What is reduced, by an element x of the tensor and the number o of its result.

struct Itself {
  __device__ float operator()(float x, std::int64_t) const { return x; }
};
struct SquaredDeviation {
  const float* means;
  __device__ float operator()(float x, std::int64_t o) const {
    return (x - means[o]) * (x - means[o]);
  }
};
struct IsBest {
  const void* best;
  DType dtype;
  __device__ float operator()(float x, std::int64_t o) const {
    return x == get(best, dtype, o) ? 1.0f : 0.0f;
  }
};
struct OneForZero {
  __device__ float operator()(float x, std::int64_t) const { return x == 0 ? 1.0f : x; }
};
struct IsZero {
  __device__ float operator()(float x, std::int64_t) const { return x == 0 ? 1.0f : 0.0f; }
};

template <typename F>
struct Mapped {
  const void* x;
  DType dtype;
  F f;
  __device__ float operator()(std::int64_t i, std::int64_t o) const {
    return f(get(x, dtype, i), o);
  }
};

/// The places of a launch's scratch: two vectors of one float a result, then the slices.
struct Scratch {
  std::int64_t first, second, slices, bytes;

  Scratch(const Attrs& attrs, const Shape& x) {
    const Shape small = reduced_shape(attrs, x);
    const std::int64_t vector = small.num_elements() * std::int64_t(sizeof(float));
    WorkspaceLayout layout;
    first = layout.reserve(vector);
    second = layout.reserve(vector);
    slices = layout.reserve(reduce_workspace(x, small));
    bytes = layout.bytes();
  }
};

/// Input x of a launch and its reduction.
struct Reduction {
  const KernelArgs& args;
  const void* x;
  TensorType type;
  Shape small;
  std::int64_t outputs, terms;
  Scratch scratch;

  Reduction(const KernelArgs& args, int input)
      : args(args),
        x(args.in<void>(input)),
        type(args.in_type(input)),
        small(reduced_shape(args.attrs(), type.shape)),
        outputs(small.num_elements()),
        terms(outputs == 0 ? 0 : type.shape.num_elements() / outputs),
        scratch(args.attrs(), type.shape) {}

  float* first() const { return reinterpret_cast<float*>(args.workspace() + scratch.first); }
  float* second() const { return reinterpret_cast<float*>(args.workspace() + scratch.second); }

  template <typename Join, typename F>
  void run(const F& f, void* to, DType dtype, float scale = 1) const {
    if (outputs == 0) return;
    dispatch_offset(type.shape.num_elements(), [&](auto tag) {
      using Offset = typename decltype(tag)::type;
      reduce<Join, Offset>(args, Mapped<F>{x, type.dtype, f}, type.shape, small,
                           {to, dtype, scale, args.workspace() + scratch.slices});
    });
  }
  template <typename Join, typename F>
  void to_output(const F& f, float scale = 1) const {
    run<Join>(f, args.out<void>(0), args.out_type(0).dtype, scale);
  }
  void means() const { run<JoinSum>(Itself{}, first(), DType::FP32, 1 / float(terms)); }
};

template <typename Join>
void launch_plain(const KernelArgs& args) {
  Reduction(args, 0).to_output<Join>(Itself{});
}

void launch_mean(const KernelArgs& args) {
  const Reduction r(args, 0);
  r.to_output<JoinSum>(Itself{}, 1 / float(r.terms));
}

void launch_var(const KernelArgs& args) {
  const Reduction r(args, 0);
  r.means();
  r.to_output<JoinSum>(SquaredDeviation{r.first()},
                       1 / float(r.terms - args.attrs().i64("correction")));
}

// Gradients: dx from x, dy and the number o of the result.

struct Repeat {
  float scale;
  __device__ float operator()(float, float dy, std::int64_t) const { return dy * scale; }
};
struct Share {
  const void* best;
  DType dtype;
  const float* ties;
  __device__ float operator()(float x, float dy, std::int64_t o) const {
    return x == get(best, dtype, o) ? dy / ties[o] : 0.0f;
  }
};
struct Others {
  const float *rest, *zeros;
  __device__ float operator()(float x, float dy, std::int64_t o) const {
    if (x == 0) return zeros[o] == 1 ? dy * rest[o] : dy * 0.0f;
    return zeros[o] == 0 ? dy * (rest[o] / x) : dy * 0.0f;
  }
};
struct Deviation {
  const float* means;
  float divisor;
  __device__ float operator()(float x, float dy, std::int64_t o) const {
    return dy * (2 * (x - means[o]) / divisor);
  }
};

template <typename F, bool kReadsX, typename Offset>
struct MapGradient {
  const void *dy, *x;
  void* dx;
  DType dtype;
  Place<Offset> place;
  F f;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const std::int64_t o = place(i);
    const float value = kReadsX ? get(x, dtype, i) : 0.0f;
    put(dx, dtype, i, f(value, get(dy, dtype, o), o));
  }
};

template <bool kReadsX, typename F>
void map_gradient(const KernelArgs& args, const F& f) {
  const auto& [large, dtype] = args.out_type(0);
  const Shape& shape = large;
  const DType type = dtype;
  dispatch_offset(shape.num_elements(), [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const Place<Offset> place(shape, reduced_shape(args.attrs(), shape));
    const void* x = kReadsX ? args.in<void>(1) : nullptr;
    launch_map<1>(
        args, shape.num_elements(), true,
        MapGradient<F, kReadsX, Offset>{args.in<void>(0), x, args.out<void>(0), type, place, f});
  });
}

void launch_sum_backward(const KernelArgs& args) { map_gradient<false>(args, Repeat{1}); }

void launch_mean_backward(const KernelArgs& args) {
  const Shape& large = args.out_type(0).shape;
  const std::int64_t outputs = reduced_shape(args.attrs(), large).num_elements();
  const float n = outputs == 0 ? 1.0f : float(large.num_elements() / outputs);
  map_gradient<false>(args, Repeat{1 / n});
}

void launch_extremum_backward(const KernelArgs& args) {
  const Reduction r(args, 1);
  const void* best = args.in<void>(2);
  r.run<JoinSum>(IsBest{best, r.type.dtype}, r.first(), DType::FP32);
  map_gradient<true>(args, Share{best, r.type.dtype, r.first()});
}

void launch_prod_backward(const KernelArgs& args) {
  const Reduction r(args, 1);
  r.run<JoinProduct>(OneForZero{}, r.first(), DType::FP32);
  r.run<JoinSum>(IsZero{}, r.second(), DType::FP32);
  map_gradient<true>(args, Others{r.first(), r.second()});
}

void launch_var_backward(const KernelArgs& args) {
  const Reduction r(args, 1);
  r.means();
  map_gradient<true>(args, Deviation{r.first(), float(r.terms - args.attrs().i64("correction"))});
}

std::string refuse_data(const KernelQuery& query) {
  return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
}

template <int kInput>
std::int64_t workspace_bytes(const KernelQuery& query) {
  return Scratch(query.attrs, query.in[kInput].shape).bytes;
}

/// kInput is the place of x.
template <int kInput>
KernelDef reducing_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_data);
  def.workspace_bytes = workspace_bytes<kInput>;
  return def;
}

const KernelRegistration kSum{reducing_kernel<0>("sum", launch_plain<JoinSum>)};
const KernelRegistration kMean{reducing_kernel<0>("mean", launch_mean)};
const KernelRegistration kMax{reducing_kernel<0>("amax", launch_plain<JoinMax>)};
const KernelRegistration kMin{reducing_kernel<0>("amin", launch_plain<JoinMin>)};
const KernelRegistration kProd{reducing_kernel<0>("prod", launch_plain<JoinProduct>)};
const KernelRegistration kVar{reducing_kernel<0>("var", launch_var)};
const KernelRegistration kSumBack{simple_kernel("sum_backward", launch_sum_backward, refuse_data)};
const KernelRegistration kMeanBack{
    simple_kernel("mean_backward", launch_mean_backward, refuse_data)};
const KernelRegistration kMaxBack{reducing_kernel<1>("amax_backward", launch_extremum_backward)};
const KernelRegistration kMinBack{reducing_kernel<1>("amin_backward", launch_extremum_backward)};
const KernelRegistration kProdBack{reducing_kernel<1>("prod_backward", launch_prod_backward)};
const KernelRegistration kVarBack{reducing_kernel<1>("var_backward", launch_var_backward)};

}  // namespace
}  // namespace tr::cuda

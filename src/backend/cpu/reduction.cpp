// SPDX-License-Identifier: Apache-2.0
// sum, mean, amax, amin, prod and var over axes, and their gradients.
#include "backend/cpu/reduction.h"

#include "ops/reduction.h"

namespace tr::cpu {
namespace {

/// Input x of a launch and its reduction. Scratch is a row of fp32 vectors of one float a result.
struct Reduction {
  const void* x;
  TensorType type;
  Shape small;
  ReducePlan plan;
  std::int64_t outputs, terms;

  Reduction(const KernelArgs& args, int input)
      : x(args.in<void>(input)),
        type(args.in_type(input)),
        small(reduced_shape(args.attrs(), type.shape)),
        plan(type.shape, small),
        outputs(small.num_elements()),
        terms(outputs == 0 ? 0 : type.shape.num_elements() / outputs) {}

  const float* floats(const ReduceRun& run, float* buffer) const {
    return floats_of(x, type.dtype, run.at, run.n, buffer);
  }
  /// f of each element of the run and of its result's number.
  template <typename F>
  const float* mapped(const ReduceRun& run, float* buffer, F&& f) const {
    float wide[kRowBlock];
    const float* from = floats(run, wide);
    for (std::int64_t j = 0; j < run.n; ++j) buffer[j] = f(from[j], run.output_of(j));
    return buffer;
  }
};

float* scratch(const KernelArgs& args, std::int64_t outputs, int index) {
  return reinterpret_cast<float*>(args.workspace()) + index * outputs;
}

void store(const KernelArgs& args, const float* values, std::int64_t count) {
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    store_floats(values, args.out<typename decltype(tag)::type>(0), count);
  });
}

template <typename Join>
void launch_plain(const KernelArgs& args) {
  const Reduction r(args, 0);
  float* result = scratch(args, r.outputs, 0);
  reduce_axes<Join>(
      args.pool(), r.plan,
      [&](const ReduceRun& run, float* buffer) { return r.floats(run, buffer); }, result);
  store(args, result, r.outputs);
}

void means_of(const KernelArgs& args, const Reduction& r, float* means) {
  reduce_axes<JoinSum>(
      args.pool(), r.plan,
      [&](const ReduceRun& run, float* buffer) { return r.floats(run, buffer); }, means);
  for (std::int64_t i = 0; i < r.outputs; ++i) means[i] /= float(r.terms);
}

void launch_mean(const KernelArgs& args) {
  const Reduction r(args, 0);
  float* means = scratch(args, r.outputs, 0);
  means_of(args, r, means);
  store(args, means, r.outputs);
}

void launch_var(const KernelArgs& args) {
  const Reduction r(args, 0);
  float *means = scratch(args, r.outputs, 0), *sums = scratch(args, r.outputs, 1);
  means_of(args, r, means);
  reduce_axes<JoinSum>(
      args.pool(), r.plan,
      [&](const ReduceRun& run, float* buffer) {
        return r.mapped(run, buffer,
                        [&](float x, std::int64_t o) { return (x - means[o]) * (x - means[o]); });
      },
      sums);
  const auto divisor = float(r.terms - args.attrs().i64("correction"));
  for (std::int64_t i = 0; i < r.outputs; ++i) sums[i] /= divisor;
  store(args, sums, r.outputs);
}

/// dx = f(x, dy, number of the result), element by element. x may be missing: it is 0 then.
template <typename F>
void map_gradient(const KernelArgs& args, bool reads_x, const F& f) {
  const Shape& large = args.out_type(0).shape;
  const Shape small = reduced_shape(args.attrs(), large);
  const Broadcast map(large, small);
  const DType dtype = args.out_type(0).dtype;
  const void *dy = args.in<void>(0), *x = reads_x ? args.in<void>(1) : nullptr;
  dispatch_float(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* dx = args.out<T>(0);
    for_row_runs(args.pool(), large, [&](std::int64_t row, std::int64_t column, std::int64_t n) {
      float wide_x[kRowBlock], wide_dy[kRowBlock], result[kRowBlock];
      const std::int64_t at = row * map.columns() + column, first = map.offset_of_row(row);
      const bool moves = !map.repeats_columns();
      const std::int64_t o = moves ? first + column : first;
      const float* d = floats_of(dy, dtype, o, moves ? n : 1, wide_dy);
      const float* from = reads_x ? floats_of(x, dtype, at, n, wide_x) : nullptr;
      float* into = result_floats(dx + at, result);
      for (std::int64_t j = 0; j < n; ++j) {
        into[j] = f(reads_x ? from[j] : 0.0f, d[moves ? j : 0], moves ? o + j : o);
      }
      put_floats(dx + at, into, n);
    });
  });
}

void launch_sum_backward(const KernelArgs& args) {
  map_gradient(args, false, [](float, float dy, std::int64_t) { return dy; });
}

void launch_mean_backward(const KernelArgs& args) {
  const Shape& large = args.out_type(0).shape;
  const std::int64_t outputs = reduced_shape(args.attrs(), large).num_elements();
  const float n = outputs == 0 ? 1.0f : float(large.num_elements() / outputs);
  map_gradient(args, false, [=](float, float dy, std::int64_t) { return dy / n; });
}

void launch_extremum_backward(const KernelArgs& args) {
  const Reduction r(args, 1);
  float *best = scratch(args, r.outputs, 0), *ties = scratch(args, r.outputs, 1);
  dispatch_float(r.type.dtype, [&](auto tag) {
    load_floats(args.in<typename decltype(tag)::type>(2), best, r.outputs);
  });
  reduce_axes<JoinSum>(
      args.pool(), r.plan,
      [&](const ReduceRun& run, float* buffer) {
        return r.mapped(run, buffer,
                        [&](float x, std::int64_t o) { return x == best[o] ? 1.0f : 0.0f; });
      },
      ties);
  map_gradient(args, true, [&](float x, float dy, std::int64_t o) {
    return x == best[o] ? dy / ties[o] : 0.0f;
  });
}

void launch_prod_backward(const KernelArgs& args) {
  const Reduction r(args, 1);
  float *rest = scratch(args, r.outputs, 0), *zeros = scratch(args, r.outputs, 1);
  reduce_axes<JoinProduct>(
      args.pool(), r.plan,
      [&](const ReduceRun& run, float* buffer) {
        return r.mapped(run, buffer, [](float x, std::int64_t) { return x == 0 ? 1.0f : x; });
      },
      rest);
  reduce_axes<JoinSum>(
      args.pool(), r.plan,
      [&](const ReduceRun& run, float* buffer) {
        return r.mapped(run, buffer, [](float x, std::int64_t) { return x == 0 ? 1.0f : 0.0f; });
      },
      zeros);
  map_gradient(args, true, [&](float x, float dy, std::int64_t o) {
    const float others =
        x == 0 ? (zeros[o] == 1 ? rest[o] : 0.0f) : (zeros[o] == 0 ? rest[o] / x : 0.0f);
    return dy * others;
  });
}

void launch_var_backward(const KernelArgs& args) {
  const Reduction r(args, 1);
  float* means = scratch(args, r.outputs, 0);
  means_of(args, r, means);
  const auto divisor = float(r.terms - args.attrs().i64("correction"));
  map_gradient(args, true, [&](float x, float dy, std::int64_t o) {
    return dy * (2 * (x - means[o]) / divisor);
  });
}

/// `input` is the place of x.
KernelDef reducing_kernel(const char* op, void (*launch)(const KernelArgs&), int input,
                          int num_vectors) {
  KernelDef def = simple_kernel(op, launch, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
  });
  def.workspace_bytes = [=](const KernelQuery& query) {
    const Shape& x = query.in[std::size_t(input)].shape;
    return num_vectors * reduced_shape(query.attrs, x).num_elements() * std::int64_t(sizeof(float));
  };
  return def;
}

KernelDef mapping_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  return simple_kernel(op, launch, [](const KernelQuery& query) {
    return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
  });
}

const KernelRegistration kSum{reducing_kernel("sum", launch_plain<JoinSum>, 0, 1)};
const KernelRegistration kMean{reducing_kernel("mean", launch_mean, 0, 1)};
const KernelRegistration kMax{reducing_kernel("amax", launch_plain<JoinMax>, 0, 1)};
const KernelRegistration kMin{reducing_kernel("amin", launch_plain<JoinMin>, 0, 1)};
const KernelRegistration kProd{reducing_kernel("prod", launch_plain<JoinProduct>, 0, 1)};
const KernelRegistration kVar{reducing_kernel("var", launch_var, 0, 2)};
const KernelRegistration kSumBack{mapping_kernel("sum_backward", launch_sum_backward)};
const KernelRegistration kMeanBack{mapping_kernel("mean_backward", launch_mean_backward)};
const KernelRegistration kMaxBack{reducing_kernel("amax_backward", launch_extremum_backward, 1, 2)};
const KernelRegistration kMinBack{reducing_kernel("amin_backward", launch_extremum_backward, 1, 2)};
const KernelRegistration kProdBack{reducing_kernel("prod_backward", launch_prod_backward, 1, 2)};
const KernelRegistration kVarBack{reducing_kernel("var_backward", launch_var_backward, 1, 1)};

}  // namespace
}  // namespace tr::cpu

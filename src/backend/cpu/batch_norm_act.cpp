// SPDX-License-Identifier: Apache-2.0
// Batch norm with the residual sum and the rectifier behind it, one pass over the feature map each
// way. The gradient tells from x, or behind a sum from one bit an element, what the rectifier let
// through: the same arithmetic as forward, so the same verdict.
#include <immintrin.h>

#include <cstring>

#include "backend/cpu/batch_norm_rows.h"
#include "backend/cpu/dispatch.h"

namespace tr::cpu {
namespace {

constexpr std::int64_t kByte = 8;  // elements whose bits make a byte

// A rectifier lets through what is not <= 0: a NaN passes.

/// Bits of the elements [at, at + n), whose bytes are zero where nobody wrote yet.
void set_bits(std::uint8_t* mask, std::int64_t at, const float* values, std::int64_t n) {
  std::int64_t i = 0;
  if (at % kByte == 0) {
    for (; i + kByte <= n; i += kByte) {
      const __m256 passes =
          _mm256_cmp_ps(_mm256_loadu_ps(values + i), _mm256_setzero_ps(), _CMP_NLE_UQ);
      mask[(at + i) / kByte] = std::uint8_t(_mm256_movemask_ps(passes));
    }
  }
  for (; i < n; ++i) {
    const int bit = values[i] <= 0 ? 0 : 1;
    mask[(at + i) / kByte] |= std::uint8_t(bit << ((at + i) % kByte));
  }
}

/// values = 0 where the bit of its element is not set.
void gate_by_bits(const std::uint8_t* mask, std::int64_t at, float* values, std::int64_t n) {
  std::int64_t i = 0;
  if (at % kByte == 0) {
    const __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    for (; i + kByte <= n; i += kByte) {
      const __m256i bits = _mm256_and_si256(_mm256_set1_epi32(mask[(at + i) / kByte]), each);
      const __m256 passes = _mm256_castsi256_ps(_mm256_cmpeq_epi32(bits, each));
      _mm256_storeu_ps(values + i, _mm256_and_ps(_mm256_loadu_ps(values + i), passes));
    }
  }
  for (; i < n; ++i) {
    if ((mask[(at + i) / kByte] >> ((at + i) % kByte) & 1) == 0) values[i] = 0;
  }
}

bool rectifies(const Attrs& attrs) { return attrs.str("activation") == "relu"; }

/// y = act((x - mean) * scale + bias [+ residual]); `mask` gets the bits of what passes, or is
/// null.
template <typename T>
void apply(const KernelArgs& args, const WideRows& rows, const NormPlaces& v, std::uint8_t* mask) {
  const T* x = args.in<T>(0);
  const T* residual = args.has_in(5) ? args.in<T>(5) : nullptr;
  T* y = args.out<T>(0);
  const bool rectify = rectifies(args.attrs());
  for_tasks(args.pool(), rows.num_chunks(), [&](std::int64_t chunk) {
    if (mask != nullptr) {
      const std::int64_t first = rows.begin(chunk) / kByte;
      std::memset(mask + first, 0, std::size_t(ceil_div(rows.end(chunk), kByte) - first));
    }
    float wide_x[kRowBlock], wide_residual[kRowBlock], result[kRowBlock];
    rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      const float* values = as_floats(x + at, wide_x, n);
      const float *mean = v.vector(0) + column, *scale = v.vector(1) + column;
      const float* bias = v.vector(2) + column;
      float* into = result_floats(y + at, result);
      for (std::int64_t i = 0; i < n; ++i) result[i] = (values[i] - mean[i]) * scale[i] + bias[i];
      if (residual != nullptr) {
        const float* more = as_floats(residual + at, wide_residual, n);
        for (std::int64_t i = 0; i < n; ++i) result[i] += more[i];
      }
      if (mask != nullptr) set_bits(mask, at, result, n);
      if (rectify) {
        for (std::int64_t i = 0; i < n; ++i) into[i] = result[i] <= 0 ? 0 : result[i];
      } else if (into != result) {
        load_floats(result, into, n);
      }
      put_floats(y + at, into, n);
    });
  });
}

void launch_act(const KernelArgs& args) {
  const WideRows rows = norm_rows(args.in_type(0));
  const NormPlaces at(args, rows);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    batch_statistics(args, rows, at, args.in<T>(0));
    apply<T>(args, rows, at, args.num_out() > 5 ? args.out<std::uint8_t>(5) : nullptr);
  });
}

void launch_eval_act(const KernelArgs& args) {
  const WideRows rows = norm_rows(args.in_type(0));
  const NormPlaces at(args, rows);
  running_vectors(args, rows, at);
  dispatch_float(args.in_type(0).dtype,
                 [&](auto tag) { apply<typename decltype(tag)::type>(args, rows, at, nullptr); });
}

/// What comes back through the rectifier: dy, plus `more`, where it let x through.
template <typename T>
class Gated {
 public:
  Gated(const KernelArgs& args, const NormPlaces& vectors)
      : dy_(args.in<T>(0)),
        more_(args.has_in(6) ? args.in<T>(6) : nullptr),
        mask_(args.has_in(7) ? args.in<std::uint8_t>(7) : nullptr),
        recomputes_(mask_ == nullptr && rectifies(args.attrs())),
        vectors_(vectors) {}

  /// Of elements [at, at + n) with their x as floats, in `result`.
  void get(std::int64_t at, std::int64_t column, std::int64_t n, const float* x,
           float* result) const {
    load_floats(dy_ + at, result, n);
    if (more_ != nullptr) {
      float widened[kRowBlock];
      const float* more = as_floats(more_ + at, widened, n);
      for (std::int64_t i = 0; i < n; ++i) result[i] += more[i];
    }
    if (mask_ != nullptr) gate_by_bits(mask_, at, result, n);
    if (!recomputes_) return;
    const float *mean = vectors_.vector(0) + column, *scale = vectors_.vector(1) + column;
    const float* bias = vectors_.vector(4) + column;
    for (std::int64_t i = 0; i < n; ++i) {
      result[i] = (x[i] - mean[i]) * scale[i] + bias[i] <= 0 ? 0 : result[i];
    }
  }

 private:
  const T *dy_, *more_;
  const std::uint8_t* mask_;
  bool recomputes_;
  const NormPlaces& vectors_;
};

/// Sums of d and d (x - mean) over each chunk; d is kept in `kept`, if that is not null.
template <typename T>
void sum_gated(const KernelArgs& args, const WideRows& rows, const NormPlaces& v, T* kept) {
  const Gated<T> gated(args, v);
  const T* x = args.in<T>(1);
  for_tasks(args.pool(), rows.num_chunks(), [&](std::int64_t chunk) {
    float *first = v.first + chunk * v.width, *second = v.second + chunk * v.width;
    std::fill_n(first, v.width, 0.0f);
    std::fill_n(second, v.width, 0.0f);
    float wide_x[kRowBlock], d[kRowBlock];
    rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      const float *values = as_floats(x + at, wide_x, n), *mean = v.vector(0) + column;
      gated.get(at, column, n, values, d);
      float *sum = first + column, *product = second + column;
      for (std::int64_t i = 0; i < n; ++i) {
        sum[i] += d[i];
        product[i] += d[i] * (values[i] - mean[i]);
      }
      if (kept != nullptr) store_floats(d, kept + at, n);
    });
    rows.fold(first);
    rows.fold(second);
  });
}

/// dx = (d - shift - (x - mean) * slope) * scale, d as it was kept or made again.
template <typename T>
void propagate_gated(const KernelArgs& args, const WideRows& rows, const NormPlaces& v,
                     const T* kept) {
  const Gated<T> gated(args, v);
  const T* x = args.in<T>(1);
  T* dx = args.out<T>(0);
  for_tasks(args.pool(), rows.num_chunks(), [&](std::int64_t chunk) {
    float wide_x[kRowBlock], d[kRowBlock], result[kRowBlock];
    rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
      const float *values = as_floats(x + at, wide_x, n), *mean = v.vector(0) + column;
      if (kept != nullptr) {
        load_floats(kept + at, d, n);
      } else {
        gated.get(at, column, n, values, d);
      }
      const float *scale = v.vector(1) + column, *shift = v.vector(2) + column;
      const float* slope = v.vector(3) + column;
      float* into = result_floats(dx + at, result);
      for (std::int64_t i = 0; i < n; ++i) {
        into[i] = (d[i] - shift[i] - (values[i] - mean[i]) * slope[i]) * scale[i];
      }
      put_floats(dx + at, into, n);
    });
  });
}

void launch_act_backward(const KernelArgs& args) {
  const WideRows rows = norm_rows(args.in_type(1));
  const NormPlaces at(args, rows);
  const float *weight = args.in<float>(2), *rstd = args.in<float>(5);
  std::copy_n(args.in<float>(4), rows.channels(), at.vector(0));
  std::copy_n(args.in<float>(3), rows.channels(), at.vector(4));
  for (std::int64_t c = 0; c < rows.channels(); ++c) at.vector(1)[c] = rstd[c] * weight[c];
  for (const int i : {0, 1, 4}) rows.repeat(at.vector(i));
  dispatch_float(args.in_type(1).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* kept = args.num_out() > 3 ? args.out<T>(3) : nullptr;
    sum_gated<T>(args, rows, at, kept);
    finish_gradients(args, rows, at, weight, rstd);
    propagate_gated<T>(args, rows, at, kept);
  });
}

std::string refuse(const KernelQuery& query) {
  const std::string& activation = query.attrs.str("activation");
  if (!activation.empty() && activation != "relu") {
    return fmt::format("activation is '{}', this kernel knows relu", activation);
  }
  return "";
}

std::string refuse_forward(const KernelQuery& query) {
  for (std::size_t i = 6; i < query.in.size(); ++i) {
    if (query.in[i].shape.rank() == 0) continue;
    return fmt::format(
        "input {} is given: this kernel makes its own statistics and takes the "
        "residual as it is",
        i);
  }
  return refuse(query);
}

std::string refuse_backward(const KernelQuery& query) {
  const std::vector<std::int64_t>& stride = query.attrs.ints("more_stride");
  if (stride != std::vector<std::int64_t>{1, 1}) {
    return fmt::format("more_stride is [{}], this kernel reads every pixel",
                       fmt::join(stride, ", "));
  }
  return refuse(query);
}

KernelRegistration act_kernel(const std::string& op, void (*launch)(const KernelArgs&),
                              std::string (*refuses)(const KernelQuery&), int x) {
  KernelDef def = simple_kernel(op, launch, refuses);
  def.workspace_bytes = [x](const KernelQuery& query) {
    return NormPlaces::bytes(query.in[std::size_t(x)]);
  };
  return KernelRegistration(def);
}

const KernelRegistration kBnAct = act_kernel("bn_act", launch_act, refuse_forward, 0);
const KernelRegistration kBnEvalAct = act_kernel("bn_eval_act", launch_eval_act, refuse, 0);
const KernelRegistration kBnActBackward =
    act_kernel("bn_act_backward", launch_act_backward, refuse_backward, 1);

}  // namespace
}  // namespace tr::cpu

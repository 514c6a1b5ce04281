// SPDX-License-Identifier: Apache-2.0
// layer_norm, rms_norm, group_norm and their gradients.
#include "ops/sample_norm.h"

#include <cmath>

#include "backend/cpu/broadcast.h"
#include "backend/cpu/sums.h"

namespace tr::cpu {
namespace {

/// Calls f(first element, n, first channel of the weight) for runs of the values that have one
/// statistic.
template <typename F>
void for_runs(const SampleNorm& norm, std::int64_t statistic, F&& f) {
  const std::int64_t sample = statistic / norm.groups, group = statistic % norm.groups;
  for (std::int64_t s = 0; s < norm.spatial; ++s) {
    const std::int64_t row = (sample * norm.spatial + s) * norm.width();
    for (std::int64_t c = 0; c < norm.channels; c += kRowBlock) {
      const std::int64_t channel = group * norm.channels + c;
      f(row + channel, std::min(kRowBlock, norm.channels - c), channel);
    }
  }
}

template <typename F>
void for_statistics(const KernelArgs& args, const SampleNorm& norm, F&& f) {
  for_chunks(args.pool(), norm.num_statistics(), rows_per_task(norm.length()),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i) f(i);
             });
}

/// Mean over the values of one statistic of f(x); runs are summed in fp32, those sums in double.
template <typename T, typename F>
float mean_of(const SampleNorm& norm, std::int64_t statistic, const T* x, F&& f) {
  double sum = 0;
  for_runs(norm, statistic, [&](std::int64_t at, std::int64_t n, std::int64_t) {
    float wide[kRowBlock];
    const float* from = as_floats(x + at, wide, n);
    sum += double(sum_of(n, [&](std::int64_t j) { return f(from[j]); }));
  });
  return float(sum / double(norm.length()));
}

/// Inputs x, weight, bias; outputs y, mean (if kHasMean), rstd.
template <bool kHasMean>
void launch_forward(const KernelArgs& args) {
  const SampleNorm norm = sample_norm(args.attrs(), args.in_type(0).shape);
  const float eps = args.attrs().f32("eps");
  const float* weight = args.in<float>(1);
  const float* bias = args.has_in(2) ? args.in<float>(2) : nullptr;
  float* rstds = args.out<float>(kHasMean ? 2 : 1);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_statistics(args, norm, [&](std::int64_t i) {
      const float mean = kHasMean ? mean_of(norm, i, x, [](float v) { return v; }) : 0.0f;
      const float var = mean_of(norm, i, x, [=](float v) { return (v - mean) * (v - mean); });
      const float rstd = 1 / std::sqrt(var + eps);
      if (kHasMean) args.out<float>(1)[i] = mean;
      rstds[i] = rstd;
      for_runs(norm, i, [&](std::int64_t at, std::int64_t n, std::int64_t channel) {
        float wide[kRowBlock], result[kRowBlock];
        const float *from = as_floats(x + at, wide, n), *w = weight + channel;
        float* into = result_floats(y + at, result);
        for (std::int64_t j = 0; j < n; ++j) {
          into[j] = (from[j] - mean) * rstd * w[j] + (bias == nullptr ? 0.0f : bias[channel + j]);
        }
        put_floats(y + at, into, n);
      });
    });
  });
}

/// What the gradients read: dy, x, weight, mean (if kHasMean), rstd.
template <typename T, bool kHasMean>
struct Saved {
  const T *dy, *x;
  const float *weight, *means, *rstds;

  explicit Saved(const KernelArgs& args)
      : dy(args.in<T>(0)),
        x(args.in<T>(1)),
        weight(args.in<float>(2)),
        means(kHasMean ? args.in<float>(3) : nullptr),
        rstds(args.in<float>(kHasMean ? 4 : 3)) {}
  float mean(std::int64_t i) const { return kHasMean ? means[i] : 0.0f; }
};

/// dx = rstd (g - mean of g - xhat mean of (g xhat)) with g = dy weight; without a mean the second
/// term is missing.
template <typename T, bool kHasMean>
void input_gradient(const Saved<T, kHasMean>& s, const SampleNorm& norm, std::int64_t i, T* dx) {
  const float mean = s.mean(i), rstd = s.rstds[i];
  double sum_g = 0, sum_gx = 0;
  for_runs(norm, i, [&](std::int64_t at, std::int64_t n, std::int64_t channel) {
    float wide_dy[kRowBlock], wide_x[kRowBlock];
    const float *dy = as_floats(s.dy + at, wide_dy, n), *x = as_floats(s.x + at, wide_x, n);
    const float* w = s.weight + channel;
    if (kHasMean) sum_g += double(sum_of(n, [&](std::int64_t j) { return dy[j] * w[j]; }));
    sum_gx +=
        double(sum_of(n, [&](std::int64_t j) { return dy[j] * w[j] * ((x[j] - mean) * rstd); }));
  });
  const auto mean_g = float(sum_g / double(norm.length()));
  const auto mean_gx = float(sum_gx / double(norm.length()));
  for_runs(norm, i, [&](std::int64_t at, std::int64_t n, std::int64_t channel) {
    float wide_dy[kRowBlock], wide_x[kRowBlock], result[kRowBlock];
    const float *dy = as_floats(s.dy + at, wide_dy, n), *x = as_floats(s.x + at, wide_x, n);
    const float* w = s.weight + channel;
    float* into = result_floats(dx + at, result);
    for (std::int64_t j = 0; j < n; ++j) {
      into[j] = rstd * (dy[j] * w[j] - mean_g - (x[j] - mean) * rstd * mean_gx);
    }
    put_floats(dx + at, into, n);
  });
}

/// Rows of one piece of the sums over all rows; a cut by shape alone.
constexpr std::int64_t kRowsOfPiece = 256, kMostPieces = 64;

std::int64_t num_pieces(const SampleNorm& norm) {
  return std::clamp<std::int64_t>(norm.rows() / kRowsOfPiece, 1, kMostPieces);
}

/// sums[0 .. width) += dy xhat, sums[width .. 2 width) += dy, over the rows of a piece.
template <typename T, bool kHasMean>
void add_rows(const Saved<T, kHasMean>& s, const SampleNorm& norm, std::int64_t piece,
              float* sums) {
  const std::int64_t width = norm.width(), pieces = num_pieces(norm);
  std::fill_n(sums, 2 * width, 0.0f);
  for (std::int64_t row = piece * norm.rows() / pieces; row < (piece + 1) * norm.rows() / pieces;
       ++row) {
    for (std::int64_t g = 0; g < norm.groups; ++g) {
      const std::int64_t i = row / norm.spatial * norm.groups + g;
      const float mean = s.mean(i), rstd = s.rstds[i];
      for (std::int64_t c = 0; c < norm.channels; c += kRowBlock) {
        const std::int64_t n = std::min(kRowBlock, norm.channels - c);
        const std::int64_t channel = g * norm.channels + c, at = row * width + channel;
        float wide_dy[kRowBlock], wide_x[kRowBlock];
        const float *dy = as_floats(s.dy + at, wide_dy, n), *x = as_floats(s.x + at, wide_x, n);
        for (std::int64_t j = 0; j < n; ++j) {
          sums[channel + j] += dy[j] * ((x[j] - mean) * rstd);
          sums[width + channel + j] += dy[j];
        }
      }
    }
  }
}

template <bool kHasMean>
void launch_backward(const KernelArgs& args) {
  const SampleNorm norm = sample_norm(args.attrs(), args.in_type(1).shape);
  const std::int64_t width = norm.width(), pieces = num_pieces(norm);
  auto* partial = reinterpret_cast<float*>(args.workspace());
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const Saved<T, kHasMean> saved(args);
    for_statistics(args, norm,
                   [&](std::int64_t i) { input_gradient(saved, norm, i, args.out<T>(0)); });
    for_tasks(args.pool(), pieces, [&](std::int64_t piece) {
      add_rows(saved, norm, piece, partial + piece * 2 * width);
    });
  });
  for (int which = 0; which + 1 < args.num_out(); ++which) {
    float* to = args.out<float>(which + 1);
    for (std::int64_t c = 0; c < width; ++c) {
      double sum = 0;
      for (std::int64_t piece = 0; piece < pieces; ++piece) {
        sum += double(partial[(piece * 2 + which) * width + c]);
      }
      to[c] = float(sum);
    }
  }
}

KernelDef backward_kernel(const char* op, void (*launch)(const KernelArgs&)) {
  KernelDef def = simple_kernel(op, launch, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) {
    const SampleNorm norm = sample_norm(query.attrs, query.in[1].shape);
    return num_pieces(norm) * 2 * norm.width() * std::int64_t(sizeof(float));
  };
  return def;
}

/// A missing bias looks like an fp32 scalar.
const KernelRegistration kLayerNorm{
    simple_kernel("layer_norm", launch_forward<true>, refuse_unless_floating)};
const KernelRegistration kGroupNorm{
    simple_kernel("group_norm", launch_forward<true>, refuse_unless_floating)};
const KernelRegistration kRmsNorm{
    simple_kernel("rms_norm", launch_forward<false>, refuse_unless_floating)};
const KernelRegistration kLayerBack{backward_kernel("layer_norm_backward", launch_backward<true>)};
const KernelRegistration kGroupBack{backward_kernel("group_norm_backward", launch_backward<true>)};
const KernelRegistration kRmsBack{backward_kernel("rms_norm_backward", launch_backward<false>)};

}  // namespace
}  // namespace tr::cpu

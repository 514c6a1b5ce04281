// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernels of batch norm share: statistics of chunks joined in double, vectors of a
// channel's numbers over the whole width of wide rows.

#include <cmath>

#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/wide_rows.h"
#include "backend/kernel.h"

namespace tr::cpu {

inline WideRows norm_rows(const TensorType& x) {
  const std::int64_t channels = x.shape.back();
  return {channels == 0 ? 0 : x.shape.num_elements() / channels, channels};
}

/// The workspace of a launch: two sums of each chunk, then vectors of the whole width.
struct NormPlaces {
  static constexpr int kVectors = 5;

  static std::int64_t bytes(const TensorType& x) {
    const WideRows rows = norm_rows(x);
    return (2 * rows.num_chunks() + kVectors) * rows.width() * std::int64_t(sizeof(float));
  }
  NormPlaces(const KernelArgs& args, const WideRows& rows)
      : width(rows.width()),
        first(reinterpret_cast<float*>(args.workspace())),
        second(first + rows.num_chunks() * width),
        vectors(second + rows.num_chunks() * width) {}
  float* vector(int i) const { return vectors + i * width; }

  std::int64_t width;
  float *first, *second;  // of each chunk
  float* vectors;
};

/// Mean of each channel in a chunk (`means`), and the sum of squares around it (`squares`).
template <typename T>
void chunk_statistics(const WideRows& rows, std::int64_t chunk, const T* x, float* means,
                      float* squares) {
  std::fill_n(means, rows.width(), 0.0f);
  std::fill_n(squares, rows.width(), 0.0f);
  float widened[kRowBlock];
  rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
    const float* values = as_floats(x + at, widened, n);
    for (std::int64_t i = 0; i < n; ++i) means[column + i] += values[i];
  });
  rows.fold(means);
  const auto count = float(rows.rows_of(chunk));
  for (std::int64_t c = 0; c < rows.channels(); ++c) means[c] /= count;
  rows.repeat(means);
  rows.for_runs(chunk, [&](std::int64_t at, std::int64_t column, std::int64_t n) {
    const float* values = as_floats(x + at, widened, n);
    for (std::int64_t i = 0; i < n; ++i) {
      const float off = values[i] - means[column + i];
      squares[column + i] += off * off;
    }
  });
  rows.fold(squares);
}

struct Moments {
  double mean = 0, squares = 0;  // squares: summed around the mean
};

/// Of channel c over all chunks.
inline Moments joined(const WideRows& rows, const NormPlaces& at, std::int64_t c) {
  double sum = 0, squares = 0;
  for (std::int64_t chunk = 0; chunk < rows.num_chunks(); ++chunk) {
    sum += double(rows.rows_of(chunk)) * double(at.first[chunk * at.width + c]);
  }
  const double mean = sum / double(rows.rows());
  for (std::int64_t chunk = 0; chunk < rows.num_chunks(); ++chunk) {
    const double off = double(at.first[chunk * at.width + c]) - mean;
    squares += double(at.second[chunk * at.width + c]) + double(rows.rows_of(chunk)) * off * off;
  }
  return {mean, squares};
}

/// Statistics of the batch, outputs 1 to 4 of bn and bn_act (mean, rstd, next_mean, next_var), and
/// the vectors 0 to 2 that normalise with them: mean, scale, bias.
template <typename T>
void batch_statistics(const KernelArgs& args, const WideRows& rows, const NormPlaces& at,
                      const T* x) {
  for_tasks(args.pool(), rows.num_chunks(), [&](std::int64_t chunk) {
    chunk_statistics(rows, chunk, x, at.first + chunk * at.width, at.second + chunk * at.width);
  });
  const double momentum = args.attrs().f64("momentum"), eps = args.attrs().f64("eps");
  const auto count = double(rows.rows());
  const float *weight = args.in<float>(1), *bias = args.in<float>(2);
  const float *running_mean = args.in<float>(3), *running_var = args.in<float>(4);
  float *mean = args.out<float>(1), *rstd = args.out<float>(2);
  float *next_mean = args.out<float>(3), *next_var = args.out<float>(4);
  for (std::int64_t c = 0; c < rows.channels(); ++c) {
    const Moments moments = joined(rows, at, c);
    mean[c] = float(moments.mean);
    rstd[c] = float(1 / std::sqrt(moments.squares / count + eps));
    const auto moved = [&](float old, double now) {
      return float((1 - momentum) * double(old) + momentum * now);
    };
    next_mean[c] = moved(running_mean[c], moments.mean);
    next_var[c] = moved(running_var[c], moments.squares / (count - 1));
    at.vector(0)[c] = mean[c], at.vector(1)[c] = rstd[c] * weight[c], at.vector(2)[c] = bias[c];
  }
  for (int i = 0; i < 3; ++i) rows.repeat(at.vector(i));
}

/// The vectors 0 to 2 of the running statistics: inputs 1 to 4 of bn_eval and its kin.
inline void running_vectors(const KernelArgs& args, const WideRows& rows, const NormPlaces& at) {
  const double eps = args.attrs().f64("eps");
  const float *weight = args.in<float>(1), *bias = args.in<float>(2);
  const float *mean = args.in<float>(3), *var = args.in<float>(4);
  for (std::int64_t c = 0; c < rows.channels(); ++c) {
    at.vector(0)[c] = mean[c], at.vector(2)[c] = bias[c];
    at.vector(1)[c] = float(double(weight[c]) / std::sqrt(double(var[c]) + eps));
  }
  for (int i = 0; i < 3; ++i) rows.repeat(at.vector(i));
}

/// Sums of each channel over the chunks: of what `first` and `second` hold.
inline std::pair<double, double> summed(const WideRows& rows, const NormPlaces& at,
                                        std::int64_t c) {
  double first = 0, second = 0;
  for (std::int64_t chunk = 0; chunk < rows.num_chunks(); ++chunk) {
    first += double(at.first[chunk * at.width + c]);
    second += double(at.second[chunk * at.width + c]);
  }
  return {first, second};
}

/// From sums of d and of d (x - mean) in the chunks: dweight, dbias (outputs 1 and 2), and the
/// vectors of dx = (d - shift - (x - mean) * slope) * scale: 1 scale, 2 shift, 3 slope.
inline void finish_gradients(const KernelArgs& args, const WideRows& rows, const NormPlaces& at,
                             const float* weight, const float* rstd) {
  float *dweight = args.out<float>(1), *dbias = args.out<float>(2);
  const auto count = double(rows.rows());
  for (std::int64_t c = 0; c < rows.channels(); ++c) {
    const auto [sum, product] = summed(rows, at, c);
    const double r = double(rstd[c]);
    dbias[c] = float(sum), dweight[c] = float(product * r);
    at.vector(1)[c] = rstd[c] * weight[c];
    at.vector(2)[c] = float(sum / count), at.vector(3)[c] = float(product * r * r / count);
  }
  for (int i = 1; i < 4; ++i) rows.repeat(at.vector(i));
}

}  // namespace tr::cpu

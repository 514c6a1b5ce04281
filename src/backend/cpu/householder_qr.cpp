// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/householder_qr.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

constexpr std::int64_t kPanel = 32;  // reflections that are applied at once
constexpr std::int64_t kWidth = 64;  // columns that a task applies them to

/// Reflections of one panel: I - V T V^T, V [rows, kPanel] with zeros above its diagonal.
struct Panel {
  std::int64_t begin, rows, count;
  float *v, *t;
};

/// The room of panel `begin`: all V one behind the other, then all T.
class Room {
 public:
  Room(std::int64_t side, float* at) : side_(side), at_(at) {}
  Panel panel(std::int64_t begin) const {
    const std::int64_t number = begin / kPanel;
    float* t = at_ + side_ * round_up(side_, kPanel);
    return {begin, side_ - begin, std::min(kPanel, side_ - begin), at_ + number * side_ * kPanel,
            t + number * kPanel * kPanel};
  }

 private:
  std::int64_t side_;
  float* at_;
};

/// Turns column k of the panel [rows, kPanel] into a reflection that clears it below the diagonal;
/// returns its factor, and leaves the reflection's vector in place but for its first element, 1.
float make_reflection(float* panel, std::int64_t rows, std::int64_t k) {
  double below = 0;
  for (std::int64_t r = k + 1; r < rows; ++r) {
    const auto x = double(panel[r * kPanel + k]);
    below += x * x;
  }
  const auto alpha = double(panel[k * kPanel + k]);
  if (below == 0) return 0;
  const double norm = std::sqrt(alpha * alpha + below);
  const double beta = alpha > 0 ? -norm : norm;
  const auto scale = float(1.0 / (alpha - beta));
  for (std::int64_t r = k + 1; r < rows; ++r) panel[r * kPanel + k] *= scale;
  return float((beta - alpha) / beta);
}

/// row[..] of V^T X: sums over rows r >= from of v[r] x[r][0 .. kPanel), v = column k of V.
void dot_rows(const float* v, std::int64_t k, const float* x, std::int64_t rows, float* row) {
  for (std::int64_t c = 0; c < kPanel; ++c) row[c] = x[k * kPanel + c];  // v[k] is 1
  for (std::int64_t r = k + 1; r < rows; ++r) {
    const float factor = v[r * kPanel + k];
    for (std::int64_t c = 0; c < kPanel; ++c) row[c] += factor * x[r * kPanel + c];
  }
}

/// Column k of T from V^T v_k: T[0 .. k) = -tau T (V^T v_k), T[k] = tau.
void extend_t(float* t, const float* dots, std::int64_t k, float tau) {
  for (std::int64_t r = 0; r < k; ++r) {
    float sum = 0;
    for (std::int64_t c = r; c < k; ++c) sum += t[r * kPanel + c] * dots[c];
    t[r * kPanel + k] = -tau * sum;
  }
  t[k * kPanel + k] = tau;
}

/// Factors a panel of S: its R is of no use and is dropped.
void factor(const Panel& panel, const float* s, std::int64_t side) {
  float* v = panel.v;
  for (std::int64_t r = 0; r < panel.rows; ++r) {
    float* row = v + r * kPanel;
    std::memcpy(row, s + (panel.begin + r) * side + panel.begin,
                std::size_t(panel.count) * sizeof(float));
    std::fill(row + panel.count, row + kPanel, 0.0f);
  }
  std::fill(panel.t, panel.t + kPanel * kPanel, 0.0f);
  float row[kPanel];
  for (std::int64_t k = 0; k < panel.count; ++k) {
    const float tau = make_reflection(v, panel.rows, k);
    dot_rows(v, k, v, panel.rows, row);
    // Columns before k hold vectors: what they sum to is V^T v_k but for rows that are not theirs.
    extend_t(panel.t, row, k, tau);
    for (std::int64_t r = k; r < panel.rows; ++r) {
      const float scale = tau * (r == k ? 1.0f : v[r * kPanel + k]);
      for (std::int64_t c = k + 1; c < panel.count; ++c) v[r * kPanel + c] -= scale * row[c];
    }
    for (std::int64_t c = 0; c < k; ++c) v[c * kPanel + k] = 0;
    v[k * kPanel + k] = 1;
  }
}

/// X = (I - V T V^T) X, or with T^T, of the columns [first, last) of `x` [side, side].
void apply(const Panel& panel, bool transposed, std::int64_t side, std::int64_t first,
           std::int64_t last, float* x) {
  alignas(64) float sums[kPanel][kWidth] = {}, weights[kPanel][kWidth] = {};
  const std::int64_t width = last - first;
  float* rows = x + panel.begin * side + first;
  const auto add = [](float* to, float scale, const float* from, std::int64_t n) {
    if (n == kWidth) {
      for (std::int64_t c = 0; c < kWidth; ++c) to[c] += scale * from[c];
    } else {
      for (std::int64_t c = 0; c < n; ++c) to[c] += scale * from[c];
    }
  };
  for (std::int64_t r = 0; r < panel.rows; ++r) {
    const std::int64_t own = std::min(r + 1, panel.count);
    for (std::int64_t k = 0; k < own; ++k)
      add(sums[k], panel.v[r * kPanel + k], rows + r * side, width);
  }
  for (std::int64_t k = 0; k < panel.count; ++k) {
    for (std::int64_t j = 0; j < panel.count; ++j) {
      const float t = transposed ? panel.t[j * kPanel + k] : panel.t[k * kPanel + j];
      if (t != 0) add(weights[k], t, sums[j], kWidth);
    }
  }
  for (std::int64_t r = 0; r < panel.rows; ++r) {
    const std::int64_t own = std::min(r + 1, panel.count);
    for (std::int64_t k = 0; k < own; ++k)
      add(rows + r * side, -panel.v[r * kPanel + k], weights[k], width);
  }
}

void apply_all(ThreadPool& pool, const Panel& panel, bool transposed, std::int64_t side,
               std::int64_t from, float* x) {
  if (from >= side) return;
  for_chunks(pool, side - from, kWidth, [&](std::int64_t first, std::int64_t last) {
    apply(panel, transposed, side, from + first, from + last, x);
  });
}

}  // namespace

std::int64_t HouseholderQr::num_floats() const {
  const std::int64_t columns = round_up(side_, kPanel);
  return side_ * columns + columns * kPanel;
}

void HouseholderQr::run(ThreadPool& pool, float* s, float* q, float* room) const {
  const Room panels(side_, room);
  for (std::int64_t begin = 0; begin < side_; begin += kPanel) {
    const Panel panel = panels.panel(begin);
    factor(panel, s, side_);
    apply_all(pool, panel, true, side_, begin + panel.count, s);
  }
  std::memset(q, 0, std::size_t(side_ * side_) * sizeof(float));
  for (std::int64_t i = 0; i < side_; ++i) q[i * side_ + i] = 1;
  for (std::int64_t begin = (side_ - 1) / kPanel * kPanel; begin >= 0; begin -= kPanel)
    apply_all(pool, panels.panel(begin), false, side_, begin, q);
}

}  // namespace tr::cpu

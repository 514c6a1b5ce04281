// SPDX-License-Identifier: Apache-2.0
// Ops on images in double, as plainly as their formulas: loops over places, cells and channels.
#include <cmath>
#include <limits>

#include "support/reference.h"

namespace tr::test::ref {
namespace {

/// Flat index of [n, h, w, c].
std::int64_t at(const Shape& s, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return ((n * s[1] + h) * s[2] + w) * s[3] + c;
}

/// Number of windows along an axis of `size` cells.
std::int64_t count(std::int64_t size, const Window& window, std::size_t axis) {
  const std::int64_t reach = window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  const std::int64_t stride = window.stride[axis], padding = window.padding[axis];
  const double steps = double(size + 2 * padding - reach) / double(stride);
  auto n = std::int64_t(window.ceil_mode ? std::ceil(steps) : std::floor(steps)) + 1;
  if (window.ceil_mode && (n - 1) * stride >= size + padding) --n;
  return n;
}

/// Calls f(element of y, n, p, q, c) for each element of an image of that shape.
template <typename F>
void for_elements(const Shape& shape, F f) {
  std::int64_t i = 0;
  for (std::int64_t n = 0; n < shape[0]; ++n) {
    for (std::int64_t p = 0; p < shape[1]; ++p) {
      for (std::int64_t q = 0; q < shape[2]; ++q) {
        for (std::int64_t c = 0; c < shape[3]; ++c) f(i++, n, p, q, c);
      }
    }
  }
}

/// Calls f(r, s, h, w) for each cell of window (p, q) that lies in the image.
template <typename F>
void for_cells(const Shape& x, const Window& window, std::int64_t p, std::int64_t q, F f) {
  for (std::int64_t r = 0; r < window.kernel[0]; ++r) {
    for (std::int64_t s = 0; s < window.kernel[1]; ++s) {
      const std::int64_t h = p * window.stride[0] - window.padding[0] + r * window.dilation[0];
      const std::int64_t w = q * window.stride[1] - window.padding[1] + s * window.dilation[1];
      if (h >= 0 && h < x[1] && w >= 0 && w < x[2]) f(r, s, h, w);
    }
  }
}

Shape pooled(const Shape& x, const Window& window) {
  return {x[0], count(x[1], window, 0), count(x[2], window, 1), x[3]};
}

}  // namespace

Array conv(const Array& x, const Array& weight, const Array* bias, const Window& window,
           std::int64_t groups) {
  const std::int64_t outputs = weight.shape[0], in = weight.shape[3];
  Array y(Shape{x.shape[0], count(x.shape[1], window, 0), count(x.shape[2], window, 1), outputs});
  for_elements(y.shape, [&](std::int64_t i, std::int64_t n, std::int64_t p, std::int64_t q,
                            std::int64_t o) {
    const std::int64_t first = o / (outputs / groups) * in;
    double sum = bias != nullptr ? (*bias)[o] : 0;
    for_cells(x.shape, window, p, q,
              [&](std::int64_t r, std::int64_t s, std::int64_t h, std::int64_t w) {
                for (std::int64_t c = 0; c < in; ++c) {
                  sum += x[at(x.shape, n, h, w, first + c)] * weight[at(weight.shape, o, r, s, c)];
                }
              });
    y[i] = sum;
  });
  return y;
}

Array maxpool(const Array& x, const Window& window) {
  Array y(pooled(x.shape, window));
  for_elements(y.shape,
               [&](std::int64_t i, std::int64_t n, std::int64_t p, std::int64_t q, std::int64_t c) {
                 y[i] = -std::numeric_limits<double>::infinity();
                 for_cells(x.shape, window, p, q, [&](auto, auto, std::int64_t h, std::int64_t w) {
                   y[i] = std::max(y[i], x[at(x.shape, n, h, w, c)]);
                 });
               });
  return y;
}

Array avgpool(const Array& x, const Window& window) {
  Array y(pooled(x.shape, window));
  // Cells of a window along an axis that lie in the padded image.
  const auto padded = [&](std::int64_t i, std::size_t axis) {
    const std::int64_t from = i * window.stride[axis] - window.padding[axis];
    const std::int64_t limit = x.shape[int(axis) + 1] + window.padding[axis];
    return std::min(from + window.kernel[axis], limit) - from;
  };
  for_elements(y.shape,
               [&](std::int64_t i, std::int64_t n, std::int64_t p, std::int64_t q, std::int64_t c) {
                 std::int64_t cells = 0;
                 for_cells(x.shape, window, p, q, [&](auto, auto, std::int64_t h, std::int64_t w) {
                   y[i] += x[at(x.shape, n, h, w, c)];
                   ++cells;
                 });
                 y[i] /= double(window.count_padding ? padded(p, 0) * padded(q, 1) : cells);
               });
  return y;
}

Array adaptive_avgpool(const Array& x, const Pair& size) {
  Array y(Shape{x.shape[0], size[0], size[1], x.shape[3]});
  const auto begin = [](std::int64_t i, std::int64_t cells, std::int64_t windows) {
    return std::int64_t(std::floor(double(i * cells) / double(windows)));
  };
  const auto end = [](std::int64_t i, std::int64_t cells, std::int64_t windows) {
    return std::int64_t(std::ceil(double((i + 1) * cells) / double(windows)));
  };
  for_elements(y.shape, [&](std::int64_t i, std::int64_t n, std::int64_t p, std::int64_t q,
                            std::int64_t c) {
    std::int64_t cells = 0;
    for (std::int64_t h = begin(p, x.shape[1], size[0]); h < end(p, x.shape[1], size[0]); ++h) {
      for (std::int64_t w = begin(q, x.shape[2], size[1]); w < end(q, x.shape[2], size[1]); ++w) {
        y[i] += x[at(x.shape, n, h, w, c)];
        ++cells;
      }
    }
    y[i] /= double(cells);
  });
  return y;
}

Array pad_channels(const Array& x, std::int64_t channels) {
  Array y(x.shape.with_dim(-1, channels));
  for_elements(x.shape, [&](std::int64_t i, std::int64_t n, std::int64_t h, std::int64_t w,
                            std::int64_t c) { y[at(y.shape, n, h, w, c)] = x[i]; });
  return y;
}

Array normalise(const Array& x, const Statistics& statistics, double eps) {
  Array y(x.shape);
  for (std::int64_t i = 0; i < x.shape.num_elements(); ++i) {
    const std::int64_t c = i % x.shape.back();
    y[i] = (x[i] - statistics.mean[c]) / std::sqrt(statistics.var[c] + eps);
  }
  return y;
}

Array affine(const Array& x, const Array& weight, const Array& bias) {
  Array y(x.shape);
  for (std::int64_t i = 0; i < x.shape.num_elements(); ++i) {
    const std::int64_t c = i % x.shape.back();
    y[i] = x[i] * weight[c] + bias[c];
  }
  return y;
}

Array batch_norm(const Array& x, const Array& weight, const Array& bias, double eps) {
  Statistics of_x{Array(weight.shape), Array(weight.shape)};
  const std::int64_t channels = x.shape.back(), elements = x.shape.num_elements();
  const double rows = double(elements / channels);
  for (std::int64_t i = 0; i < elements; ++i) of_x.mean[i % channels] += x[i] / rows;
  for (std::int64_t i = 0; i < elements; ++i) {
    const double off = x[i] - of_x.mean[i % channels];
    of_x.var[i % channels] += off * off / rows;
  }
  return affine(normalise(x, of_x, eps), weight, bias);
}

}  // namespace tr::test::ref

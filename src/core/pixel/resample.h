// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tr::pixel {

// Scaling one axis at a time with 16-bit weights, across first, then down, each result rounded to a
// pixel: the definition that torch.nn.functional.interpolate and torchvision follow for UINT8
// tensors on a CPU, in every bit. Weights come from double + - * / alone.

enum class ResampleFilter : std::int32_t { TRIANGLE, CUBIC };

/// One axis: `to` results from `length` source pixels that begin at `origin` (whole or eighths of
/// pixels) of an axis that holds `from` pixels.
struct ResampleAxis {
  std::int32_t from = 1, to = 1;
  ResampleFilter filter = ResampleFilter::TRIANGLE;
  bool antialias = true;
  double origin = 0, scale = 1;  // scale: source pixels a result
  double support = 1;            // reach of the filter to one side, in source pixels
  std::int32_t max_taps = 2;     // source pixels that a result is made of, at most
};

/// The part of an axis of `from` pixels that is scaled, in eighths of a pixel.
struct ResampleSpan {
  std::int32_t from = 1;
  std::int64_t first_eighths = 0, length_eighths = 8;
};

TR_HOST_DEVICE inline ResampleAxis make_resample_axis(const ResampleSpan& span, std::int32_t to,
                                                      ResampleFilter filter, bool antialias) {
  ResampleAxis axis{span.from, to, filter, antialias};
  axis.origin = double(span.first_eighths) / 8.0;
  axis.scale = double(span.length_eighths) / 8.0 / double(to);
  const std::int32_t reach = filter == ResampleFilter::TRIANGLE ? 1 : 2;
  axis.support = double(reach);
  axis.max_taps = 2 * reach;
  if (antialias) {
    if (axis.scale >= 1.0) axis.support = double(reach) * axis.scale;
    const std::int32_t whole = std::int32_t(axis.support);
    axis.max_taps = 2 * (double(whole) < axis.support ? whole + 1 : whole) + 1;
  }
  return axis;
}

/// The filter at distance x. CUBIC: Keys' convolution with a = -0.5 where antialiasing is on, -0.75
/// where it is off (as Pillow and OpenCV have it).
TR_HOST_DEVICE inline double resample_filter(double x, ResampleFilter filter, bool antialias) {
  x = x < 0 ? -x : x;
  if (filter == ResampleFilter::TRIANGLE) return x < 1.0 ? 1.0 - x : 0.0;
  const double a = antialias ? -0.5 : -0.75;
  if (x < 1.0) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2.0) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0.0;
}

/// Source pixels first .. first + count - 1.
struct ResampleTaps {
  std::int32_t first = 0, count = 0;
};

/// Taps of result `i` where antialiasing is on: the filter is stretched by the scale, pixels
/// outside have no weight, and the weights are divided by their sum.
TR_HOST_DEVICE inline ResampleTaps antialias_taps(const ResampleAxis& axis, std::int32_t i,
                                                  double* weights) {
  const double center = axis.origin + axis.scale * (double(i) + 0.5);
  const double inverse = axis.scale >= 1.0 ? 1.0 / axis.scale : 1.0;
  const auto low = std::int64_t(center - axis.support + 0.5);
  const auto high = std::int64_t(center + axis.support + 0.5);
  ResampleTaps taps;
  taps.first = low < 0 ? 0 : (low >= axis.from ? axis.from - 1 : std::int32_t(low));
  taps.count = std::int32_t(high > axis.from ? axis.from : high) - taps.first;
  if (taps.count > axis.max_taps) taps.count = axis.max_taps;
  if (taps.count < 1) taps.count = 1;
  double total = 0;
  for (std::int32_t k = 0; k < taps.count; ++k) {
    weights[k] = resample_filter((double(k + taps.first) - center + 0.5) * inverse, axis.filter,
                                 axis.antialias);
    total += weights[k];
  }
  for (std::int32_t k = 0; k < taps.count && total != 0.0; ++k) weights[k] /= total;
  return taps;
}

/// Taps of result `i` without antialiasing: 2 (4) neighbours; the weights of those outside go to
/// the edge pixel.
TR_HOST_DEVICE inline ResampleTaps plain_taps(const ResampleAxis& axis, std::int32_t i,
                                              double* weights) {
  const bool cubic = axis.filter == ResampleFilter::CUBIC;
  const std::int32_t reach = cubic ? 2 : 1, last = axis.from - 1;
  double at = axis.origin + axis.scale * (double(i) + 0.5) - 0.5;
  if (!cubic && at < 0) at = 0;
  std::int32_t index = std::int32_t(at);
  if (double(index) > at) --index;  // floor
  if (index > last) index = last;
  double fraction = at - double(index);
  fraction = fraction < 0 ? 0 : (fraction > 1 ? 1 : fraction);
  const std::int32_t low = index - reach + 1;
  ResampleTaps taps;
  taps.first = low < 0 ? 0 : low;
  taps.count = (index + reach < last ? index + reach : last) + 1 - taps.first;
  for (std::int32_t k = 0; k < taps.count; ++k) weights[k] = 0;
  for (std::int32_t k = 0; k < 2 * reach; ++k) {
    const std::int32_t place = low + k < 0 ? 0 : (low + k > last ? last : low + k);
    weights[place - taps.first] +=
        resample_filter(double(k + 1 - reach) - fraction, axis.filter, axis.antialias);
  }
  return taps;
}

/// Taps of result `i`; `weights` has room for max_taps.
TR_HOST_DEVICE inline ResampleTaps resample_taps(const ResampleAxis& axis, std::int32_t i,
                                                 double* weights) {
  return axis.antialias ? antialias_taps(axis, i, weights) : plain_taps(axis, i, weights);
}

/// Fractional bits of an axis' 16-bit weights: as many as its largest weight allows.
TR_HOST_DEVICE inline std::int32_t resample_precision(double largest_weight) {
  std::int32_t bits = 0;
  while (bits < 22 && std::int64_t(0.5 + largest_weight * double(1 << (bits + 1))) < (1 << 15)) {
    ++bits;
  }
  return bits;
}

TR_HOST_DEVICE inline std::int16_t resample_weight(double weight, std::int32_t bits) {
  const double scaled = weight * double(1 << bits);
  return std::int16_t(scaled < 0 ? -0.5 + scaled : 0.5 + scaled);
}

/// The pixel of a sum of weights times pixels.
TR_HOST_DEVICE inline std::int32_t resample_round(std::int32_t sum, std::int32_t bits) {
  const std::int32_t value = (sum + (1 << bits >> 1)) >> bits;
  return value < 0 ? 0 : (value > 255 ? 255 : value);
}

}  // namespace tr::pixel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "support/picture.h"

namespace tr::test {

/// Waves without noise: what a photograph is like, for comparisons after shrinking.
inline std::uint8_t smooth_texture(int y, int x, int channel) {
  return std::uint8_t(
      std::lround(128 + 60 * std::sin(x / (15.0 + channel)) + 50 * std::cos(y / (17.0 - channel))));
}

/// Weights of the source pixels of one axis for output pixel `i`: the triangle filter over a range
/// given in eighths of a pixel, widened where the range shrinks (antialias), cut off at its ends.
struct AxisWeights {
  int first = 0;
  std::vector<double> weights;

  AxisWeights(int begin_eighths, int length_eighths, int out_size, int i, int in_size) {
    const double begin = begin_eighths / 8.0, length = length_eighths / 8.0;
    const double scale = length / out_size, support = std::max(1.0, scale);
    const double center = begin + (i + 0.5) * scale;
    // Pixels of which more than half lies outside the range take no part.
    const int least = std::clamp(int(std::floor(begin + 0.5)), 0, in_size - 1);
    const int most = std::clamp(int(std::ceil(begin + length - 0.5)), least + 1, in_size);
    first = std::clamp(int(std::ceil(center - support - 0.5)), least, most - 1);
    const int last = std::clamp(int(std::floor(center + support - 0.5)), first, most - 1);
    double sum = 0;
    for (int k = first; k <= last; ++k) {
      weights.push_back(std::max(1e-9, 1 - std::abs(k + 0.5 - center) / support));
      sum += weights.back();
    }
    for (double& weight : weights) weight /= sum;
  }
};

/// Bilinear resize with antialias of a part of a picture, in double: the reference.
inline Picture resample(const Picture& in, const data::PixelRect& eighths, int width, int height) {
  Picture out;
  out.height = height, out.width = width, out.channels = in.channels;
  std::vector<double> lines(std::size_t(in.height) * std::size_t(width * in.channels));
  for (int x = 0; x < width; ++x) {
    const AxisWeights axis(eighths.x, eighths.width, width, x, in.width);
    for (int y = 0; y < in.height; ++y) {
      for (int c = 0; c < in.channels; ++c) {
        double sum = 0;
        for (std::size_t k = 0; k < axis.weights.size(); ++k) {
          sum += axis.weights[k] * in.at(y, axis.first + int(k), c);
        }
        lines[std::size_t((y * width + x) * in.channels + c)] = sum;
      }
    }
  }
  const int row = width * in.channels;
  for (int y = 0; y < height; ++y) {
    const AxisWeights axis(eighths.y, eighths.height, height, y, in.height);
    for (int i = 0; i < row; ++i) {
      double sum = 0;
      for (std::size_t k = 0; k < axis.weights.size(); ++k) {
        sum += axis.weights[k] * lines[std::size_t((axis.first + int(k)) * row + i)];
      }
      out.bytes.push_back(std::uint8_t(std::clamp(std::lround(sum), 0L, 255L)));
    }
  }
  return out;
}

/// Mean absolute difference of samples, in 1/255.
inline double mean_difference(const Picture& a, const Picture& b) {
  if (a.bytes.size() != b.bytes.size() || a.bytes.empty()) return 255;
  double sum = 0;
  for (std::size_t i = 0; i < a.bytes.size(); ++i) sum += std::abs(a.bytes[i] - b.bytes[i]);
  return sum / double(a.bytes.size());
}

}  // namespace tr::test

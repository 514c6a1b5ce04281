// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/pixel/uniform.h"

namespace tr::pixel {

// Colours in integers. Factors have 16 fractional bits; a result is cut to 0..255 and rounded down,
// as torchvision does with UINT8 tensors. x, r, g, b are pixels, 0..255.

constexpr std::int32_t kFactorBits = 16;  // factors up to 16: products and sums stay within 31 bits
constexpr std::int32_t kFactorOne = 1 << kFactorBits;
constexpr std::int32_t kHueTurn = 6 * kFactorOne;  // a whole turn of the hue

TR_HOST_DEVICE inline std::int32_t cut_to_pixel(std::int32_t x) {
  return x < 0 ? 0 : (x > 255 ? 255 : x);
}

/// A factor to its fixed-point number, rounded up: of 1.9, ten times must not fall below 19.
TR_HOST_DEVICE inline std::int32_t to_factor(float factor) {
  const float scaled = factor * float(kFactorOne);
  const auto whole = std::int32_t(scaled);
  return float(whole) < scaled ? whole + 1 : whole;
}

/// floor(0.2989 r + 0.587 g + 0.114 b), exactly: the weights are rounded up to 2^-23, which adds
/// less than the sum's granularity of 1e-4.
constexpr std::int32_t kLumaBits = 23, kLumaRed = 2507355, kLumaGreen = 4924113, kLumaBlue = 956302;
TR_HOST_DEVICE inline std::int32_t luma(std::int32_t r, std::int32_t g, std::int32_t b) {
  return (r * kLumaRed + g * kLumaGreen + b * kLumaBlue) >> kLumaBits;
}

TR_HOST_DEVICE inline std::int32_t brighten(std::int32_t x, std::int32_t factor) {
  const std::int32_t y = (x * factor) >> kFactorBits;
  return y > 255 ? 255 : y;
}

/// factor x + (1 - factor) other, `rest` being (1 - factor) other as a factor.
TR_HOST_DEVICE inline std::int32_t blend_factor(std::int32_t x, std::int32_t factor,
                                                std::int32_t rest) {
  return cut_to_pixel((x * factor + rest) >> kFactorBits);
}

/// `rest` of blend_factor() for the mean of `count` values of sum `sum`; rounded down.
TR_HOST_DEVICE inline std::int32_t mean_rest(std::int32_t factor, std::int64_t sum,
                                             std::int64_t count) {
  const std::int64_t product = std::int64_t(kFactorOne - factor) * sum;
  const std::int64_t quotient = product / count;
  return std::int32_t(product < 0 && quotient * count != product ? quotient - 1 : quotient);
}

struct Rgb {
  std::int32_t r = 0, g = 0, b = 0;
};

/// Channel `n` (5: red, 3: green, 1: blue) of a hue at `place` of the hexagon whose side is `side`.
TR_HOST_DEVICE inline std::int32_t hue_channel(std::int32_t n, std::int32_t place,
                                               std::int32_t side, std::int32_t largest) {
  std::int32_t k = place + n * side;
  k = k >= 6 * side ? k - 6 * side : k;
  std::int32_t below = 4 * side - k < k ? 4 * side - k : k;
  below = below < 0 ? 0 : (below > side ? side : below);
  const std::int32_t value = (largest << kFactorBits) - below;
  return (value + (value >> 8)) >> kFactorBits;  // times 255.999 / 255, as torchvision converts
}

/// Turns the hue by `turn` / kHueTurn, turn in [0, kHueTurn). The hexagon of the HSV model is
/// walked in units of chroma / 65536, so nothing is divided.
TR_HOST_DEVICE inline Rgb turn_hue(const Rgb& in, std::int32_t turn) {
  const std::int32_t upper = in.r > in.g ? in.r : in.g, lower = in.r < in.g ? in.r : in.g;
  const std::int32_t largest = upper > in.b ? upper : in.b, least = lower < in.b ? lower : in.b;
  const std::int32_t chroma = largest - least, side = chroma << kFactorBits;
  const bool red = largest == in.r, green = largest == in.g;
  const std::int32_t slope = red ? in.g - in.b : (green ? in.b - in.r : in.r - in.g);
  const std::int32_t corner = red ? 0 : (green ? 2 : 4);
  std::int32_t place = corner * side + (slope << kFactorBits);
  place = place < 0 ? place + 6 * side : place;
  place += turn * chroma;
  place = place >= 6 * side ? place - 6 * side : place;
  return {hue_channel(5, place, side, largest), hue_channel(3, place, side, largest),
          hue_channel(1, place, side, largest)};
}

enum class ColorOp : std::int32_t { BRIGHTNESS, CONTRAST, SATURATION, HUE };

struct JitterRange {
  float brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

/// What ColorJitter draws: the order of its four operations and their factors; an operation of
/// strength 0 has kFactorOne, or turn 0.
struct Jitter {
  ColorOp order[4] = {ColorOp::BRIGHTNESS, ColorOp::CONTRAST, ColorOp::SATURATION, ColorOp::HUE};
  std::int32_t factor[4] = {kFactorOne, kFactorOne, kFactorOne, 0};  // by ColorOp; HUE: its turn
};

TR_HOST_DEVICE inline std::int32_t draw_factor(std::uint32_t word, float strength) {
  const float low = strength < 1 ? 1 - strength : 0;
  return strength > 0 ? to_factor(uniform_between(word, low, 1 + strength)) : kFactorOne;
}

/// Block 0: order, brightness, contrast, saturation; block 1, word 0: hue. Order: the
/// below(w[0], 24)-th permutation, its leading digit in base 4, the next in base 3, then 2.
TR_HOST_DEVICE inline Jitter draw_jitter(const StepDraws& draws, const JitterRange& range) {
  const Philox4 words = draws.block(0);
  Jitter jitter;
  std::uint32_t code = uniform_below(words.v[0], 24);
  for (std::uint32_t i = 0, choices = 6; i < 3; ++i) {
    const std::uint32_t pick = i + code / choices;
    const ColorOp chosen = jitter.order[pick];
    for (std::uint32_t k = pick; k > i; --k) jitter.order[k] = jitter.order[k - 1];
    jitter.order[i] = chosen;
    code %= choices;
    choices /= 3 - i;
  }
  jitter.factor[0] = draw_factor(words.v[1], range.brightness);
  jitter.factor[1] = draw_factor(words.v[2], range.contrast);
  jitter.factor[2] = draw_factor(words.v[3], range.saturation);
  if (range.hue > 0) {
    const float turn = uniform_between(draws.block(1).v[0], -range.hue, range.hue);
    const auto steps = std::int32_t(turn * float(kHueTurn) + (turn < 0 ? -0.5f : 0.5f));
    jitter.factor[3] = steps < 0 ? steps + kHueTurn : steps;
  }
  return jitter;
}

}  // namespace tr::pixel

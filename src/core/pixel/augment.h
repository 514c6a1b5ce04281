// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/pixel/uniform.h"

namespace tr::pixel {

/// The operations of RandAugment and TrivialAugment, in torchvision's order.
enum class AugmentOp : std::int32_t {
  IDENTITY,
  SHEAR_X,
  SHEAR_Y,
  TRANSLATE_X,
  TRANSLATE_Y,
  ROTATE,
  BRIGHTNESS,
  COLOR,
  CONTRAST,
  SHARPNESS,
  POSTERIZE,
  SOLARIZE,
  AUTO_CONTRAST,
  EQUALIZE
};
constexpr std::uint32_t kNumAugmentOps = 14;

/// An operation and its strength: a slope (SHEAR), pixels (TRANSLATE), degrees, anticlockwise
/// (ROTATE), factor - 1 (BRIGHTNESS .. SHARPNESS), bits that are kept (POSTERIZE), a threshold
/// (SOLARIZE).
struct AugmentChoice {
  AugmentOp op = AugmentOp::IDENTITY;
  float strength = 0;
};

/// Largest strengths of an augmentation; their space has `bins` equal steps from none to these.
struct AugmentSpace {
  std::int32_t bins = 31;
  std::int32_t bin = -1;  // the step that is taken; -1: drawn for every operation
  float shear = 0.3f;
  float shift_of_331 = 150;  // pixels an image of 331 pixels is moved by; 0: shift_pixels
  float shift_pixels = 0;
  float degrees = 30;
  float factor = 0.9f;
  std::int32_t posterize_bits = 4;  // that are cleared
};

/// Half to even, as torch.round; x >= 0.
TR_HOST_DEVICE inline std::int32_t round_half_even(double x) {
  const std::int32_t below = std::int32_t(x);
  const double rest = x - double(below);
  return rest > 0.5 || (rest == 0.5 && (below & 1) != 0) ? below + 1 : below;
}

/// The strength of an operation at step `bin` of the space, without its sign.
TR_HOST_DEVICE inline float augment_strength(AugmentOp op, std::int32_t bin, std::int32_t height,
                                             std::int32_t width, const AugmentSpace& space) {
  const double part = double(bin) / double(space.bins - 1);
  const auto shift = [&](std::int32_t side) {
    const double most = space.shift_of_331 > 0 ? double(space.shift_of_331) / 331.0 * double(side)
                                               : double(space.shift_pixels);
    return float(std::int32_t(most * part));
  };
  switch (op) {
    case AugmentOp::SHEAR_X:
    case AugmentOp::SHEAR_Y: return float(part * double(space.shear));
    case AugmentOp::TRANSLATE_X: return shift(width);
    case AugmentOp::TRANSLATE_Y: return shift(height);
    case AugmentOp::ROTATE: return float(part * double(space.degrees));
    case AugmentOp::BRIGHTNESS:
    case AugmentOp::COLOR:
    case AugmentOp::CONTRAST:
    case AugmentOp::SHARPNESS: return float(part * double(space.factor));
    case AugmentOp::POSTERIZE:
      return float(8 - round_half_even(part * double(space.posterize_bits)));
    case AugmentOp::SOLARIZE: return float(255.0 * (1.0 - part));
    case AugmentOp::IDENTITY:
    case AugmentOp::AUTO_CONTRAST:
    case AugmentOp::EQUALIZE: return 0;
  }
  return 0;
}

TR_HOST_DEVICE inline bool is_signed(AugmentOp op) {
  return op >= AugmentOp::SHEAR_X && op <= AugmentOp::SHARPNESS;
}

/// Block `index`: word 0 the operation, word 1 the bin where the space has none, word 2 the sign.
TR_HOST_DEVICE inline AugmentChoice draw_augment(const StepDraws& draws, std::uint32_t index,
                                                 std::int32_t height, std::int32_t width,
                                                 const AugmentSpace& space) {
  const Philox4 words = draws.block(index);
  AugmentChoice choice{AugmentOp(uniform_below(words.v[0], kNumAugmentOps))};
  std::int32_t bin = space.bin;
  if (bin < 0) bin = std::int32_t(uniform_below(words.v[1], std::uint32_t(space.bins)));
  choice.strength = augment_strength(choice.op, bin, height, width, space);
  if (is_signed(choice.op) && uniform01(words.v[2]) < 0.5f) choice.strength = -choice.strength;
  return choice;
}

}  // namespace tr::pixel

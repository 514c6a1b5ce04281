// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "core/half.h"
#include "core/host_device.h"
#include "core/pixel/crop.h"
#include "core/pixel/erase.h"
#include "core/pixel/flip.h"
#include "core/pixel/normalize.h"
#include "core/pixel/pad.h"
#include "core/pixel/rotate.h"
#include "core/pixel/scale.h"
#include "renaissance/core/dtype.h"

namespace tr::pixel {

// A chain of transforms as plain bytes that any device can hold: what the steps are (Program), what
// they draw for one sample (draw_step), and, in stages.h, how one pixel of a result comes from the
// image before it. A new transform is a kind, a struct of parameters, a case of draw_step() and its
// pixel function in stages.h.

struct Extent {
  std::int32_t height = 0, width = 0;
};

struct PadStep {
  PadRule rule = PadRule::CONSTANT;
  std::int32_t padding = 0, fill = 0;
};

struct CropStep {
  Extent canvas;           // of the image with its margin of zeros
  std::int32_t drawn = 1;  // 0: the window is always this one
  CropWindow window;
};

struct FlipStep {
  float p = 0;
  std::int32_t vertical = 0;  // 0: left and right, 1: top and bottom
};

struct RotateStep {
  float degrees = 0;
  std::int32_t fill = 0;
};

struct ScaleStep {
  float min = 1, max = 1;
};

enum class StepKind : std::int32_t { PAD, CROP, FLIP, ROTATE, SCALE };

struct Step {
  StepKind kind = StepKind::PAD;
  std::uint32_t index = 0;  // in the chain: addresses the draws
  Extent in, out;
  union {  // by kind
    PadStep pad;
    CropStep crop;
    FlipStep flip;
    RotateStep rotate;
    ScaleStep scale;
  };

  TR_HOST_DEVICE Step() : pad() {}
};

struct ScaleAxes {
  ScaleAxis y, x;
};

/// What a step draws for one sample.
struct Drawn {
  union {  // by the step's kind; PAD draws nothing
    CropWindow window;
    std::int32_t flips;  // 1: mirrored
    Rotation rotation;
    ScaleAxes axes;
  };

  TR_HOST_DEVICE Drawn() : window() {}
};

/// UINT8 [in, channels] to `dtype` [out, channels]: the steps one after the other, then
/// y = (x / 255 - mean[c]) / std[c], then the rectangle of RandomErasing set to 0. Trivially
/// copyable, without pointers.
struct Program {
  static constexpr int kMaxSteps = 64, kMaxChannels = 64;

  Extent in, out;
  std::int32_t channels = 0;
  DType dtype = DType::FP32;       // FP32, FP16 or BF16
  std::int32_t num_steps = 0;      // without RandomErasing
  std::int32_t largest_bytes = 0;  // of the images before, between and after the steps
  std::int32_t erases = 0;         // 1: RandomErasing ends the chain
  std::uint32_t erase_index = 0;   // addresses its draws
  EraseRange erase;
  Step steps[kMaxSteps];
  float mean[kMaxChannels] = {}, std[kMaxChannels] = {};

  TR_HOST_DEVICE std::int32_t in_bytes() const { return in.height * in.width * channels; }
  TR_HOST_DEVICE std::int32_t out_elements() const { return out.height * out.width * channels; }
};

static_assert(std::is_trivially_copyable_v<Program> && std::is_trivially_copyable_v<Drawn>);

TR_HOST_DEVICE inline Drawn draw_step(const Step& step, const DrawAddress& address) {
  const StepDraws draws{address, step.index};
  Drawn drawn;
  switch (step.kind) {
    case StepKind::PAD: break;
    case StepKind::CROP:
      drawn.window = step.crop.window;
      if (step.crop.drawn != 0) {
        drawn.window = draw_crop(draws, step.crop.canvas.height, step.crop.canvas.width,
                                 step.out.height, step.out.width);
      }
      break;
    case StepKind::FLIP: drawn.flips = draw_chance(draws, step.flip.p) ? 1 : 0; break;
    case StepKind::ROTATE: drawn.rotation = draw_rotation(draws, step.rotate.degrees); break;
    case StepKind::SCALE: {
      const ScaledSize size =
          draw_scaled_size(draws, step.in.height, step.in.width, step.scale.min, step.scale.max);
      drawn.axes = {make_scale_axis(step.in.height, size.height),
                    make_scale_axis(step.in.width, size.width)};
      break;
    }
  }
  return drawn;
}

/// The rectangle for one sample; height 0 if the program erases nothing.
TR_HOST_DEVICE inline EraseRect draw_erase(const Program& program, const DrawAddress& address) {
  if (program.erases == 0) return {};
  return draw_erase(StepDraws{address, program.erase_index}, program.out.height, program.out.width,
                    program.erase);
}

/// Entry `value` of the normalisation table of a channel: the bits of the result in the program's
/// dtype, in the low 16 for the half types.
inline std::uint32_t normalized_bits(const Program& program, int channel, std::uint8_t value) {
  const float y = normalized(value, program.mean[channel], program.std[channel]);
  if (program.dtype == DType::FP32) return std::bit_cast<std::uint32_t>(y);
  return program.dtype == DType::BF16 ? from_float<BFloat16>(y).bits : from_float<Half>(y).bits;
}

}  // namespace tr::pixel

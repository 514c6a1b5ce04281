// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pixel/program.h"

namespace tr::pixel {

/// Interleaved pixels [height, width, channels] in memory.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  Extent extent;
  std::int32_t channels = 0;

  TR_HOST_DEVICE bool holds(std::int32_t y, std::int32_t x) const {
    return std::uint32_t(y) < std::uint32_t(extent.height) &&
           std::uint32_t(x) < std::uint32_t(extent.width);
  }
  TR_HOST_DEVICE std::int32_t at(std::int32_t y, std::int32_t x, std::int32_t c) const {
    return pixels[(y * extent.width + x) * channels + c];
  }
};

// A stage is the steps that are done in one pass over the pixels: any number of steps that only
// move pixels, or one that blends neighbours (its rounding comes before the next step, so the image
// before it must stand in memory). It is a function of a place of its result: (y, x, c) -> pixel.

/// Where a pixel of a moving step's result comes from: a place in the step's input, or a constant.
struct Origin {
  std::int32_t y = 0, x = 0;
  std::int32_t constant = -1;  // 0..255: no place, this value
};

TR_HOST_DEVICE inline Origin pad_origin(const Step& step, std::int32_t y, std::int32_t x) {
  const PadStep& pad = step.pad;
  const std::int32_t from_y = pad_index(y - pad.padding, step.in.height, pad.rule);
  const std::int32_t from_x = pad_index(x - pad.padding, step.in.width, pad.rule);
  return {from_y, from_x, from_y < 0 || from_x < 0 ? pad.fill : -1};
}

TR_HOST_DEVICE inline Origin crop_origin(const Step& step, const Drawn& drawn, std::int32_t y,
                                         std::int32_t x) {
  const Extent canvas = step.crop.canvas, in = step.in;
  const std::int32_t from_y = y + drawn.window.top - (canvas.height - in.height) / 2;
  const std::int32_t from_x = x + drawn.window.left - (canvas.width - in.width) / 2;
  const bool inside = std::uint32_t(from_y) < std::uint32_t(in.height) &&
                      std::uint32_t(from_x) < std::uint32_t(in.width);
  return {from_y, from_x, inside ? -1 : 0};
}

TR_HOST_DEVICE inline Origin flip_origin(const Step& step, const Drawn& drawn, std::int32_t y,
                                         std::int32_t x) {
  if (drawn.flips == 0) return {y, x, -1};
  return step.flip.vertical != 0 ? Origin{step.in.height - 1 - y, x, -1}
                                 : Origin{y, step.in.width - 1 - x, -1};
}

TR_HOST_DEVICE inline Origin move_origin(const Step& step, const Drawn& drawn, std::int32_t y,
                                         std::int32_t x) {
  if (step.kind == StepKind::PAD) return pad_origin(step, y, x);
  return step.kind == StepKind::CROP ? crop_origin(step, drawn, y, x)
                                     : flip_origin(step, drawn, y, x);
}

/// Steps [first, end) that move pixels; none at all is a copy.
struct MoveStage {
  const Step* steps = nullptr;
  const Drawn* drawn = nullptr;
  std::int32_t first = 0, end = 0;
  ImageView source;

  TR_HOST_DEVICE std::int32_t operator()(std::int32_t y, std::int32_t x, std::int32_t c) const {
    for (std::int32_t i = end - 1; i >= first; --i) {
      const Origin origin = move_origin(steps[i], drawn[i], y, x);
      if (origin.constant >= 0) return origin.constant;
      y = origin.y;
      x = origin.x;
    }
    return source.at(y, x, c);
  }
};

struct RotateStage {
  Rotation rotation;
  std::int32_t fill = 0;
  ImageView source;

  TR_HOST_DEVICE std::uint32_t pixel(std::int32_t y, std::int32_t x, std::int32_t c) const {
    return std::uint32_t(source.holds(y, x) ? source.at(y, x, c) : fill);
  }
  TR_HOST_DEVICE std::int32_t operator()(std::int32_t y, std::int32_t x, std::int32_t c) const {
    const std::int32_t height = source.extent.height, width = source.extent.width;
    const std::int32_t source_x = rotate_source_x(rotation, x, y, width, height);
    const std::int32_t source_y = rotate_source_y(rotation, x, y, width, height);
    const std::int32_t x0 = rotate_index(source_x, width), y0 = rotate_index(source_y, height);
    const std::uint32_t quad = pixel(y0, x0, c) | pixel(y0, x0 + 1, c) << 8 |
                               pixel(y0 + 1, x0, c) << 16 | pixel(y0 + 1, x0 + 1, c) << 24;
    return blend_quad(quad, rotate_fraction(source_x), rotate_fraction(source_y));
  }
};

struct ScaleStage {
  ScaleAxes axes;
  ImageView source;

  TR_HOST_DEVICE static bool inside(const ScaleAxis& axis, std::int32_t i) {
    return i >= axis.margin && i < axis.margin + axis.to;
  }
  TR_HOST_DEVICE std::int32_t operator()(std::int32_t y, std::int32_t x, std::int32_t c) const {
    if (!inside(axes.y, y) || !inside(axes.x, x)) return 0;
    const ScaleTap tap_y = scale_tap(axes.y, y), tap_x = scale_tap(axes.x, x);
    // The neighbours of the last row and column have weight 0.
    const std::int32_t y0 = tap_y.index, y1 = y0 + 1 < axes.y.from ? y0 + 1 : y0;
    const std::int32_t x0 = tap_x.index, x1 = x0 + 1 < axes.x.from ? x0 + 1 : x0;
    const std::int32_t top = blend_row(source.at(y0, x0, c), source.at(y0, x1, c), tap_x.fraction);
    const std::int32_t bottom =
        blend_row(source.at(y1, x0, c), source.at(y1, x1, c), tap_x.fraction);
    return blend_column(top, bottom, tap_y.fraction);
  }
};

TR_HOST_DEVICE inline bool moves_pixels(StepKind kind) {
  return kind == StepKind::PAD || kind == StepKind::CROP || kind == StepKind::FLIP;
}

/// Steps [first, end) of a program that make one stage.
struct StageSteps {
  std::int32_t first = 0, end = 0;
};

/// The stage that begins with step `first`; empty behind the last step.
TR_HOST_DEVICE inline StageSteps stage_at(const Program& program, std::int32_t first) {
  std::int32_t end = first < program.num_steps ? first + 1 : first;
  if (first == end || !moves_pixels(program.steps[first].kind)) return {first, end};
  while (end < program.num_steps && moves_pixels(program.steps[end].kind)) ++end;
  return {first, end};
}

/// Size of the result of a stage.
TR_HOST_DEVICE inline Extent stage_extent(const Program& program, const StageSteps& steps) {
  return steps.end == 0 ? program.in : program.steps[steps.end - 1].out;
}

/// Calls visit(stage) with the stage of those steps on `source`; `drawn` has what each step of the
/// program drew.
template <typename Visit>
TR_HOST_DEVICE void with_stage(const Program& program, const Drawn* drawn, const StageSteps& steps,
                               const ImageView& source, const Visit& visit) {
  const Step& step = program.steps[steps.first];
  const bool copies = steps.first == steps.end;
  if (copies || moves_pixels(step.kind)) {
    return visit(MoveStage{program.steps, drawn, steps.first, steps.end, source});
  }
  switch (step.kind) {
    case StepKind::ROTATE:
      return visit(RotateStage{drawn[steps.first].rotation, step.rotate.fill, source});
    case StepKind::SCALE: return visit(ScaleStage{drawn[steps.first].axes, source});
    case StepKind::PAD:
    case StepKind::CROP:
    case StepKind::FLIP: return;  // above
  }
}

}  // namespace tr::pixel

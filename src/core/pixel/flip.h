// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/pixel/uniform.h"

namespace tr::pixel {

/// True with probability p: word 0 of block 0. What steps that act or do not act draw first.
TR_HOST_DEVICE inline bool draw_chance(const StepDraws& draws, float p) {
  return uniform01(draws.block(0).v[0]) < p;
}

}  // namespace tr::pixel

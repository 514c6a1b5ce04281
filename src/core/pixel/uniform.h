// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/philox.h"

namespace tr::pixel {

/// The draws of one step of a chain for one sample: blocks (step << 8) + 0..255 of
/// (seed, AUGMENT, epoch, sample id).
struct StepDraws {
  DrawAddress address;
  std::uint32_t step = 0;

  TR_HOST_DEVICE Philox4 block(std::uint32_t index) const {
    return address.block((step << 8) + index);
  }
};

/// Uniform in [low, high] (high by rounding only).
TR_HOST_DEVICE inline float uniform_between(std::uint32_t word, float low, float high) {
  return low + (high - low) * uniform01(word);
}

}  // namespace tr::pixel

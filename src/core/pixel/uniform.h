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

/// Address of the draws of a sample in an epoch. The split's number (0: training, 1: validation)
/// keeps the draws of a random validation chain apart from those of training.
TR_HOST_DEVICE inline DrawAddress augment_address(std::uint64_t seed, std::uint64_t split,
                                                  std::int64_t epoch, std::int64_t sample) {
  return {seed, DrawPurpose::AUGMENT, std::uint64_t(epoch) | (split << 63), std::uint64_t(sample)};
}

/// Uniform in [low, high] (high by rounding only).
TR_HOST_DEVICE inline float uniform_between(std::uint32_t word, float low, float high) {
  return low + (high - low) * uniform01(word);
}

}  // namespace tr::pixel

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace tr::pixel {

/// One entry of the normalisation table: (x / 255 - mean) / std in float, each operation rounded,
/// so that it equals torchvision's ToTensor followed by Normalize in every bit.
TR_HOST_DEVICE inline float normalized(std::uint8_t x, float mean, float std) {
  return (float(x) / 255.0f - mean) / std;
}

}  // namespace tr::pixel

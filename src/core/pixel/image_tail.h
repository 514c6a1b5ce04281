// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/host_device.h"
#include "core/pixel/erase.h"

namespace tr::pixel {

// The last pass of a chain by itself, for whoever gets pixels and does the rest: mirror, normalise,
// erase, convert, fill up channels.

/// What is drawn of it for one sample: a row of the field "image_tail", INT32 [kTailInts].
struct ImageTail {
  std::int32_t mirrored = 0;
  EraseRect erased;
  std::int32_t unused[3] = {};
};

constexpr int kTailInts = 8;
static_assert(sizeof(ImageTail) == kTailInts * sizeof(std::int32_t));
static_assert(std::is_trivially_copyable_v<ImageTail>);

/// Channels whose tables of 256 entries fit in a block's shared memory.
constexpr int kMostTailChannels = 32;

/// Column of the pixels that column x of the result comes from.
TR_HOST_DEVICE inline std::int32_t tail_column(const ImageTail& tail, std::int32_t x,
                                               std::int32_t width) {
  return tail.mirrored != 0 ? width - 1 - x : x;
}

}  // namespace tr::pixel

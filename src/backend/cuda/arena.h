// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "device/arena.h"

namespace tr::cuda {

/// Memory of the current device, aligned to 256 bytes at least.
/// @throws OutOfMemory  naming the bytes asked for and those that are free.
std::unique_ptr<Arena> make_device_arena(std::int64_t num_bytes);

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "device/communicator.h"

namespace tr::dist {

/// The only rank of a world of one: every operation returns at once.
std::unique_ptr<Communicator> make_single();

/// `world_size` ranks as threads of this process. A rank whose communicator is destroyed while others
/// still expect it makes them throw DeviceError instead of waiting for ever.
std::vector<std::unique_ptr<Communicator>> make_local(int world_size);

}  // namespace tr::dist

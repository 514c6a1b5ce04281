// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/device_backend.h"

namespace tr::cuda {

/// What `renaissance info` shows of cuDNN: it is loaded if it is there. A build that found no
/// header of cuDNN says so (cudnn_absent.cpp).
LibraryInfo cudnn_info();

}  // namespace tr::cuda

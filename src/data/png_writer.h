// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "data/transforms/pixel_step.h"

namespace tr::data {

/// Writes pixels of 1 or 3 channels as an 8-bit PNG; the file appears whole or not at all.
/// @throws DataError  it cannot be written.
void write_png(const std::string& path, const ImageRef& image);

}  // namespace tr::data

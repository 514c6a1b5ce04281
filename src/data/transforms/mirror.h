// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace tr::data {

/// Copies a row of `width` pixels from right to left. Writes up to 16 bytes behind the row.
void mirror_row(const std::uint8_t* src, int width, int channels, std::uint8_t* dst);

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tr {

/// CRC-32 of zlib and PNG (polynomial 0xEDB88320). Continues from `crc`, the result of the bytes
/// before.
std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc = 0);

}  // namespace tr

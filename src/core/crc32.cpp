// SPDX-License-Identifier: Apache-2.0
#include "core/crc32.h"

#include <zlib.h>

namespace tr {

std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t crc) {
  // An empty span may hold a null pointer, which zlib takes as "give me the initial value".
  if (bytes.empty()) return crc;
  return std::uint32_t(::crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace tr

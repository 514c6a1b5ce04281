// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/core/shape.h"
#include "renaissance/tensor/safetensors.h"

namespace tr {

/// One tensor of a header; its bytes lie at [begin, end) of the data that follow the header.
struct SafetensorsEntry {
  std::string name;
  TensorType type;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// Bytes of the number that begins a file: the length of its header, little-endian.
inline constexpr std::uint64_t kSafetensorsPrefixBytes = 8;
inline constexpr std::uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

/// The header's length, checked against the limit and the file's size.
/// @throws DataError  naming `source`; here and below.
std::uint64_t safetensors_header_bytes(std::span<const std::byte> prefix, std::uint64_t file_bytes,
                                       std::string_view source);

/// Parses the JSON text of a header and checks it against the number of bytes that follow: every
/// byte belongs to exactly one tensor. Allocates no more than the text's size asks for.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           std::string_view source);

/// A whole file in memory.
SafetensorsFile parse_safetensors(std::span<const std::byte> bytes, std::string_view source);

/// The length prefix and header of a file that holds these tensors in this order, padded with
/// spaces to a multiple of 8. @throws InvalidArgument  a name is reserved, used twice or not UTF-8.
std::string safetensors_header_text(const SafetensorsFile& file);

}  // namespace tr

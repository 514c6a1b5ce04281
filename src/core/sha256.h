// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tr {

/// SHA-256 of a stream of bytes. Source: FIPS 180-4.
class Sha256 {
 public:
  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  /// The hash of everything so far; more may follow.
  std::array<std::uint8_t, 32> digest() const;
  /// digest() as 64 lower-case hexadecimal digits.
  std::string hex() const;

 private:
  using State = std::array<std::uint32_t, 8>;
  static void compress(State& state, const std::uint8_t* blocks, std::size_t num_blocks);

  State state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
               0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<std::uint8_t, 64> block_{};  // the first num_bytes_ % 64 bytes are waiting
  std::uint64_t num_bytes_ = 0;
};

/// Hexadecimal SHA-256 of bytes in memory.
std::string sha256_hex(std::span<const std::byte> bytes);

/// Hexadecimal SHA-256 of a file. @throws DataError  it cannot be read.
std::string sha256_file(const std::string& path);

}  // namespace tr

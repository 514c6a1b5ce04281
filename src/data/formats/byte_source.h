// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tr::data {

/// Bytes in a row, plain or inflated on the way.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `out` as far as bytes are left; less than out.size() means the end.
  /// @throws DataError  the compressed stream is cut or damaged.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  /// No more than this can still come: the guard against allocating what a damaged header claims.
  virtual std::uint64_t max_remaining() const = 0;
  virtual bool compressed() const = 0;

  /// Reads to the end; number of bytes that were left.
  std::uint64_t skip_rest();
};

/// True if the bytes start as a gzip file does (1f 8b).
bool is_gzip(std::span<const std::byte> bytes);

/// A source over bytes in memory, which must outlive it: gunzipped if they start as gzip, else as
/// they are. `who` (the path) opens every message. Source: RFC 1952, several members in a row
/// included.
std::unique_ptr<ByteSource> open_bytes(std::span<const std::byte> bytes, const std::string& who);

}  // namespace tr::data

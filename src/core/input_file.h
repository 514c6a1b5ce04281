// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "renaissance/core/error.h"

namespace tr {

/// A file whose bytes cannot be had: missing, not permitted, a folder, a disk that fails. What is
/// in it is not known, so it may be sound.
class UnreadableFile : public DataError {
 public:
  using DataError::DataError;
};

/// A regular file opened for reading at any place; safe to read from several threads at once.
class InputFile {
 public:
  /// @throws UnreadableFile  it is missing, not permitted or not a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Size when it was opened.
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// Fills `out` from `offset` on. @throws DataError  the file ends before.
  /// @throws UnreadableFile  the disk fails.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t num_bytes_ = 0;
};

/// A whole file. @throws DataError  as above, or it is larger than max_bytes.
std::vector<std::byte> read_bytes(const std::string& path, std::uint64_t max_bytes = UINT64_MAX);
std::string read_text(const std::string& path, std::uint64_t max_bytes = UINT64_MAX);

}  // namespace tr

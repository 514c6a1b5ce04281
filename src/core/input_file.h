// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tr {

/// A regular file opened for reading at any place; safe to read from several threads at once.
class InputFile {
 public:
  /// @throws DataError  the file is missing, unreadable or not a regular file.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  /// Size when it was opened.
  std::uint64_t num_bytes() const { return num_bytes_; }
  /// Fills `out` from `offset` on. @throws DataError  the file ends before, or the disk fails.
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

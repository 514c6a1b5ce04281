// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tr {

/// A file that appears whole or not at all. Bytes go to a temporary file in the folder of `path`;
/// commit() syncs it, renames it to `path` and syncs the folder. Without commit() nothing is left
/// behind. A symbolic link stays: the file that it leads to is replaced. Every failure throws
/// DataError with the path and the system's reason, after removing the temporary.
class AtomicFile {
 public:
  /// @throws DataError  the folder is missing or cannot be written; `path` exists and is no regular
  /// file.
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void commit();

  const std::string& path() const { return path_; }
  const std::string& temporary_path() const { return temporary_; }

 private:
  [[noreturn]] void fail(const char* action, int error);
  void discard() noexcept;

  std::string path_;
  std::string target_;  // path_, or the file that this symbolic link leads to
  std::string temporary_;
  int descriptor_ = -1;
};

/// One write and commit.
void write_file_atomically(const std::string& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::string& path, std::string_view text);

/// Makes a folder and those above it; an existing one is fine. @throws DataError  with path and
/// reason.
void make_folder(const std::string& path);

}  // namespace tr

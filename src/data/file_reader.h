// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace tr::data {

/// Fills `bytes` with a whole file. @throws DataError
using ReadFile = std::function<void(const std::string& path, std::vector<std::byte>& bytes)>;

/// A larger file is no picture.
constexpr std::uint64_t kMaxPictureBytes = std::uint64_t{1} << 28;

/// The file as it lies on the disk, its buffer used again.
/// @throws DataError  it cannot be read, or has more than kMaxPictureBytes.
void read_whole_file(const std::string& path, std::vector<std::byte>& bytes);

struct FileReaderOptions {
  double timeout_s = 30;  // 0: none, and files are read by the thread that asks
  ReadFile read;          // null: read_whole_file(), after a look at what the kernel has cached
};

/// Reads files for several threads at once. What the kernel has cached of a local disk is read by
/// the thread that asks. A read() of the system cannot be broken off, so any other goes through a
/// thread of the reader's own: one that does not answer in time is left behind and another takes
/// its place. Those threads are kept and used again; a read that is done in time allocates nothing.
class FileReader {
 public:
  explicit FileReader(FileReaderOptions options);
  ~FileReader();  // joins all threads but those that are left behind
  FileReader(const FileReader&) = delete;
  FileReader& operator=(const FileReader&) = delete;

  /// @throws DataError  of the file; it took longer than the time-out; `stop` was requested; or
  ///         kMaxStuck threads are left behind already, and the disk is taken for dead.
  void read(const std::string& path, std::vector<std::byte>& bytes, const std::stop_token& stop);

  /// Threads that wait for an answer nobody waits for any more.
  int num_stuck() const;

  static constexpr int kMaxStuck = 16;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tr::data

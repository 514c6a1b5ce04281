// SPDX-License-Identifier: Apache-2.0
#include "core/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/printable.h"

namespace tr {
namespace {

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Unique in this process, and among processes by the process id.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}.{}-{}.tmp", path, ::getpid(), counter.fetch_add(1));
}

/// Where a symbolic link leads, so that its target is replaced and not the link.
std::string behind_links(const std::string& path) {
  namespace fs = std::filesystem;
  constexpr int kMostLinks = 40;  // as the kernel's limit
  fs::path place = path;
  std::error_code error;
  for (int i = 0; i < kMostLinks && fs::is_symlink(place, error); ++i) {
    const fs::path next = fs::read_symlink(place, error);
    if (error) break;
    place = next.is_absolute() ? next : place.parent_path() / next;
  }
  return place.string();
}

}  // namespace

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), target_(behind_links(path_)) {
  struct stat info {};
  if (::stat(path_.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    throw_as<DataError>("{}: cannot be written: it exists and is not a regular file",
                        printable(path_));
  }
  // In a container every run may have the same process id: what a killed one left is in the way.
  constexpr int kMostLeft = 1000;
  for (int left = 0; descriptor_ < 0 && left < kMostLeft; ++left) {
    temporary_ = temporary_name(target_);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST) break;
  }
  if (descriptor_ < 0) {
    const int error = errno;
    throw_as<DataError>("{}: cannot be written: {} (creating {})", printable(path_),
                        std::strerror(error), printable(temporary_));
  }
}

AtomicFile::~AtomicFile() { discard(); }

void AtomicFile::discard() noexcept {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
  descriptor_ = -1;
}

void AtomicFile::fail(const char* action, int error) {
  discard();
  throw_as<DataError>("{}: cannot be written: {} ({} {})", printable(path_), std::strerror(error),
                      action, printable(temporary_));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  TR_ASSERT(descriptor_ >= 0);  // not committed yet, no write has failed
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("writing", errno);
    bytes = bytes.subspan(std::size_t(written));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text.data(), text.size())));
}

void AtomicFile::commit() {
  TR_ASSERT(descriptor_ >= 0);
  if (::fsync(descriptor_) != 0) fail("syncing", errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("renaming", errno);
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0)
    throw_as<DataError>("{}: closing failed: {}", printable(path_), std::strerror(errno));
  // Without this the new name itself may be lost in a crash.
  const std::string folder = folder_of(target_);
  const int handle = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    throw_as<DataError>("{}: folder cannot be synced: {}", printable(folder), std::strerror(errno));
  const int error = ::fsync(handle) == 0 ? 0 : errno;
  ::close(handle);
  // Some network file systems cannot sync folders; the file itself is safe there.
  if (error != 0 && error != EINVAL) {
    throw_as<DataError>("{}: folder cannot be synced: {}", printable(folder), std::strerror(error));
  }
}

void write_file_atomically(const std::string& path, std::span<const std::byte> bytes) {
  AtomicFile file(path);
  file.write(bytes);
  file.commit();
}

void write_file_atomically(const std::string& path, std::string_view text) {
  write_file_atomically(path, std::as_bytes(std::span(text.data(), text.size())));
}

void make_folder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_as<DataError>("{}: folder cannot be made: {}", printable(path), error.message());
  if (!std::filesystem::is_directory(path, error)) {
    throw_as<DataError>("{}: cannot be a folder: something else has this name", printable(path));
  }
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "core/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/check.h"
#include "core/printable.h"

namespace tr {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Non-blocking, so that a pipe is refused below instead of waited for.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0)
    throw_as<UnreadableFile>("{}: cannot be opened: {}", printable(path_), std::strerror(errno));
  struct stat info {};
  std::string fault;
  if (::fstat(descriptor_, &info) != 0) {
    fault = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    fault = S_ISDIR(info.st_mode) ? "it is a folder" : "it is not a regular file";
  }
  if (!fault.empty()) {
    ::close(descriptor_);
    throw_as<UnreadableFile>("{}: cannot be read: {}", printable(path_), fault);
  }
  num_bytes_ = std::uint64_t(info.st_size);
}

InputFile::~InputFile() { ::close(descriptor_); }

void InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(descriptor_, out.data() + done, out.size() - done, off_t(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw_as<UnreadableFile>("{}: cannot be read: {}", printable(path_), std::strerror(errno));
    if (got == 0) {
      throw_as<DataError>("{}: ends after {} bytes, expected {} more", printable(path_),
                          offset + done, out.size() - done);
    }
    done += std::size_t(got);
  }
}

namespace {

template <typename Container>
Container read_whole(const std::string& path, std::uint64_t max_bytes) {
  const InputFile file(path);
  if (file.num_bytes() > max_bytes) {
    throw_as<DataError>("{}: has {} bytes, at most {} are accepted", printable(path),
                        file.num_bytes(), max_bytes);
  }
  Container content(std::size_t(file.num_bytes()), {});
  file.read(0, std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

}  // namespace

std::vector<std::byte> read_bytes(const std::string& path, std::uint64_t max_bytes) {
  return read_whole<std::vector<std::byte>>(path, max_bytes);
}

std::string read_text(const std::string& path, std::uint64_t max_bytes) {
  return read_whole<std::string>(path, max_bytes);
}

}  // namespace tr

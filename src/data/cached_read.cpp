// SPDX-License-Identifier: Apache-2.0
#include "data/cached_read.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>

#include "data/file_reader.h"

namespace tr::data {
namespace {

/// Of an open file; closes it.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

int open_cached(const std::string& path) {
  open_how how{};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_CACHED;
  return int(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how));
}

/// Bytes of a regular file as far as they are known here; 0: of none, or not known.
std::uint64_t cached_size(int fd) {
  struct statx info {};
  const int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (::statx(fd, "", flags, STATX_TYPE | STATX_SIZE, &info) != 0) return 0;
  return S_ISREG(info.stx_mode) ? info.stx_size : 0;
}

}  // namespace

bool read_cached_file(const std::string& path, std::vector<std::byte>& bytes) {
  const Descriptor file{open_cached(path)};
  if (file.fd < 0) return false;
  const std::uint64_t size = cached_size(file.fd);
  if (size == 0 || size > kMaxPictureBytes) return false;
  bytes.resize(std::size_t(size));
  for (std::size_t done = 0; done < bytes.size();) {
    const iovec part{bytes.data() + done, bytes.size() - done};
    const ssize_t got = ::preadv2(file.fd, &part, 1, off_t(done), RWF_NOWAIT);
    if (got <= 0) return false;
    done += std::size_t(got);
  }
  return true;
}

}  // namespace tr::data

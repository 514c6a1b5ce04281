// SPDX-License-Identifier: Apache-2.0
#include "core/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"

namespace tr {

FolderLock::FolderLock(const std::string& folder)
    : descriptor_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_ < 0)
    throw_as<DataError>("{}: the folder cannot be opened: {}", folder, std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw_as<DataError>("{}: another run is writing there; wait for its end or name another folder",
                      folder);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

}  // namespace tr

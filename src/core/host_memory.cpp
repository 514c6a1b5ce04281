// SPDX-License-Identifier: Apache-2.0
#include "core/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace tr {

std::int64_t host_memory_bytes() {
  std::int64_t bytes = std::int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  // Control groups, version 2 and 1, as a container sees its own; "max" is no number.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::int64_t limit = 0;
    if (std::ifstream(path) >> limit && limit > 0) bytes = std::min(bytes, limit);
  }
  return bytes;
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "core/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace tr {

namespace {

/// The number behind `name` in a file with a name and a number a line.
std::optional<std::int64_t> number_in(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string word;
  std::int64_t value = 0;
  while (file >> word) {
    if (word == name && file >> value) return value;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

/// Limits of a control group, version 2 and 1, as a container sees its own, and what of it is taken
/// for good: memory without a file behind it, and files that lie in memory alone.
struct ControlGroup {
  const char *limit, *usage, *anonymous, *shared;
};
constexpr ControlGroup kGroups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.stat", "anon", "shmem"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.stat",
     "total_rss", "total_shmem"}};

/// "max" is no number.
std::optional<std::int64_t> limit_of(const ControlGroup& group) {
  std::int64_t limit = 0;
  if (std::ifstream(group.limit) >> limit && limit > 0) return limit;
  return std::nullopt;
}

}  // namespace

std::int64_t host_memory_bytes() {
  std::int64_t bytes = std::int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
  for (const ControlGroup& group : kGroups)
    bytes = std::min(bytes, limit_of(group).value_or(bytes));
  return bytes;
}

std::int64_t free_host_memory_bytes() {
  const std::int64_t kib = number_in("/proc/meminfo", "MemAvailable:")
                               .value_or(sysconf(_SC_AVPHYS_PAGES) * sysconf(_SC_PAGE_SIZE) / 1024);
  std::int64_t bytes = kib * 1024;
  for (const ControlGroup& group : kGroups) {
    const auto limit = limit_of(group);
    const auto taken = number_in(group.usage, group.anonymous);
    if (!limit || !taken) continue;
    const std::int64_t all = *taken + number_in(group.usage, group.shared).value_or(0);
    bytes = std::min(bytes, std::max<std::int64_t>(0, *limit - all));
  }
  return std::min(bytes, host_memory_bytes());
}

}  // namespace tr

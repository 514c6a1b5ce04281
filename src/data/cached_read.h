// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tr::data {

/// Files that can be had without waiting for anything: on a local file system, their path in the
/// kernel's name cache and all their bytes in the page cache. Others may not answer for ever.
/// Source: openat2(2), RESOLVE_CACHED; preadv2(2), RWF_NOWAIT; proc_pid_mountinfo(5).
class CachedFiles {
 public:
  /// File systems that are mounted later are not known.
  CachedFiles();

  /// Fills `bytes` with the whole file. False: it would have to be waited for, this kernel cannot
  /// tell, or it is odd; `bytes` mean nothing then, and read_whole_file() says more.
  bool read(const std::string& path, std::vector<std::byte>& bytes) const;

 private:
  std::set<std::pair<std::uint32_t, std::uint32_t>> local_devices_;  // major, minor
};

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace tr::data {

/// Fills `bytes` with a whole regular file if its file system need not answer for that: the path is
/// in the kernel's name cache and all bytes are in the page cache. False: they are not, this kernel
/// cannot tell, or the file is odd; `bytes` mean nothing then, and read_whole_file() says more.
/// Source: openat2(2), RESOLVE_CACHED; preadv2(2), RWF_NOWAIT.
bool read_cached_file(const std::string& path, std::vector<std::byte>& bytes);

}  // namespace tr::data

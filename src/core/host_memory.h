// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr {

/// Memory that this process may use: the machine's, or less if its control group says so.
std::int64_t host_memory_bytes();

/// What of it can still be taken: caches of files count as free.
std::int64_t free_host_memory_bytes();

}  // namespace tr

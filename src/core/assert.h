// SPDX-License-Identifier: Apache-2.0
#pragma once

// Apart from check.h, since CUDA's compiler cannot read the formatting library.

#include <source_location>

/// Our fault: throws InternalError naming the expression and its place. On in release builds.
#define TR_ASSERT(cond)                      \
  do {                                       \
    if (!(cond)) [[unlikely]]                \
      ::tr::detail::assertion_failed(#cond); \
  } while (0)

/// TR_ASSERT for debug builds only, where the test costs time.
#ifdef NDEBUG
#define TR_DCHECK(cond) ((void)0)
#else
#define TR_DCHECK(cond) TR_ASSERT(cond)
#endif

namespace tr::detail {
[[noreturn]] void assertion_failed(const char* expression,
                                   std::source_location where = std::source_location::current());
}  // namespace tr::detail

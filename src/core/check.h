// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <source_location>
#include <string>
#include <utility>

#include "renaissance/core/error.h"

/// The caller's fault: throws InvalidArgument with a formatted message.
#define TR_CHECK(cond, ...)                                                          \
  do {                                                                               \
    if (!(cond)) [[unlikely]] throw ::tr::InvalidArgument(::fmt::format(__VA_ARGS__)); \
  } while (0)

/// Our fault: throws InternalError naming the expression and its place. On in release builds.
#define TR_ASSERT(cond)                                                \
  do {                                                                 \
    if (!(cond)) [[unlikely]] ::tr::detail::assertion_failed(#cond);   \
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

namespace tr {

/// throw_as<DataError>("{}: ...", path): the way to throw a leaf other than InvalidArgument.
template <typename E, typename... Args>
[[noreturn]] void throw_as(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "core/assert.h"
#include "renaissance/core/error.h"

/// The caller's fault: throws InvalidArgument with a formatted message.
#define TR_CHECK(cond, ...)                                                          \
  do {                                                                               \
    if (!(cond)) [[unlikely]] throw ::tr::InvalidArgument(::fmt::format(__VA_ARGS__)); \
  } while (0)

namespace tr {

/// throw_as<DataError>("{}: ...", path): the way to throw a leaf other than InvalidArgument.
template <typename E, typename... Args>
[[noreturn]] void throw_as(fmt::format_string<Args...> format, Args&&... args) {
  throw E(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include "renaissance/core/log.h"

namespace tr {

template <typename... Args>
void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  log_message(level, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::INFO, format, std::forward<Args>(args)...);
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log(LogLevel::WARNING, format, std::forward<Args>(args)...);
}

}  // namespace tr

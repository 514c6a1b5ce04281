// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "renaissance/core/export.h"

namespace tr {

enum class LogLevel { DEBUG, INFO, WARNING };

/// Receives every message of the library, from any thread, one call at a time.
using LogSink = std::function<void(LogLevel, std::string_view)>;

/// Replaces the sink (default: INFO and WARNING to standard error, one line each); returns the former one.
/// An empty sink restores the default.
TR_API LogSink set_log_sink(LogSink sink);

/// Hands a message to the sink.
TR_API void log_message(LogLevel level, std::string_view message);

}  // namespace tr

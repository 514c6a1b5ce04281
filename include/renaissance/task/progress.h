// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>

#include "renaissance/core/export.h"

namespace tr {

/// What a run shows while it goes on.
struct ProgressEvent {
  enum class Kind {
    TICK,  // several times a second, from a timer thread: the line under way
    EPOCH  // once per epoch: a row of the epoch table (the first one is preceded by the table's
           // head)
  };
  Kind kind = Kind::TICK;
  std::string text;
};

/// Receives the progress of every task, one call at a time.
using ProgressSink = std::function<void(const ProgressEvent&)>;

/// Replaces the sink, which may be one that is called just now; returns the former one. The default
/// writes to standard error: on a terminal ticks overwrite each other, in a file one tick in ten
/// seconds gets a line. An empty sink silences progress.
TR_API ProgressSink set_progress_sink(ProgressSink sink);

}  // namespace tr

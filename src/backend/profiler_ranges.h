// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tr {

/// How a profiler is told what the host does: nested ranges with names, of the calling thread.
struct ProfilerRanges {
  void (*begin)(const char* name) = nullptr;
  void (*end)() = nullptr;
};

/// Those of the backend that has some; both null without one. They cost next to nothing while no
/// profiler is attached.
ProfilerRanges profiler_ranges();

/// Registers at start-up: `const ProfilerRangesRegistration kNvtx({begin, end});`
struct ProfilerRangesRegistration {
  explicit ProfilerRangesRegistration(ProfilerRanges ranges);
};

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "backend/profiler_ranges.h"

namespace tr {
namespace {

ProfilerRanges& registered() {
  static ProfilerRanges ranges;
  return ranges;
}

}  // namespace

ProfilerRanges profiler_ranges() { return registered(); }

ProfilerRangesRegistration::ProfilerRangesRegistration(ProfilerRanges ranges) {
  registered() = ranges;
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backend/profiler_ranges.h"
#include "backend/step_timing.h"
#include "graph/compiler.h"

namespace tr {

/// What the host does and when, for a profiler that is attached and for a trace file.
class Spans {
 public:
  Spans() : ranges_(profiler_ranges()) {}

  /// A range from here to the end of its scope. Ranges of one Spans are nested.
  class Scope {
   public:
    /// `spans`: null to measure nothing. `name` must outlive the scope; nothing is allocated
    /// unless the range is kept.
    Scope(Spans* spans, const char* name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Spans* spans_;
    const char* name_;
    std::int64_t begin_ns_ = 0;
  };

  /// From here on ranges are kept for the trace.
  void keep() { kept_ = true; }

  struct HostSpan {
    std::string name;
    std::int64_t begin_ns = 0, end_ns = 0;
  };
  /// At most kMost; the later ones are counted only.
  const std::vector<HostSpan>& host_spans() const { return host_; }
  std::int64_t num_dropped() const { return dropped_; }
  static constexpr std::size_t kMost = 100'000;

 private:
  void end(const char* name, std::int64_t begin_ns);

  ProfilerRanges ranges_;
  bool kept_ = false;
  std::vector<HostSpan> host_;
  std::int64_t dropped_ = 0;
};

/// The file of chrome://tracing and Perfetto (the JSON object form of the trace event format): a
/// process for the host with the ranges, one for the device with the nodes of the timed steps, a
/// thread for each stream; times in microseconds since the first of them.
std::string chrome_trace(const Spans& spans, std::span<const StepTiming> timings,
                         const CompileResult& compiled, const std::string& device);

}  // namespace tr

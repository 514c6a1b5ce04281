// SPDX-License-Identifier: Apache-2.0
// Ranges of the host's work for NVIDIA's profilers. NVTX is headers alone: it loads a library only
// where a profiler names one in the environment.
#include <nvtx3/nvToolsExt.h>

#include "backend/profiler_ranges.h"

namespace tr::cuda {
namespace {

void begin(const char* name) { nvtxRangePushA(name); }
void end() { nvtxRangePop(); }

const ProfilerRangesRegistration kNvtx({begin, end});

}  // namespace
}  // namespace tr::cuda

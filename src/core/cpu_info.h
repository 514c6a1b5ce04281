// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tr {

/// What is known of the processor.
struct CpuInfo {
  std::string model_name;          // "Intel(R) Xeon(R) ..."
  int num_processors = 1;          // logical ones that this process may use
  std::vector<std::string> flags;  // of those that matter here: "avx2", "avx512_bf16", ...

  bool has(const std::string& flag) const;
};

/// Read once, from cpuid and the system.
const CpuInfo& cpu_info();

/// True if this process may multiply bf16 in AMX tiles: the processor has them and the system grants
/// their registers, which is asked once, at the first call.
bool may_use_amx_bf16();

/// @throws Unsupported  the processor lacks an instruction set that the library is compiled for.
void require_supported_cpu();

/// The same for a processor with these flags (for tests).
void require_supported_cpu(const CpuInfo& cpu);

/// TR_NUM_THREADS, else the processors that this process may use: its affinity, cut to the quota of
/// its control group. @throws InvalidArgument  TR_NUM_THREADS is no number from 1 to 1024.
int default_num_threads();

}  // namespace tr

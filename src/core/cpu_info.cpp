// SPDX-License-Identifier: Apache-2.0
#include "core/cpu_info.h"

#include <cpuid.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/env.h"

namespace tr {
namespace {

// Instruction sets that x86-64-v3 kernels use; the rest of v3 comes with them on every processor
// sold.
constexpr std::array kRequired{"avx2", "fma", "f16c"};

std::string brand_string() {
  std::array<unsigned, 12> words{};
  unsigned highest = __get_cpuid_max(0x80000000u, nullptr);
  if (highest < 0x80000004u) return "unknown x86-64 processor";
  for (unsigned i = 0; i < 3; ++i) {
    unsigned* w = words.data() + 4 * i;
    __get_cpuid(0x80000002u + i, w, w + 1, w + 2, w + 3);
  }
  std::string name(reinterpret_cast<const char*>(words.data()), sizeof(words));
  name.resize(std::strlen(name.c_str()));
  name.erase(0, name.find_first_not_of(' '));
  name.erase(name.find_last_not_of(' ') + 1);
  return name;
}

// __builtin_cpu_supports asks the system too: without saved registers an instruction set is absent.
// It knows neither F16C (clang) nor AMX (g++ 12); their bits come from cpuid, F16C's registers are
// AVX's.
std::vector<std::string> present_flags() {
  __builtin_cpu_init();
  unsigned a = 0, b = 0, c = 0, d = 0;
  const bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c >> 29 & 1u) != 0;
  const bool amx_bf16 = __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1u) != 0;
  const bool avx = __builtin_cpu_supports("avx") != 0;
  const std::array<std::pair<const char*, bool>, 10> all{{
      {"avx", avx},
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"f16c", avx && f16c},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
      {"avx512_vnni", __builtin_cpu_supports("avx512vnni") != 0},
      {"avx512_bf16", __builtin_cpu_supports("avx512bf16") != 0},
      {"amx_bf16", amx_bf16},
  }};
  std::vector<std::string> flags;
  for (const auto& [name, present] : all) {
    if (present) flags.emplace_back(name);
  }
  return flags;
}

// The registers of tiles are 8 KiB a thread; Linux saves them only for processes that asked
// (Documentation/arch/x86/xstate.rst). Threads inherit the permission.
bool request_amx_bf16() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  const bool has_bf16 = (d >> 22 & 1u) != 0, has_tiles = (d >> 24 & 1u) != 0;
  return has_bf16 && has_tiles && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

int processors_of_affinity() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, int(std::thread::hardware_concurrency()));
}

// "max 100000" or "150000 100000" (quota and period in us); a container's limit on processors.
int processors_of_quota(int otherwise) {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota_us = 0, period_us = 0;
  if (!(file >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return otherwise;
  return std::max(1, int(std::ceil(quota_us / period_us)));
}

CpuInfo read_cpu_info() {
  const int usable = processors_of_affinity();
  return {brand_string(), std::min(usable, processors_of_quota(usable)), present_flags()};
}

}  // namespace

bool CpuInfo::has(const std::string& flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_cpu_info();
  return info;
}

bool may_use_amx_bf16() {
  static const bool granted = request_amx_bf16();
  return granted;
}

void require_supported_cpu() { require_supported_cpu(cpu_info()); }

void require_supported_cpu(const CpuInfo& cpu) {
  std::vector<std::string> missing;
  for (const char* flag : kRequired) {
    if (!cpu.has(flag)) missing.emplace_back(flag);
  }
  if (missing.empty()) return;
  throw_as<Unsupported>(
      "processor \"{}\" lacks {}; this build needs AVX2, FMA and F16C (x86-64-v3: Intel Haswell, "
      "AMD Zen, or newer)",
      cpu.model_name, fmt::join(missing, ", "));
}

int default_num_threads() {
  if (const auto count = read_env_int("TR_NUM_THREADS", 1, 1024)) return int(*count);
  return cpu_info().num_processors;
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>

namespace tr {

enum class DeviceKind : std::uint8_t { CPU, CUDA };

/// "cpu", "cuda".
constexpr std::string_view name_of(DeviceKind kind) {
  return kind == DeviceKind::CPU ? "cpu" : "cuda";
}

/// States of a task; calls are legal in one of them only.
enum class Phase : std::uint8_t { PLANNING, MEMORY_LOCKED, COMPILED };

/// Preset mean and standard deviation of FusedNormalization, in units of x / 255.
enum class NormMode : std::uint8_t { NO_NORM, MLPERF, IMAGENET, MNIST, CIFAR };

enum class InitKind : std::uint8_t {
  NONE,
  ZEROS,
  CONSTANTS,
  KAIMING_NORMAL,
  KAIMING_UNIFORM,
  XAVIER_NORMAL,
  XAVIER_UNIFORM,
  TRUNC_NORMAL,
  FIXED_NORMAL,
  STANDARD,
  ZERO_GAMMA
};

enum class FanMode : std::uint8_t { FAN_IN, FAN_OUT, FAN_AVG };

/// Bit mask: what compile() logs.
enum class CompileInfo : std::uint8_t {
  NONE = 0,
  ARCH_PLAN = 1,
  MEMORY_PLAN = 2,
  TRAIN_GRAPH = 4,
  INFER_GRAPH = 8,
  ALL = 15
};
constexpr CompileInfo operator|(CompileInfo a, CompileInfo b) {
  return CompileInfo(std::uint8_t(a) | std::uint8_t(b));
}
constexpr bool has(CompileInfo mask, CompileInfo bit) {
  return (std::uint8_t(mask) & std::uint8_t(bit)) != 0;
}

/// Bit mask: which columns the epoch table shows.
enum class Metric : std::uint32_t {
  TRAIN_LOSS = 1,
  VAL_LOSS = 2,
  VAL_TOP1 = 4,
  VAL_TOP5 = 8,
  EMA_TOP1 = 16,
  EMA_TOP5 = 32,
  TRAIN_TOP1 = 64,
  TRAIN_TOP5 = 128
};
constexpr Metric operator|(Metric a, Metric b) {
  return Metric(std::uint32_t(a) | std::uint32_t(b));
}
constexpr bool has(Metric mask, Metric bit) {
  return (std::uint32_t(mask) & std::uint32_t(bit)) != 0;
}

/// Streams of a device. On the CPU they only order the plan.
enum class StreamKind : std::uint8_t { TRANS, COMP_1, COMP_2, COMP_3, UPDATE };

/// Where in a user's program something was written: "mlp.cpp:41".
struct Where {
  std::string file;
  unsigned line = 0;

  Where() = default;
  // Implicit, so that builders can pass their default on.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Where(const std::source_location& at);
  std::string str() const;
  bool empty() const { return line == 0; }
};

/// A closed interval, written {low, high} in calls.
struct Range {
  float low = 0;
  float high = 0;
};

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tr::data {

/// What a sample goes through on its way to a slot.
enum class Stage : std::uint8_t { READ, DECODE, TRANSFORM, NORMALISE, MIX };
constexpr std::size_t kNumStages = 5;

constexpr std::string_view stage_name(Stage stage) {
  constexpr std::string_view kNames[] = {"read", "decode", "transform", "normalise", "mix"};
  return kNames[std::size_t(stage)];
}

/// Nanoseconds by stage.
struct StageTimes {
  std::array<std::int64_t, kNumStages> ns{};

  std::int64_t& operator[](Stage stage) { return ns[std::size_t(stage)]; }
};

}  // namespace tr::data

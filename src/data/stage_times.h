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

/// How a picture file was decoded.
enum class DecodePath : std::uint8_t {
  PNG,
  LIBJPEG,  // JPEG whose codes are left to libjpeg: progressive, arithmetic, separate scans, odd
  SMALLER,  // JPEG by DCT scaling
  ROWS,     // JPEG, its rows gone to by marks of earlier decodes
  CODES     // JPEG, its codes read from the first one on
};
constexpr std::size_t kNumDecodePaths = 5;

constexpr std::string_view decode_path_name(DecodePath path) {
  constexpr std::string_view kNames[] = {"PNG", "libjpeg", "smaller", "rows gone to",
                                         "codes from the first on"};
  return kNames[std::size_t(path)];
}
using DecodeCounts = std::array<std::int64_t, kNumDecodePaths>;  // pictures by DecodePath

/// Nanoseconds by stage, and what was decoded in them.
struct StageTimes {
  std::array<std::int64_t, kNumStages> ns{};
  DecodeCounts decoded{};

  std::int64_t& operator[](Stage stage) { return ns[std::size_t(stage)]; }
};

}  // namespace tr::data

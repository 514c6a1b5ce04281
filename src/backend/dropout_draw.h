// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/host_device.h"
#include "core/philox.h"

namespace tr {

/// Draws of one sample of one dropout layer in one step: word e % 4 of block e / 4 belongs to the
/// sample's element e. The same for every device, batch cut and rank.
TR_HOST_DEVICE inline DrawAddress dropout_address(std::uint64_t seed, std::uint64_t step,
                                                  std::uint64_t draw_id, std::uint64_t sample) {
  DrawAddress address;
  address.seed = seed;
  address.purpose = DrawPurpose::DROPOUT;
  address.a = draw_id ^ (step * 0x9E3779B97F4A7C15u);
  address.b = sample;
  return address;
}

/// A word keeps its element if its upper 24 bits reach this: uniform01(word) >= p.
TR_HOST_DEVICE inline std::uint32_t dropout_threshold(double p) {
  const double scaled = p * 16777216.0;
  const auto whole = std::uint32_t(scaled);
  return double(whole) < scaled ? whole + 1 : whole;
}

/// Elements of a sample that have draws of their own: element e has that of e % count. All of
/// them, one a channel of the last axis, or one.
inline std::int64_t dropout_draws(const std::string& per, std::int64_t elements,
                                  std::int64_t channels) {
  return per == "channel" ? channels : per == "sample" ? 1 : elements;
}

}  // namespace tr

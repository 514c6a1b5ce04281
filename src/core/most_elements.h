// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr {

/// Elements that a Shape may have: as many as a process can address bytes. More fit into no memory,
/// and what a model's tensors take together stays countable.
constexpr std::int64_t kMostElements = std::int64_t{1} << 47;

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks that the losses share, fused or not.

#include <cstdint>
#include <limits>
#include <string_view>

#include "ops/rules.h"

namespace tr::ops {

/// The attribute ignore_index where every label counts.
constexpr std::int64_t kNoIgnoredLabel = std::numeric_limits<std::int64_t>::min();

/// Scores [N, C] of any floating dtype.
void check_scores(std::string_view name, const TensorType& type);
/// Class numbers [N], int32 or int64, one for each row of `scores`.
void check_class_numbers(const TensorType& labels, const TensorType& scores);
/// Class numbers, or class probabilities fp32 [N, C].
void check_labels(const TensorType& labels, const TensorType& scores);
/// 0 <= label_smoothing <= 1
void check_smoothing(const Attrs& attrs);

}  // namespace tr::ops

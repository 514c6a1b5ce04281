// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr::cpu {

/// dst[k * width + i] = src[i * ld + k] for i < count and k < num_k; zero for count <= i < width.
void pack_transposed(const float* src, std::int64_t ld, std::int64_t count, std::int64_t num_k,
                     std::int64_t width, float* dst);

/// dst[k * width + i] = src[k * ld + i] for i < count and k < num_k; zero for count <= i < width.
void pack_rows(const float* src, std::int64_t ld, std::int64_t count, std::int64_t num_k,
               std::int64_t width, float* dst);

// The same for bf16, whose words are pairs of neighbouring k: word k of row or column i holds the
// terms 2 k (low half) and 2 k + 1 (zero beyond num_k). `ld` and `num_k` count elements.

void pack_transposed_pairs(const std::uint16_t* src, std::int64_t ld, std::int64_t count,
                           std::int64_t num_k, std::int64_t width, float* dst);
void pack_rows_pairs(const std::uint16_t* src, std::int64_t ld, std::int64_t count,
                     std::int64_t num_k, std::int64_t width, float* dst);

}  // namespace tr::cpu

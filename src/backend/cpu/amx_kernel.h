// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/cpu/micro_kernel.h"

namespace tr::cpu {

/// Rows of a block: two tiles of 16. Its columns are those of a panel, two tiles too.
constexpr int kAmxRows = 32;
/// Words (pairs of bf16) that one tile product sums over.
constexpr int kAmxWords = 16;

/// Products of 32 x 32 elements of C by AMX tiles; words are pairs of bf16. Needs
/// may_use_amx_bf16(). A step of 16 words is summed in two chains, of even and of odd terms, that
/// are added to the sum before: bytes differ from those of bf16_micro_kernels().
const MicroKernels& amx_micro_kernels();

/// The same loops over tiles that are arrays: what tests run where the processor has no AMX.
const MicroKernels& emulated_amx_micro_kernels();

/// Packs a block of A for tiles: dst[(s * kAmxRows + r) * kAmxWords + w] is the pair of terms
/// 2 (16 s + w) and the next of row r < count; zero beyond. `by_k`: src[k * ld + r], else
/// src[r * ld + k].
void pack_amx_block(const std::uint16_t* src, std::int64_t ld, bool by_k, std::int64_t count,
                    std::int64_t num_k, float* dst);

}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backend/cpu/tiled_matmul.h"

namespace tr::cpu {

/// True if the processor has what the packed product of such operands uses: AVX-512 F for fp32,
/// AVX-512 BF16 for bf16.
bool has_packed_matmul(DType dtype);

/// Product by our own micro-kernels: A is packed once for all tiles, B by the tile that uses it.
/// Each element of C is one chain of sums in the order of k, so its bytes do not depend on the
/// tiles, the other rows, or the number of threads. Nothing is allocated in a run; oneDNN 2.6 does
/// in every call.
std::unique_ptr<TiledMatmul> make_packed_matmul(const MatmulShape& shape);

}  // namespace tr::cpu

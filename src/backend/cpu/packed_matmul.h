// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backend/cpu/tiled_matmul.h"

namespace tr::cpu {

/// True if the processor has what the packed product's micro-kernels use.
bool has_packed_matmul();

/// fp32 product by our own micro-kernels: A is packed once for all tiles, B by the tile that uses
/// it. Each element of C is one chain of fused multiply-adds in the order of k, so its bytes do not
/// depend on the tiles, the other rows, or the number of threads; nothing is allocated in a run,
/// which oneDNN 2.6 does.
std::unique_ptr<TiledMatmul> make_packed_matmul(const MatmulShape& shape);

}  // namespace tr::cpu

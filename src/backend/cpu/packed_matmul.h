// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "backend/cpu/tiled_matmul.h"

namespace tr::cpu {

/// True if the processor has what the packed product of such operands uses: AVX-512 F for fp32,
/// AVX-512 BF16 for bf16.
bool has_packed_matmul(DType dtype);

/// Product by our own micro-kernels. One operand is packed once for all tiles, the other by the
/// tile that uses it (MatmulShape::cut_rows: A, else B). Each element of C is one chain of sums in
/// the order of k, so its bytes do not depend on the tiles, the other rows, or the number of
/// threads. Nothing is allocated in a run; oneDNN 2.6 does in every call.
std::unique_ptr<TiledMatmul> make_packed_matmul(const MatmulShape& shape);

/// The same by AMX tiles, for bf16; needs may_use_amx_bf16(). An element is a chain of steps of 32
/// terms (amx_kernel.h): its bytes are those of this engine alone.
std::unique_ptr<TiledMatmul> make_amx_matmul(const MatmulShape& shape);
/// The same with arrays in place of tiles, for tests on other processors.
std::unique_ptr<TiledMatmul> make_emulated_amx_matmul(const MatmulShape& shape);

}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

#include "renaissance/core/dtype.h"

namespace tr::cuda {

/// How a box lies in shared memory: row behind row, or with the 16-byte chunks of its rows, which
/// are 32, 64 or 128 bytes long, exchanged over their whole length.
enum class Swizzle { NONE, ROWS };

/// A row-major matrix of FP16, BF16 or FP32 that the tensor copy engine reads in boxes.
struct BoxedMatrix {
  const void* data = nullptr;
  DType dtype = DType::FP16;
  std::int64_t rows = 0;
  std::int64_t columns = 0;  // a multiple of 16 bytes
  int box_rows = 0;          // at most 256
  int box_columns = 0;       // likewise
  Swizzle swizzle = Swizzle::ROWS;
};

/// The engine's description of it, a kernel's parameter.
/// @throws DeviceError  the driver is too old or refuses the matrix.
CUtensorMap make_tensor_map(const BoxedMatrix& matrix);

}  // namespace tr::cuda

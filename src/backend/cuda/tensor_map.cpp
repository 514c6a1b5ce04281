// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include "backend/cuda/check.h"
#include "core/check.h"

namespace tr::cuda {
namespace {

PFN_cuTensorMapEncodeTiled_v12000 find_encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found{};
  TR_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000,
                                           cudaEnableDefault, &found));
  if (found != cudaDriverEntryPointSuccess || function == nullptr) {
    throw_as<DeviceError>("the driver lacks cuTensorMapEncodeTiled, which came with CUDA 12.0");
  }
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

CUtensorMapDataType type_of(DType dtype) {
  if (dtype == DType::FP32) return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  return dtype == DType::BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
}

CUtensorMapSwizzle swizzle_of(const BoxedMatrix& matrix) {
  if (matrix.swizzle == Swizzle::NONE) return CU_TENSOR_MAP_SWIZZLE_NONE;
  const int row_bytes = matrix.box_columns * int(size_of(matrix.dtype));
  if (row_bytes == 128) return CU_TENSOR_MAP_SWIZZLE_128B;
  if (row_bytes == 64) return CU_TENSOR_MAP_SWIZZLE_64B;
  TR_ASSERT(row_bytes == 32);
  return CU_TENSOR_MAP_SWIZZLE_32B;
}

}  // namespace

CUtensorMap make_tensor_map(const BoxedMatrix& matrix) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = find_encoder();
  const cuuint64_t sizes[2] = {cuuint64_t(matrix.columns), cuuint64_t(matrix.rows)};
  const cuuint64_t pitches[1] = {cuuint64_t(matrix.columns) * size_of(matrix.dtype)};
  const cuuint32_t box[2] = {cuuint32_t(matrix.box_columns), cuuint32_t(matrix.box_rows)};
  const cuuint32_t steps[2] = {1, 1};
  CUtensorMap map{};
  const CUresult status =
      encode(&map, type_of(matrix.dtype), 2, const_cast<void*>(matrix.data), sizes, pitches, box,
             steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_of(matrix),
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (status != CUDA_SUCCESS) {
    throw_as<DeviceError>("cuTensorMapEncodeTiled of {} x {} elements at {} gives error {}",
                          matrix.rows, matrix.columns, matrix.data, int(status));
  }
  return map;
}

}  // namespace tr::cuda

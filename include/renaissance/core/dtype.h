// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "renaissance/core/export.h"

namespace tr {

/// Element type of a tensor. Integers and BOOL have no gradient.
enum class DType : std::uint8_t { FP32, FP16, BF16, UINT8, INT8, INT32, INT64, BOOL };

/// Bytes of one element.
constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::FP32:
    case DType::INT32: return 4;
    case DType::FP16:
    case DType::BF16: return 2;
    case DType::INT64: return 8;
    case DType::UINT8:
    case DType::INT8:
    case DType::BOOL: return 1;
  }
  return 0;
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::FP32 || dtype == DType::FP16 || dtype == DType::BF16;
}

/// "fp32", "fp16", "bf16", "uint8", "int8", "int32", "int64", "bool".
TR_API std::string_view name_of(DType dtype);

/// The inverse of name_of. @throws InvalidArgument  an unknown name.
TR_API DType dtype_from_name(std::string_view name);

}  // namespace tr

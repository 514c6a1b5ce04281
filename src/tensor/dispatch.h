// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/check.h"
#include "core/half.h"
#include "renaissance/core/dtype.h"

namespace tr {

/// Calls f with a value of the C++ type that stores `dtype`: float, Half, BFloat16, std::uint8_t,
/// std::int8_t, std::int32_t, std::int64_t, bool. `dispatch_dtype(d, [&](auto tag) { using T =
/// decltype(tag); })`
template <typename F>
decltype(auto) dispatch_dtype(DType dtype, F&& f) {
  switch (dtype) {
    case DType::FP32: return f(float{});
    case DType::FP16: return f(Half{});
    case DType::BF16: return f(BFloat16{});
    case DType::UINT8: return f(std::uint8_t{});
    case DType::INT8: return f(std::int8_t{});
    case DType::INT32: return f(std::int32_t{});
    case DType::INT64: return f(std::int64_t{});
    case DType::BOOL: return f(bool{});
  }
  throw_as<InternalError>("dtype: value {} names no element type", int(dtype));
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "backend/kernel.h"
#include "core/check.h"
#include "core/format.h"
#include "core/half.h"

namespace tr::cpu {

template <typename T>
struct TypeTag {
  using type = T;
};

/// Calls f(TypeTag<T>) with the storage type of a floating dtype.
template <typename F>
void dispatch_float(DType dtype, F&& f) {
  switch (dtype) {
    case DType::FP32:
      return f(TypeTag<float>{});
    case DType::FP16:
      return f(TypeTag<Half>{});
    case DType::BF16:
      return f(TypeTag<BFloat16>{});
    default:
      TR_ASSERT(!"a floating dtype");
  }
}

/// Calls f(TypeTag<T>) with the type of class numbers.
template <typename F>
void dispatch_index(DType dtype, F&& f) {
  switch (dtype) {
    case DType::INT32:
      return f(TypeTag<std::int32_t>{});
    case DType::INT64:
      return f(TypeTag<std::int64_t>{});
    default:
      TR_ASSERT(!"an index dtype");
  }
}

/// Reason why a kernel of floating inputs cannot run: the first input and output that are not
/// floating.
inline std::string refuse_unless_floating(const KernelQuery& query) {
  for (std::size_t i = 0; i < query.in.size(); ++i) {
    if (!is_floating(query.in[i].dtype)) {
      return fmt::format("input {} is {}, expected a floating dtype", i, query.in[i].dtype);
    }
  }
  for (std::size_t i = 0; i < query.out.size(); ++i) {
    if (!is_floating(query.out[i].dtype)) {
      return fmt::format("output {} is {}, expected a floating dtype", i, query.out[i].dtype);
    }
  }
  return "";
}

/// A kernel of op `op` on the CPU, named "cpu.OP".
inline KernelDef simple_kernel(std::string op, void (*launch)(const KernelArgs&),
                               std::function<std::string(const KernelQuery&)> refuse = {}) {
  KernelDef def;
  def.name = "cpu." + op;
  def.op = std::move(op);
  def.launch = launch;
  def.refuse = std::move(refuse);
  return def;
}

}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "graph/step_tables.h"
#include "renaissance/core/shape.h"

namespace tr::cuda {

/// A step table or results: [capacity, columns] in device memory.
template <typename T>
struct StepTable {
  T* data = nullptr;
  std::int64_t capacity = 1;
  std::int64_t columns = 0;

  StepTable(T* data, const Shape& shape) : data(data), capacity(shape[0]), columns(shape[1]) {}
  /// The row that the running micro-step uses.
  __device__ T* row(const std::int64_t* counters) const {
    return data + counters[kCounterRow] % capacity * columns;
  }
};

}  // namespace tr::cuda

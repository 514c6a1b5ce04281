// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls of optimizers' kernels over whole ranges, with odd segment tables.

#include <cmath>

#include "graph/memory_plan.h"
#include "graph/step_tables.h"
#include "kernel_harness.h"

namespace tr::test {

inline Tensor random(std::int64_t count, std::uint64_t seed) {
  return Tensor::uniform({count}, -2, 2, seed);
}
inline Tensor flag(int value) { return Tensor::full({}, value, DType::INT32); }

/// Segments of odd lengths, every third frozen, in two parameter groups.
struct Table {
  std::int64_t count = 0;
  std::vector<Segment> rows;
  Tensor floats = Tensor::zeros({4, step_floats_columns(2)});

  /// Each begins at the next multiple of `alignment`, with `gap` elements before it.
  Table(const std::vector<std::int64_t>& lengths, std::int64_t alignment, std::int64_t gap) {
    for (const std::int64_t length : lengths) {
      const int i = int(rows.size());
      const std::int64_t begin = (count + gap + alignment - 1) / alignment * alignment;
      Segment row{begin, length, i, i % 2, i % 5 == 0 ? 0.5f : 1.0f, i % 4 == 0 ? 0.0f : 1.0f};
      row.frozen = i % 3 == 1 ? 1 : 0;
      rows.push_back(row);
      count = begin + length;
    }
    count += gap;
    for (int row = 0; row < 4; ++row) {
      float* f = floats.data<float>() + row * step_floats_columns(2) + kFloatHeader;
      f[kGroupLr] = 0.01f * float(row + 1);
      f[kGroupDecay] = 0.1f;
      f[kGroupColumns + kGroupLr] = 0.3f;
      f[kGroupColumns + kGroupDecay] = 0.02f;
    }
  }
  Tensor segments() const {
    Tensor tensor = Tensor::zeros({std::int64_t(rows.size() * sizeof(Segment))}, DType::UINT8);
    std::copy(rows.begin(), rows.end(), static_cast<Segment*>(tensor.raw()));
    return tensor;
  }
  bool moves(std::int64_t i) const {
    for (const Segment& s : rows) {
      if (i >= s.begin && i < s.begin + s.count) return s.frozen == 0;
    }
    return false;
  }
};

inline KernelCall optimizer_call(const std::string& op, const Attrs& attrs, const Table& table,
                                 int found_inf) {
  Tensor counters = Tensor::zeros({kNumCounters}, DType::INT64);
  counters.data<std::int64_t>()[kCounterRow] = 6;
  counters.data<std::int64_t>()[kCounterUpdates] = 41;
  return {op,
          attrs,
          {random(table.count, 1), random(table.count, 2), table.segments(), table.floats, counters,
           Tensor::full({}, 8), flag(found_inf), Tensor::full({}, 6400)}};
}

/// `moments` of `places` moments, none of them negative.
inline KernelCall with_moments(KernelCall call, const Table& table, int moments, int places,
                               DType cast) {
  for (int m = 0; m < places; ++m) {
    call.inputs.push_back(m < moments ? Tensor::uniform({table.count}, 0, 1, std::uint64_t(3 + m))
                                      : Tensor());
  }
  if (cast != DType::FP32) call.inputs.push_back(random(table.count, 7).to(cast));
  while (call.inputs.back().empty()) call.inputs.pop_back();
  return call;
}

/// |a - b| / |c - b| over the elements of segment `s`.
inline double relative_distance(const Segment& s, const Tensor& a, const Tensor& b,
                                const Tensor& before) {
  double apart = 0, moved = 0;
  for (std::int64_t i = s.begin; i < s.begin + s.count; ++i) {
    apart += (a.at(i) - b.at(i)) * (a.at(i) - b.at(i));
    moved += (b.at(i) - before.at(i)) * (b.at(i) - before.at(i));
  }
  return std::sqrt(apart / moved);
}

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reductions of a tensor to a shape that has 1 on some of its axes.

#include <array>
#include <cstdint>

#include "backend/cpu/broadcast.h"

namespace tr::cpu {

/// How floats are joined, and what no float at all gives. NaN is never lost.
struct JoinSum {
  static constexpr float kStart = 0;
  static float join(float a, float b) { return a + b; }
};
struct JoinProduct {
  static constexpr float kStart = 1;
  static float join(float a, float b) { return a * b; }
};
struct JoinMax {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  static float join(float a, float b) { return a > b || a != a ? a : b; }
};
struct JoinMin {
  static constexpr float kStart = std::numeric_limits<float>::infinity();
  static float join(float a, float b) { return a < b || a != a ? a : b; }
};

/// Elements of the large tensor by the element of the result that they belong to.
class ReducePlan {
 public:
  /// `small` is `large` with 1 on the reduced axes.
  ReducePlan(const Shape& large, const Shape& small)
      : columns_(large.rank() == 0 ? 1 : large.back()),
        keeps_columns_(large.rank() == 0 || small.back() == large.back()) {
    std::int64_t step = columns_;
    for (int axis = large.rank() - 2; axis >= 0; --axis) {
      Axes& axes = small[axis] == large[axis] ? kept_ : reduced_;
      axes.push(large[axis], step);
      step *= large[axis];
    }
  }
  std::int64_t columns() const { return columns_; }
  bool keeps_columns() const { return keeps_columns_; }
  /// Rows of the result: runs of columns(), or single elements if those are reduced.
  std::int64_t rows() const { return kept_.count(); }
  /// Rows of the large tensor that belong to each.
  std::int64_t terms() const { return reduced_.count(); }
  std::int64_t begin(std::int64_t row, std::int64_t term) const {
    return kept_.offset(row) + reduced_.offset(term);
  }

 private:
  struct Axes {  // the last axis first
    int rank = 0;
    std::array<std::int64_t, Shape::kMaxRank> dims{}, steps{};
    void push(std::int64_t dim, std::int64_t step) {
      dims[std::size_t(rank)] = dim;
      steps[std::size_t(rank++)] = step;
    }
    std::int64_t count() const {
      std::int64_t product = 1;
      for (int i = 0; i < rank; ++i) product *= dims[std::size_t(i)];
      return product;
    }
    std::int64_t offset(std::int64_t index) const {
      std::int64_t sum = 0;
      for (int i = 0; i < rank; ++i) {
        sum += index % dims[std::size_t(i)] * steps[std::size_t(i)];
        index /= dims[std::size_t(i)];
      }
      return sum;
    }
  };

  std::int64_t columns_;
  bool keeps_columns_;
  Axes kept_, reduced_;
};

/// All of `n` floats joined, in 16 running values and then a tree.
template <typename Join>
float joined(const float* values, std::int64_t n) {
  constexpr std::int64_t kLanes = 16;
  std::array<float, kLanes> lanes;
  lanes.fill(Join::kStart);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      lanes[std::size_t(lane)] = Join::join(lanes[std::size_t(lane)], values[i + lane]);
    }
  }
  for (std::size_t lane = 0; i < n; ++i, ++lane) lanes[lane] = Join::join(lanes[lane], values[i]);
  for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
    for (std::size_t lane = 0; lane < width; ++lane) {
      lanes[lane] = Join::join(lanes[lane], lanes[lane + width]);
    }
  }
  return lanes[0];
}

/// Some neighbours of the large tensor and the element of the result that they, or the first of
/// them if columns are kept, belong to.
struct ReduceRun {
  std::int64_t at, n;
  std::int64_t output;
  bool keeps_columns;
  /// That of element j of the run.
  std::int64_t output_of(std::int64_t j) const { return keeps_columns ? output + j : output; }
};

/// result[o] = all values that belong to o, joined in an order fixed by the shapes.
/// values(run, buffer) gives those of a run, in `buffer` (kRowBlock floats) or elsewhere.
template <typename Join, typename Values>
void reduce_axes(ThreadPool& pool, const ReducePlan& plan, const Values& values, float* result) {
  const std::int64_t columns = plan.columns(), terms = plan.terms();
  if (!plan.keeps_columns()) {
    for_chunks(pool, plan.rows(), rows_per_task(columns * terms),
               [&](std::int64_t begin, std::int64_t end) {
                 float buffer[kRowBlock];
                 for (std::int64_t o = begin; o < end; ++o) {
                   float all = Join::kStart;
                   for (std::int64_t term = 0; term < terms; ++term) {
                     const std::int64_t at = plan.begin(o, term);
                     for (std::int64_t c = 0; c < columns; c += kRowBlock) {
                       const ReduceRun run{at + c, std::min(kRowBlock, columns - c), o, false};
                       all = Join::join(all, joined<Join>(values(run, buffer), run.n));
                     }
                   }
                   result[o] = all;
                 }
               });
    return;
  }
  const std::int64_t pieces = ceil_div(columns, kRowBlock);
  for_chunks(pool, plan.rows() * pieces, rows_per_task(std::min(columns, kRowBlock) * terms),
             [&](std::int64_t begin, std::int64_t end) {
               float buffer[kRowBlock];
               for (std::int64_t unit = begin; unit < end; ++unit) {
                 const std::int64_t row = unit / pieces, c = unit % pieces * kRowBlock;
                 const std::int64_t n = std::min(kRowBlock, columns - c);
                 float* into = result + row * columns + c;
                 std::fill_n(into, n, Join::kStart);
                 for (std::int64_t term = 0; term < terms; ++term) {
                   const ReduceRun run{plan.begin(row, term) + c, n, row * columns + c, true};
                   const float* from = values(run, buffer);
                   for (std::int64_t j = 0; j < n; ++j) into[j] = Join::join(into[j], from[j]);
                 }
               }
             });
}

}  // namespace tr::cpu

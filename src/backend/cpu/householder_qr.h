// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/thread_pool.h"

namespace tr::cpu {

/// The orthogonal factor of S = Q R, S [side, side] in fp32, by blocks of Householder's reflections
/// (LAPACK's geqrf and orgqr). A column of zeros below the diagonal is left as it is, so that what
/// is no part of S stays apart from the rest in Q too. Same bytes for any number of threads.
class HouseholderQr {
 public:
  explicit HouseholderQr(std::int64_t side) : side_(side) {}
  /// Floats of `room`.
  std::int64_t num_floats() const;
  /// Overwrites `s`; `q` is another matrix.
  void run(ThreadPool& pool, float* s, float* q, float* room) const;

 private:
  std::int64_t side_;
};

}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr {

/// Collective operations of one rank. Every rank calls the same ones in the same order.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int world_size() const = 0;
  /// data[i] becomes the sum over ranks, added in the order of ranks: the same bytes on every rank and run.
  virtual void all_reduce_sum(float* data, std::int64_t count) = 0;
  /// Maximum over ranks (flags).
  virtual void all_reduce_max(std::int32_t* data, std::int64_t count) = 0;
  virtual void barrier() = 0;
};

}  // namespace tr

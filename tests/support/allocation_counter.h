// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr::test {

/// Calls of operator new, of any form, by any thread since the program began. Link the CMake target
/// `tr_allocation_counter`: it replaces the global operators of the whole program.
std::int64_t allocation_count();

/// Allocations since its construction.
class AllocationCounter {
 public:
  AllocationCounter() : begin_(allocation_count()) {}
  std::int64_t count() const { return allocation_count() - begin_; }

 private:
  std::int64_t begin_;
};

}  // namespace tr::test

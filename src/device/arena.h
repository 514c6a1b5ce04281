// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace tr {

/// The one block of memory that a device gives a task. Taken once, zero-filled, freed with the object.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual std::byte* base() = 0;
  virtual std::int64_t num_bytes() const = 0;
};

/// Host memory, aligned to 4096, with huge pages where the system grants them.
/// @throws OutOfMemory  naming the bytes asked for.
std::unique_ptr<Arena> make_host_arena(std::int64_t num_bytes);

}  // namespace tr

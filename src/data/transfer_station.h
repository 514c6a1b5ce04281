// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "device/arena.h"

namespace tr::data {

/// R slots that batches pass through in turn: batch k of the stream lies in slot k mod R. All
/// workers fill a part of each batch; the last one to finish hands it to the consumer, who gives
/// the slot back for batch k + R. No locks: two counters of laps a slot, waited on in the kernel
/// only when there is nothing to do.
///
///   worker    wait_writable(k) ... finish(k)
///   consumer  wait_ready(k) ... release(k)
class TransferStation {
 public:
  /// @throws OutOfMemory  the slots cannot be had.
  TransferStation(int num_slots, std::size_t slot_bytes, int num_workers);

  int num_slots() const { return int(slots_.size()); }
  int slot_of(std::int64_t batch) const { return int(batch % std::int64_t(slots_.size())); }
  std::byte* slot_bytes(std::int64_t batch) {
    return arena_->base() + std::size_t(slot_of(batch)) * stride_;
  }
  std::int64_t memory_bytes() const { return arena_->num_bytes(); }
  std::span<const std::byte> memory() const {
    return {arena_->base(), std::size_t(arena_->num_bytes())};
  }

  /// Until batch k may be written. False: the station was stopped.
  bool wait_writable(std::int64_t batch);
  /// One worker's part of batch k is written.
  void finish(std::int64_t batch);
  /// Until every worker has finished batch k.
  void wait_ready(std::int64_t batch);
  bool is_ready(std::int64_t batch) const;
  /// The consumer needs batch k no longer.
  void release(std::int64_t batch);
  /// Wakes all workers for good; from the consumer's thread.
  void stop();

 private:
  // Lap counters are compared for equality only; their upper bit says that the station was stopped.
  static constexpr std::uint32_t kStopped = 0x80000000u;
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> writable_lap{0};  // lap whose batch may be written
    std::atomic<std::uint32_t> ready_lap{0};     // one more than the lap whose batch is complete
    std::atomic<int> pending{0};                 // workers that have not finished
  };
  std::uint32_t lap_of(std::int64_t batch) const {
    return std::uint32_t(batch / std::int64_t(slots_.size())) & ~kStopped;
  }
  Slot& slot(std::int64_t batch) { return slots_[std::size_t(slot_of(batch))]; }

  int num_workers_;
  std::size_t stride_;
  std::vector<Slot> slots_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace tr::data

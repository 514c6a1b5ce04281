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

/// R slots that batches pass through in turn: batch k of the stream lies in slot k mod R. Workers
/// fill a batch unit by unit; who wrote the last one hands it to the consumer, who gives the slot
/// back for batch k + R. No locks: a count of finished units a slot, and counts of batches that
/// threads sleep on in the kernel only when there is nothing to do.
///
///   worker    wait_writable(k) ... finish(k, units of k); the last one hand_over(k)
///   consumer  wait_ready(k) ... release(k)
///
/// Waking threads costs more than filling a small batch. So workers that ran ahead of the consumer
/// sleep until a third of the slots is free, or until the consumer waits.
class TransferStation {
 public:
  /// @throws OutOfMemory  the slots cannot be had.
  TransferStation(int num_slots, std::size_t slot_bytes);

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
  /// One of the `units` units of batch k is written. True for the last one: what all wrote is seen,
  /// and the batch is the caller's until hand_over().
  bool finish(std::int64_t batch, std::int64_t units);
  void hand_over(std::int64_t batch);
  /// Until batch k was handed over.
  void wait_ready(std::int64_t batch);
  bool is_ready(std::int64_t batch) const;
  /// The consumer needs batch k no longer; in the order of the batches.
  void release(std::int64_t batch);
  /// Wakes all workers for good; from the consumer's thread.
  void stop();

 private:
  struct alignas(64) Slot {
    std::atomic<std::uint32_t> ready_lap{0};  // one more than the lap whose batch is complete
    std::atomic<std::int64_t> finished{0};    // units of the batch that is being filled
  };
  std::uint32_t lap_after(std::int64_t batch) const {
    return std::uint32_t(batch / std::int64_t(slots_.size())) + 1;
  }
  bool is_writable(std::int64_t batch) const {
    return batch < released_.load(std::memory_order_acquire) + std::int64_t(slots_.size());
  }
  void wake_workers();

  std::size_t stride_;
  std::int64_t releases_per_wake_;
  std::vector<Slot> slots_;
  std::unique_ptr<Arena> arena_;
  alignas(64) std::atomic<std::int64_t> released_{0};  // batches given back
  std::atomic<bool> stopped_{false};
  alignas(64) std::atomic<std::uint32_t> wakes_{0};  // what workers sleep on
};

}  // namespace tr::data

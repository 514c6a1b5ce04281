// SPDX-License-Identifier: Apache-2.0
#include "data/transfer_station.h"

#include "core/check.h"

namespace tr::data {
namespace {

constexpr std::size_t kSlotAlignment = 4096;

std::uint32_t next_lap(std::uint32_t lap, std::uint32_t stopped) { return (lap + 1) & ~stopped; }

}  // namespace

TransferStation::TransferStation(int num_slots, std::size_t slot_bytes, int num_workers)
    : num_workers_(num_workers),
      stride_((slot_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment),
      slots_(std::size_t(num_slots)) {
  TR_ASSERT(num_slots >= 2 && num_workers >= 1 && slot_bytes > 0);
  arena_ = make_host_arena(std::int64_t(stride_ * slots_.size()));
  for (Slot& s : slots_) s.pending.store(num_workers, std::memory_order_relaxed);
}

bool TransferStation::wait_writable(std::int64_t batch) {
  std::atomic<std::uint32_t>& lap = slot(batch).writable_lap;
  const std::uint32_t wanted = lap_of(batch);
  for (;;) {
    const std::uint32_t now = lap.load(std::memory_order_acquire);
    if ((now & kStopped) != 0) return false;
    if (now == wanted) return true;
    lap.wait(now, std::memory_order_acquire);
  }
}

void TransferStation::finish(std::int64_t batch) {
  Slot& s = slot(batch);
  // acq_rel: the last one sees what the others wrote, and passes it on with ready_lap.
  if (s.pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  s.pending.store(num_workers_, std::memory_order_relaxed);
  s.ready_lap.store(next_lap(lap_of(batch), kStopped), std::memory_order_release);
  s.ready_lap.notify_one();
}

bool TransferStation::is_ready(std::int64_t batch) const {
  const Slot& s = slots_[std::size_t(slot_of(batch))];
  return s.ready_lap.load(std::memory_order_acquire) == next_lap(lap_of(batch), kStopped);
}

void TransferStation::wait_ready(std::int64_t batch) {
  std::atomic<std::uint32_t>& lap = slot(batch).ready_lap;
  const std::uint32_t wanted = next_lap(lap_of(batch), kStopped);
  for (;;) {
    const std::uint32_t now = lap.load(std::memory_order_acquire);
    if (now == wanted) return;
    lap.wait(now, std::memory_order_acquire);
  }
}

void TransferStation::release(std::int64_t batch) {
  Slot& s = slot(batch);
  s.writable_lap.store(next_lap(lap_of(batch), kStopped), std::memory_order_release);
  s.writable_lap.notify_all();
}

void TransferStation::stop() {
  for (Slot& s : slots_) {
    s.writable_lap.fetch_or(kStopped, std::memory_order_release);
    s.writable_lap.notify_all();
  }
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include "data/transfer_station.h"

#include <algorithm>

#include "core/check.h"
#include "core/spin.h"

namespace tr::data {
namespace {

constexpr std::size_t kSlotAlignment = 4096;

}  // namespace

TransferStation::TransferStation(int num_slots, std::size_t slot_bytes)
    : stride_((slot_bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment),
      releases_per_wake_(std::max(1, num_slots / 3)),
      slots_(std::size_t(num_slots)) {
  TR_ASSERT(num_slots >= 2 && slot_bytes > 0);
  arena_ = make_host_arena(std::int64_t(stride_ * slots_.size()));
}

bool TransferStation::wait_writable(std::int64_t batch) {
  while (!stopped_.load(std::memory_order_acquire)) {
    if (is_writable(batch)) return true;
    const std::uint32_t seen = wakes_.load(std::memory_order_acquire);
    // Either these looks see what the consumer did before it raised `wakes_`, or that has moved on
    // from `seen`.
    if (!is_writable(batch) && !stopped_.load(std::memory_order_acquire)) {
      wakes_.wait(seen, std::memory_order_acquire);
    }
  }
  return false;
}

bool TransferStation::finish(std::int64_t batch, std::int64_t units) {
  Slot& s = slots_[std::size_t(slot_of(batch))];
  // acq_rel: the last one sees what the others wrote, and passes it on with ready_lap.
  if (s.finished.fetch_add(1, std::memory_order_acq_rel) + 1 != units) return false;
  s.finished.store(0, std::memory_order_relaxed);
  return true;
}

void TransferStation::hand_over(std::int64_t batch) {
  Slot& s = slots_[std::size_t(slot_of(batch))];
  s.ready_lap.store(lap_after(batch), std::memory_order_release);
  s.ready_lap.notify_one();
}

bool TransferStation::is_ready(std::int64_t batch) const {
  const Slot& s = slots_[std::size_t(slot_of(batch))];
  return s.ready_lap.load(std::memory_order_acquire) == lap_after(batch);
}

void TransferStation::wait_ready(std::int64_t batch) {
  if (is_ready(batch)) return;
  wake_workers();
  if (spin_until(SpinTimes{}, [&] { return is_ready(batch); })) return;
  std::atomic<std::uint32_t>& lap = slots_[std::size_t(slot_of(batch))].ready_lap;
  while (!is_ready(batch)) {
    const std::uint32_t seen = lap.load(std::memory_order_acquire);
    if (seen != lap_after(batch)) lap.wait(seen, std::memory_order_acquire);
  }
}

void TransferStation::release(std::int64_t batch) {
  released_.store(batch + 1, std::memory_order_release);
  if ((batch + 1) % releases_per_wake_ == 0) wake_workers();
}

void TransferStation::wake_workers() {
  wakes_.fetch_add(1, std::memory_order_acq_rel);
  wakes_.notify_all();
}

void TransferStation::stop() {
  stopped_.store(true, std::memory_order_release);
  wake_workers();
}

}  // namespace tr::data

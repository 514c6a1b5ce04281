// SPDX-License-Identifier: Apache-2.0
#include "data/unit_ring.h"

#include "core/check.h"

namespace tr::data {
namespace {

constexpr std::size_t kAlignment = 4096;

}  // namespace

UnitBuffers::UnitBuffers(int count, std::size_t unit_bytes, std::int64_t pictures,
                         const std::stop_token& stop)
    : buffers_(std::size_t(count)) {
  TR_ASSERT(count >= 1);
  const std::size_t stride = (unit_bytes + kAlignment - 1) / kAlignment * kAlignment;
  arena_ = make_host_arena(std::int64_t(stride * buffers_.size()));
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].bytes = arena_->base() + i * stride;
    buffers_[i].pictures.resize(std::size_t(pictures));
    for (EncodedPicture& picture : buffers_[i].pictures) picture.stop = stop;
  }
}

bool UnitRing::wait(std::int64_t unit, std::uint32_t part) {
  std::atomic<std::uint32_t>& turn = places_[index(unit)].turn;
  const std::uint32_t wanted = turn_of(unit, part);
  for (;;) {
    const std::uint32_t now = turn.load(std::memory_order_acquire);
    if ((now & kStopped) != 0) return false;
    if (now == wanted) return true;
    turn.wait(now, std::memory_order_acquire);
  }
}

void UnitRing::pass(std::int64_t unit, std::uint32_t part) {
  std::atomic<std::uint32_t>& turn = places_[index(unit)].turn;
  // Not stored blindly: the ring may be stopped meanwhile, and must stay so.
  std::uint32_t now = turn_of(unit, part - 1);
  if (!turn.compare_exchange_strong(now, turn_of(unit, part), std::memory_order_acq_rel)) return;
  turn.notify_all();
}

void UnitRing::stop() {
  for (Place& place : places_) {
    place.turn.fetch_or(kStopped, std::memory_order_acq_rel);
    place.turn.notify_all();
  }
}

}  // namespace tr::data

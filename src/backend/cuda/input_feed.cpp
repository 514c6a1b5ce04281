// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/input_feed.h"

#include "core/check.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kMostGap = 256;  // bytes between two fields that are copied along

}  // namespace

InputFeed::InputFeed(std::byte* arena, std::int64_t zone_bytes, cudaStream_t steps)
    : arena_(arena), zone_bytes_(zone_bytes), steps_(steps) {}

void InputFeed::copy(const std::vector<Input>& inputs, int zone) {
  zone_ = zone;
  TR_CUDA(cudaStreamWaitEvent(copies_.handle, read_[std::size_t(zone)].handle));
  // Fields that lie in the slot as they do in the arena go as one copy.
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
  const auto flush = [&] {
    if (bytes == 0) return;
    TR_CUDA(cudaMemcpyAsync(to, from, std::size_t(bytes), cudaMemcpyHostToDevice, copies_.handle));
  };
  const auto distance = [](const std::byte* a, const std::byte* b) {  // they may be strangers
    return std::int64_t(reinterpret_cast<std::uintptr_t>(b) - reinterpret_cast<std::uintptr_t>(a));
  };
  for (const Input& input : inputs) {
    const auto bound = bound_.find(input.field);
    TR_CHECK(bound != bound_.end(), "executor: no data are bound to the field \"{}\"", input.field);
    const auto* data = static_cast<const std::byte*>(bound->second);
    std::byte* target = place(input, zone);
    const std::int64_t further = distance(to, target);
    const bool joins = bytes > 0 && distance(from, data) == further && further >= bytes &&
                       further - bytes <= kMostGap;
    if (!joins) {
      flush();
      from = data;
      to = target;
    }
    bytes = (joins ? further : 0) + input.bytes;
  }
  flush();
  ++copied_;
  const cudaEvent_t ticket = tickets_[std::size_t(copied_ % kTickets)].handle;
  TR_CUDA(cudaEventRecord(ticket, copies_.handle));
  TR_CUDA(cudaStreamWaitEvent(steps_, ticket));
}

void InputFeed::done(int zone) {
  TR_CUDA(cudaEventRecord(read_[std::size_t(zone)].handle, steps_));
}

void InputFeed::done_all() {
  done(0);
  done(1);
}

void InputFeed::wait(std::int64_t copy) {
  TR_ASSERT(copied_ - copy < kTickets);
  TR_CUDA(cudaEventSynchronize(tickets_[std::size_t(copy % kTickets)].handle));
}

}  // namespace tr::cuda

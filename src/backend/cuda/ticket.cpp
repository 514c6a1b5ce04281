// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/ticket.h"

#include <bitset>
#include <mutex>

#include "core/check.h"

namespace tr::cuda {
namespace {

std::mutex mutex;
std::bitset<Ticket::kCount> taken;

}  // namespace

Ticket::Ticket() : number_(0) {
  const std::scoped_lock lock(mutex);
  while (number_ < kCount && taken[std::size_t(number_)]) ++number_;
  if (number_ == kCount) {
    throw_as<DeviceError>("{} nodes that sum over blocks are prepared, expected at most as many",
                          kCount);
  }
  taken[std::size_t(number_)] = true;
}

Ticket::~Ticket() {
  const std::scoped_lock lock(mutex);
  taken[std::size_t(number_)] = false;
}

}  // namespace tr::cuda

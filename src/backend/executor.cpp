// SPDX-License-Identifier: Apache-2.0
#include "backend/executor.h"

#include "core/check.h"

namespace tr {

int Executor::hold(const ResidentSplit&, std::span<const int>) {
  throw_as<Unsupported>("this device holds no data sets: it is fed by the loader");
}

void Executor::run_held(int, int, std::span<const FeedRow>) {
  throw_as<Unsupported>("this device holds no data sets: it is fed by the loader");
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
// all_reduce and all_reduce_flag of a world of one: there is nothing to add.
#include "backend/cuda/launch.h"
#include "core/check.h"

namespace tr::cuda {
namespace {

void launch_all_reduce(const KernelArgs& args) {
  const int world_size = args.communicator().world_size();
  if (world_size == 1) return;
  throw_as<Unsupported>(
      "all_reduce: the world has {} ranks, expected 1: there is no communication between GPUs yet",
      world_size);
}

const KernelRegistration kAllReduce{simple_kernel("all_reduce", launch_all_reduce)};
const KernelRegistration kAllReduceFlag{simple_kernel("all_reduce_flag", launch_all_reduce)};

}  // namespace
}  // namespace tr::cuda

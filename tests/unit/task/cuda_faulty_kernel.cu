// SPDX-License-Identifier: Apache-2.0
// The kernel of "test_faulty": copies x, and in one step of the training writes to an address that
// nothing has.
#include "backend/cuda/launch.h"
#include "graph/step_tables.h"

namespace tr::cuda {
namespace {

__global__ void faulty(const float* x, float* y, std::int64_t count, const std::int64_t* counters,
                       std::int64_t fault_step) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i];
  if (i == 0 && counters[kCounterStep] == fault_step) *reinterpret_cast<volatile int*>(8) = 1;
}

void launch_faulty(const KernelArgs& args) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  launch(args, shape_for(count), faulty, args.in<float>(0), args.out<float>(0), count,
         args.in<std::int64_t>(1), args.attrs().i64("fault_step"));
}

const KernelRegistration kFaulty{simple_kernel("test_faulty", launch_faulty)};

}  // namespace
}  // namespace tr::cuda

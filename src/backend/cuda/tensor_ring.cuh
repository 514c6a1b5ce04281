// SPDX-License-Identifier: Apache-2.0
#pragma once

// Stages in shared memory that the tensor copy engine fills for one warp and groups of warps use:
// for each a barrier that tells when its bytes have come, and one when all groups are through.

#include "backend/cuda/tensor_copy.cuh"

namespace tr::cuda {

/// A walk around the ring; `round` counts how often it has come to its stage.
template <int kStages>
struct RingPlace {
  int stage = 0;
  unsigned round = 0;

  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      ++round;
    }
  }
};

template <int kStages>
struct TensorRing {
  tensor_copy::Barrier full[kStages], free[kStages];

  /// By one thread; the block's threads have to meet before anybody uses it.
  __device__ void init(unsigned groups) {
#if __CUDA_ARCH__ >= 900
    for (int s = 0; s < kStages; ++s) {
      tensor_copy::init(full[s]);
      asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(mma::shared_address(&free[s])),
                   "r"(groups));
    }
#endif
    tensor_copy::publish_barriers();
  }
  /// Before a stage is filled: nothing to wait for in the first round.
  __device__ void wait_free(const RingPlace<kStages>& at) {
    if (at.round > 0) tensor_copy::wait(free[at.stage], (at.round - 1) & 1);
  }
  __device__ void wait_full(const RingPlace<kStages>& at) {
    tensor_copy::wait(full[at.stage], at.round & 1);
  }
  /// By one thread of each group, which has read the stage.
  __device__ void release(const RingPlace<kStages>& at) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(mma::shared_address(&free[at.stage]))
        : "memory");
#endif
  }
};

}  // namespace tr::cuda

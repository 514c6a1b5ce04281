// SPDX-License-Identifier: Apache-2.0
#pragma once

// A barrier of all blocks of a cooperative launch that can be used many times in it.

#include "backend/cuda/ticket.h"

namespace tr::cuda {

// One copy a source file, by Ticket: arrivals so far; blocks that have left.
static __device__ unsigned barrier_arrivals[Ticket::kCount];
static __device__ unsigned barrier_left[Ticket::kCount];

class GridBarrier {
 public:
  __device__ explicit GridBarrier(int ticket) : ticket_(ticket) {}

  /// By all threads of all blocks: what any of them wrote before can be read afterwards.
  __device__ void wait() {
    awaited_ += gridDim.x;
    __syncthreads();
    if (threadIdx.x == 0) {
      unsigned* word = &barrier_arrivals[ticket_];
      __threadfence();
      atomicAdd(word, 1u);
      while (load_acquire(word) < awaited_) {
      }
      __threadfence();
    }
    __syncthreads();
  }

  /// By all threads, at the end: the last block makes the words ready for the next launch.
  __device__ void leave() const {
    if (threadIdx.x != 0) return;
    if (atomicInc(&barrier_left[ticket_], gridDim.x - 1) == gridDim.x - 1)
      barrier_arrivals[ticket_] = 0;
  }

 private:
  __device__ static unsigned load_acquire(const unsigned* word) {
    unsigned seen = 0;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(word) : "memory");
    return seen;
  }

  int ticket_;
  unsigned awaited_ = 0;
};

}  // namespace tr::cuda

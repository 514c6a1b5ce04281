// SPDX-License-Identifier: Apache-2.0
#pragma once

// A meeting of all blocks of a cooperative launch that also tells each of them how many came with a
// flag, in the word that they poll: a barrier and a vote for the price of one way through memory.

#include "backend/cuda/ticket.h"

namespace tr::cuda {

// One copy a source file, by Ticket: blocks that have come (lower half), those of them with a flag
// (upper half); blocks that have left.
static __device__ unsigned long long met_blocks[Ticket::kCount];
static __device__ unsigned left_blocks[Ticket::kCount];

class GridMeeting {
 public:
  __host__ __device__ explicit GridMeeting(int ticket) : ticket_(ticket) {}

  /// By one thread of every block, once. Returns when all have come, with the number of flags; what
  /// the thread wrote before can be read by every block then, past its own first-level cache.
  __device__ unsigned meet(bool flag) const {
    unsigned long long* word = &met_blocks[ticket_];
    __threadfence();
    atomicAdd(word, flag ? 1ull << 32 | 1ull : 1ull);
    unsigned long long seen = 0;
    do {
      asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(seen) : "l"(word) : "memory");
    } while (unsigned(seen) != gridDim.x);
    return unsigned(seen >> 32);
  }

  /// By the same thread afterwards: the last one makes the word ready for the next launch.
  __device__ void leave() const {
    if (atomicInc(&left_blocks[ticket_], gridDim.x - 1) == gridDim.x - 1) met_blocks[ticket_] = 0;
  }

 private:
  int ticket_;
};

}  // namespace tr::cuda

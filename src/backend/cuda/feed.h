// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "backend/cuda/device_split.h"

namespace tr::cuda {

/// Where a micro-batch goes: the start of each field's [batch, ...] on the device, in the order of
/// ResidentSplit::fields, aligned to its element; null: the field is not wanted.
struct FeedTarget {
  void* fields[kMaxFeedFields] = {};
};

/// Why images of this program cannot be made on the current device; empty if they can.
std::string refuse_feed(const pixel::Program& program);

/// Lets the kernels use all shared memory that the device has; once a process and device, outside a
/// capture.
void prepare_feed();

/// Enqueues one kernel that assembles `batch` samples in `target`: those of
/// rows[(*base + k) % ring_size]. `rows` and `base` are in device memory and are read when the
/// kernel runs, so a captured launch serves every step.
/// @throws DeviceError  the launch is refused.
void enqueue_feed(cudaStream_t stream, const DeviceSplit& split, const FeedRow* rows,
                  const std::int64_t* base, int k, int ring_size, const FeedTarget& target,
                  std::int64_t batch);

/// Enqueues *base += k.
void enqueue_advance(cudaStream_t stream, std::int64_t* base, int k);

}  // namespace tr::cuda

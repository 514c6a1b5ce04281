// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/resident.h"
#include "device/arena.h"

namespace tr::cuda {

constexpr int kMaxFeedFields = 8;

/// A split in device memory, as the kernel takes it by value: all pointers are the device's.
struct FeedSource {
  struct Field {
    const std::byte* data = nullptr;
    std::int64_t stride = 0;  // bytes from sample to sample
    std::int64_t bytes = 0;   // of a sample
  };
  Field fields[kMaxFeedFields];
  std::int32_t num_fields = 0;
  std::int32_t image_field = -1;  // the one that goes through the program; -1: all are copied
  std::int64_t num_samples = 0;
  std::uint64_t seed = 0, split = 0;
  const pixel::Program* program = nullptr;
  const void* table = nullptr;  // [channels, 256] values of the program's dtype
};

/// Owns the device's copy of a split: samples, program and normalisation table, in one allocation.
class DeviceSplit {
 public:
  /// Copies everything to the current device and waits for it; the host's bytes are not needed
  /// afterwards.
  /// @throws InvalidArgument  no samples, no or too many fields, a program without the field
  ///         "image" or for images of another size.
  /// @throws Unsupported  refuse_feed(). @throws OutOfMemory  naming the bytes.
  explicit DeviceSplit(const ResidentSplit& split);

  const FeedSource& source() const { return source_; }
  /// The program on the host, null if the image is copied.
  const pixel::Program* program() const { return program_.get(); }
  /// Device memory held.
  std::int64_t num_bytes() const { return memory_->num_bytes(); }

 private:
  FeedSource source_;
  std::unique_ptr<const pixel::Program> program_;
  std::unique_ptr<Arena> memory_;
};

}  // namespace tr::cuda

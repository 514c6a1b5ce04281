// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tr::data {

/// CPVS: the processed bytes of every sample of a split, kept when a sample is made for the first
/// time. Shared by all workers, without locks.
class ProcessedCache {
 public:
  ProcessedCache(std::size_t samples, std::size_t sample_bytes)
      : sample_bytes_(sample_bytes), bytes_(samples * sample_bytes), state_(samples) {}

  std::int64_t num_bytes() const { return std::int64_t(bytes_.size()); }

  /// The sample's bytes; null if they are not there yet. Once there, they stay.
  const std::byte* find(std::int64_t id) const {
    const std::atomic<std::uint8_t>& state = state_[std::size_t(id)];
    return state.load(std::memory_order_acquire) == kFull ? place(id) : nullptr;
  }
  /// Where the sample is to be written, before done(); null if another worker writes or wrote it.
  std::byte* begin(std::int64_t id) {
    std::uint8_t expected = kEmpty;
    std::atomic<std::uint8_t>& state = state_[std::size_t(id)];
    const bool mine = state.compare_exchange_strong(expected, kWriting, std::memory_order_relaxed);
    return mine ? bytes_.data() + std::size_t(id) * sample_bytes_ : nullptr;
  }
  void done(std::int64_t id) { state_[std::size_t(id)].store(kFull, std::memory_order_release); }

 private:
  enum State : std::uint8_t { kEmpty, kWriting, kFull };

  const std::byte* place(std::int64_t id) const {
    return bytes_.data() + std::size_t(id) * sample_bytes_;
  }

  std::size_t sample_bytes_;
  std::vector<std::byte> bytes_;
  std::vector<std::atomic<std::uint8_t>> state_;
};

}  // namespace tr::data

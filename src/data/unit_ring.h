// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "data/split_pipeline.h"
#include "device/arena.h"

namespace tr::data {

/// Buffers for units of samples, in one block of memory.
class UnitBuffers {
 public:
  /// `unit_bytes`: of a unit's samples as they are read; `pictures`: of a unit. `stop` reaches
  /// those who read picture files. @throws OutOfMemory
  UnitBuffers(int count, std::size_t unit_bytes, std::int64_t pictures,
              const std::stop_token& stop);

  UnitBuffer& operator[](std::size_t i) { return buffers_[i]; }
  std::size_t size() const { return buffers_.size(); }
  std::int64_t memory_bytes() const { return arena_->num_bytes(); }

 private:
  std::unique_ptr<Arena> arena_;
  std::vector<UnitBuffer> buffers_;
};

/// Units on their way from the threads that read to those that transform: unit u passes through
/// place u mod P. Each place has a turn, odd while it holds a unit; whoever finds that it is not
/// his turn sleeps on it.
///
///   reader  wait_free(u) ... put(u)
///   worker  wait_full(u) ... take(u)
class UnitRing {
 public:
  /// One place for each buffer.
  explicit UnitRing(UnitBuffers buffers) : buffers_(std::move(buffers)), places_(buffers_.size()) {}

  UnitBuffer& buffer(std::int64_t unit) { return buffers_[index(unit)]; }
  std::int64_t memory_bytes() const { return buffers_.memory_bytes(); }

  /// Until the place of unit u is free, or holds it. False: the ring was stopped.
  bool wait_free(std::int64_t unit) { return wait(unit, 0); }
  bool wait_full(std::int64_t unit) { return wait(unit, 1); }
  void put(std::int64_t unit) { pass(unit, 1); }
  void take(std::int64_t unit) { pass(unit, 2); }
  /// Wakes all threads for good.
  void stop();

 private:
  static constexpr std::uint32_t kStopped = 0x80000000u;
  struct alignas(64) Place {
    std::atomic<std::uint32_t> turn{0};  // compared for equality only
  };
  std::size_t index(std::int64_t unit) const { return std::size_t(unit) % places_.size(); }
  std::uint32_t turn_of(std::int64_t unit, std::uint32_t part) const {
    return (std::uint32_t(std::size_t(unit) / places_.size()) * 2 + part) & ~kStopped;
  }
  bool wait(std::int64_t unit, std::uint32_t part);
  void pass(std::int64_t unit, std::uint32_t part);

  UnitBuffers buffers_;
  std::vector<Place> places_;
};

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "core/content_hash.h"
#include "data/formats/scan_marks.h"

namespace tr::data {

/// ScanMarks of every sample of a set, 656 bytes each. Memory is fixed at construction; workers
/// share it.
class ScanMarkStore {
 public:
  static_assert(sizeof(ScanMarks) == 656, "docs/configuration.md says so");
  static constexpr std::int64_t bytes_for(std::int64_t samples) {
    return samples * std::int64_t(sizeof(ScanMarks));
  }

  explicit ScanMarkStore(std::int64_t samples) : marks_(std::size_t(samples)) {}

  std::int64_t num_bytes() const { return bytes_for(std::int64_t(marks_.size())); }

  /// Those of sample `id` if its file is still the one that they were found in, else none.
  ScanMarks find(std::int64_t id, std::span<const std::byte> file) const {
    const std::uint64_t content = content_of(file);
    {
      const std::lock_guard lock(lock_of(id));
      const ScanMarks& marks = marks_[std::size_t(id)];
      if (marks.content == content) return marks;
    }
    ScanMarks none;
    none.content = content;
    return none;
  }

  /// Puts them in the place of fewer ones, or of ones of other bytes.
  void keep(std::int64_t id, const ScanMarks& marks) {
    const std::lock_guard lock(lock_of(id));
    ScanMarks& kept = marks_[std::size_t(id)];
    if (kept.content != marks.content || kept.known < marks.known) kept = marks;
  }

 private:
  /// Of the length, the beginning and places all over the file: to read all of it would take a
  /// tenth of the time that the marks save, and what is changed in coded data moves all behind it.
  static std::uint64_t content_of(std::span<const std::byte> file) {
    constexpr std::size_t kBeginning = 4096, kPlaces = 64, kPlace = 32;
    std::uint64_t hash = content_hash(file.first(std::min(file.size(), kBeginning)), file.size());
    const std::size_t step = file.size() / kPlaces;
    if (step <= kPlace) return content_hash(file, hash);
    for (std::size_t i = 0; i < kPlaces; ++i)
      hash = content_hash(file.subspan(i * step, kPlace), hash);
    return hash;
  }

  std::mutex& lock_of(std::int64_t id) const { return locks_[std::size_t(id) % locks_.size()]; }

  std::vector<ScanMarks> marks_;
  mutable std::array<std::mutex, 64> locks_;
};

}  // namespace tr::data

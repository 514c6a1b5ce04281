// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <mutex>

#include "renaissance/data/dataset.h"

namespace tr::data {

/// FULLY: sets as they lie in memory, once for all loaders of a run, whatever the number of ranks.
class SetsInMemory {
 public:
  /// What may be taken is what is free when a set is read, or `most_bytes` for all sets.
  SetsInMemory() = default;
  explicit SetsInMemory(std::int64_t most_bytes) : most_bytes_(most_bytes) {}

  /// The set in memory, read by the first loader that asks for it; the others wait.
  /// @throws OutOfMemory  it does not fit: told before a sample is read, where sizes are known.
  /// @throws DataError    see load_into_memory().
  std::shared_ptr<const Dataset> get(const std::shared_ptr<const Dataset>& set);

 private:
  static constexpr std::int64_t kWhatIsFree = -1;

  struct Loaded {
    std::shared_ptr<const Dataset> set;
    std::exception_ptr fault;
  };

  std::shared_ptr<const Dataset> load(const std::shared_ptr<const Dataset>& set);

  std::int64_t most_bytes_ = kWhatIsFree;
  std::mutex mutex_;
  std::int64_t num_bytes_ = 0;
  std::map<std::shared_ptr<const Dataset>, Loaded> loaded_;
};

}  // namespace tr::data

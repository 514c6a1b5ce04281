// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "renaissance/data/dataset.h"

namespace tr::data {

/// What becomes of samples that cannot be read, and which ones those were: shared by both splits,
/// all workers and all ranks of a run. A sample counts once, however often it fails.
class BadSamples {
 public:
  /// More than `limit` bad samples fail the run. @throws InvalidArgument  limit < 0.
  BadSamples(BadSamplePolicy policy, std::int64_t limit);

  BadSamplePolicy policy() const { return policy_; }

  /// Counts sample `id` of a split ("training", "validation"), which failed for the reason
  /// `what`, and logs it if it is one of the first ten.
  /// @throws DataError  the policy is FAIL (with `what` itself), or the limit is passed.
  void note(const std::string& split, std::int64_t id, const std::string& sample_name,
            const std::string& what);

  /// A sample that is read though its decoder has something to say; the first ten are logged.
  void warn(const std::string& split, std::int64_t id, const std::string& sample_name,
            const std::string& what);

  std::int64_t count() const;
  std::int64_t num_warned() const;
  /// "training sample 3: reason" of the first ten, and of the last one; "" if there is none.
  std::vector<std::string> first() const;
  std::string last() const;

  static constexpr std::size_t kNamed = 10;

 private:
  const BadSamplePolicy policy_;
  const std::int64_t limit_;
  mutable std::mutex mutex_;
  std::set<std::pair<std::string, std::int64_t>> ids_, warned_;
  std::vector<std::string> first_;
  std::string last_;
};

/// Tries that REPLACE makes before it gives up.
constexpr int kReplacementTries = 16;

/// REPLACE: the sample that stands in for sample `id` of a split of `num_samples`, at try 0, 1,
/// ...: a draw that depends on nothing else, so neither on the epoch nor on workers or ranks.
std::int64_t replacement_for(std::uint64_t seed, std::uint64_t split, std::int64_t id, int attempt,
                             std::int64_t num_samples);

/// SKIP: for each row of a batch of `size` the row whose sample it gets. A bad row gets the next
/// good one, counted around the batch's end. `bad` is sorted. All rows bad: empty.
std::vector<std::pair<std::int64_t, std::int64_t>> rows_to_copy(
    const std::vector<std::int64_t>& bad, std::int64_t size);

}  // namespace tr::data

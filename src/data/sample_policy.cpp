// SPDX-License-Identifier: Apache-2.0
#include "data/sample_policy.h"

#include <algorithm>

#include "core/check.h"
#include "core/log.h"
#include "core/philox.h"

namespace tr::data {

BadSamples::BadSamples(BadSamplePolicy policy, std::int64_t limit)
    : policy_(policy), limit_(limit) {
  TR_CHECK(limit >= 0, "bad_sample_limit is {}, must not be negative", limit);
}

void BadSamples::note(const std::string& split, std::int64_t id, const std::string& sample_name,
                      const std::string& what) {
  if (policy_ == BadSamplePolicy::FAIL) throw_as<DataError>("{}", what);
  std::string line;
  std::int64_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!ids_.emplace(split, id).second) return;
    count = std::int64_t(ids_.size());
    line = fmt::format("{} sample {}: {}", split, id, what);
    if (what.find(sample_name) == std::string::npos) line += " (" + sample_name + ")";
    if (first_.size() < kNamed) first_.push_back(line);
    last_ = line;
  }
  if (count <= std::int64_t(kNamed)) {
    log_warning("bad sample {} is {}: {}{}", count,
                policy_ == BadSamplePolicy::SKIP ? "skipped" : "replaced", line,
                count == std::int64_t(kNamed) ? "; further ones are counted, not named" : "");
  }
  if (count > limit_) {
    throw_as<DataError>("{} samples cannot be read, bad_sample_limit is {}; the last one is {}",
                        count, limit_, line);
  }
}

void BadSamples::warn(const std::string& split, std::int64_t id, const std::string& sample_name,
                      const std::string& what) {
  std::size_t count = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!warned_.emplace(split, id).second) return;
    count = warned_.size();
  }
  if (count <= kNamed) {
    log_warning("{} sample {} is used, though its decoder says: {} ({}){}", split, id, what,
                sample_name, count == kNamed ? "; further ones are counted, not named" : "");
  }
}

std::int64_t BadSamples::num_warned() const {
  const std::lock_guard lock(mutex_);
  return std::int64_t(warned_.size());
}

std::int64_t BadSamples::count() const {
  const std::lock_guard lock(mutex_);
  return std::int64_t(ids_.size());
}

std::vector<std::string> BadSamples::first() const {
  const std::lock_guard lock(mutex_);
  return first_;
}

std::string BadSamples::last() const {
  const std::lock_guard lock(mutex_);
  return last_;
}

std::int64_t replacement_for(std::uint64_t seed, std::uint64_t split, std::int64_t id, int attempt,
                             std::int64_t num_samples) {
  const Philox4 words = DrawAddress{seed, DrawPurpose::REPLACE, split, std::uint64_t(id)}.block(
      std::uint32_t(attempt));
  const std::uint64_t wide = std::uint64_t(words.v[0]) << 32 | words.v[1];
  return std::int64_t(wide % std::uint64_t(num_samples));  // bias below num_samples / 2^64
}

std::vector<std::pair<std::int64_t, std::int64_t>> rows_to_copy(
    const std::vector<std::int64_t>& bad, std::int64_t size) {
  std::vector<std::pair<std::int64_t, std::int64_t>> copies;
  if (std::int64_t(bad.size()) >= size) return copies;
  for (const std::int64_t row : bad) {
    std::int64_t donor = (row + 1) % size;
    while (std::binary_search(bad.begin(), bad.end(), donor)) donor = (donor + 1) % size;
    copies.emplace_back(row, donor);
  }
  return copies;
}

}  // namespace tr::data

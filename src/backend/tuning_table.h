// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace tr {

/// Every measured choice (kernel, partition, placement) by key. Keys are text: op, attributes,
/// types, device and its limits. Saved in checkpoints, cached on disk, printed as a hash beside the
/// weights' hash.
class TuningTable {
 public:
  /// The choice stored for `key`, empty if none.
  std::string find(const std::string& key) const;
  /// Microseconds that the choice took when it was measured, 0 if it was not.
  double us_of(const std::string& key) const;
  void set(const std::string& key, const std::string& choice, double us = 0);
  /// Takes over the other's entries whose keys are not here.
  void add_missing(const TuningTable& other);
  bool empty() const { return entries_.empty(); }
  const std::map<std::string, std::string>& entries() const { return entries_; }
  /// SHA-256 over the sorted entries, in hex; the times, which no two runs share, have no part in
  /// it.
  std::string hash() const;

  std::string to_json() const;
  /// @throws DataError  not a table, another format, or a wrong checksum.
  static TuningTable from_json(const std::string& text);

  /// What a cache file holds; if it cannot be used, an empty table and why.
  struct CacheRead;
  static CacheRead read_cache(const std::string& path, const std::string& environment);
  /// Reads the cache file; a missing, torn, foreign or stale one gives an empty table and a logged
  /// reason.
  static TuningTable load_cache(const std::string& path, const std::string& environment);
  /// Temporary file, sync, rename. A folder that cannot be written is logged, not an error.
  void save_cache(const std::string& path, const std::string& environment) const;

 private:
  std::map<std::string, std::string> entries_;
  std::map<std::string, double> times_;  // microseconds, by key
};

struct TuningTable::CacheRead {
  TuningTable table;
  std::string reason;
  bool damaged = false;  // torn or foreign, not merely absent or of another machine
};

}  // namespace tr

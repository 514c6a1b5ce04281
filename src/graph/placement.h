// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "graph/transients.h"

namespace tr {

/// Places of transients, found by trying several orders of placing.
struct PlacementResult {
  std::vector<std::int64_t> offsets;  // by transient, from the start of the transient range
  std::int64_t peak = 0;
};

/// Which transients may not share bytes. Members of one group are kept apart from nobody of that
/// group.
class Conflicts {
 public:
  Conflicts(const std::vector<Transient>& transients, const UsableOrder& order, bool reuse);
  bool conflict(int a, int b) const {
    return (rows_[std::size_t(a) * words_ + std::size_t(b) / 64] >> (b % 64)) & 1u;
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> rows_;
};

/// Searches orders of placing for a low peak: by size, by size x lifetime, by lifetime, by time;
/// then, from the best one, what lies at the top is placed earlier and all is placed again,
/// `rounds` times or until the peak is within 0.4 % of the live bytes.
PlacementResult place(const std::vector<Transient>& transients,
                      const std::vector<PlaceGroup>& groups, const Conflicts& conflicts,
                      int rounds);

}  // namespace tr

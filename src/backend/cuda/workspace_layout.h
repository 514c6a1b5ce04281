// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace tr::cuda {

/// Bytes of a workspace, in the order of the parts that a kernel asks for.
class WorkspaceLayout {
 public:
  /// Where the part begins.
  std::int64_t reserve(std::int64_t bytes) {
    const std::int64_t offset = bytes_;
    bytes_ += (bytes + 255) / 256 * 256;
    return offset;
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

}  // namespace tr::cuda

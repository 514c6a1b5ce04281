// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tr::data {

/// Many names in one piece of memory: ImageNet's 1.3 million paths in 45 MB.
class NameTable {
 public:
  void add(std::string_view name) {
    bytes_ += name;
    ends_.push_back(bytes_.size());
  }
  std::int64_t size() const { return std::int64_t(ends_.size()); }
  bool empty() const { return ends_.empty(); }
  std::string_view operator[](std::int64_t i) const {
    const std::uint64_t begin = i == 0 ? 0 : ends_[std::size_t(i) - 1];
    return std::string_view(bytes_).substr(begin, ends_[std::size_t(i)] - begin);
  }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
};

}  // namespace tr::data

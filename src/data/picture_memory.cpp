// SPDX-License-Identifier: Apache-2.0
#include "data/picture_memory.h"

#include <new>
#include <utility>

#include "core/check.h"
#include "core/format.h"

namespace tr::data {

PictureMemory::PictureMemory(std::shared_ptr<const Dataset> set) : set_(std::move(set)) {
  std::vector<std::vector<std::byte>> others;
  std::vector<std::byte*> out;
  for (const Field& field : set_->fields()) {
    others.emplace_back(std::size_t(bytes_of(field.type)));
    out.push_back(others.back().data());
  }
  EncodedPicture picture;
  const std::int64_t n = set_->num_samples();
  ends_.reserve(std::size_t(n));
  try {
    for (std::int64_t id = 0; id < n; ++id) {
      try {
        set_->read_encoded(id, picture, out);
        bytes_.insert(bytes_.end(), picture.bytes.begin(), picture.bytes.end());
      } catch (const DataError& error) {
        faults_[id] = error.what();
      }
      ends_.push_back(bytes_.size());
    }
  } catch (const std::bad_alloc&) {
    throw_as<OutOfMemory>("dataset {}: memory for {} bytes of pictures ends at sample {} of {}",
                          set_->name(), bytes_.size(), ends_.size(), n);
  }
}

void PictureMemory::read_encoded(std::int64_t id, EncodedPicture& picture,
                                 std::span<std::byte* const> out) const {
  const auto fault = faults_.find(id);
  if (fault != faults_.end()) throw_as<DataError>("{}", fault->second);
  set_->read(id, out);
  const std::uint64_t begin = id == 0 ? 0 : ends_[std::size_t(id) - 1];
  const std::byte* first = bytes_.data() + begin;
  picture.bytes.assign(first, first + (ends_[std::size_t(id)] - begin));
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include "data/picture_memory.h"

#include <new>
#include <utility>

#include "core/check.h"
#include "core/format.h"

namespace tr::data {

PictureMemory::PictureMemory(std::shared_ptr<const Dataset> set, std::int64_t most_bytes)
    : set_(std::move(set)) {
  std::vector<std::vector<std::byte>> others;
  std::vector<std::byte*> out;
  for (const Field& field : set_->fields()) {
    others.emplace_back(std::size_t(bytes_of(field.type)));
    out.push_back(others.back().data());
  }
  EncodedPicture picture;
  const std::int64_t n = set_->num_samples();
  files_.resize(std::size_t(n));
  std::int64_t bytes = 0;
  const auto fail = [&](std::int64_t id) {
    throw_as<OutOfMemory>("dataset {}: memory for {} bytes of pictures ends at sample {} of {}",
                          set_->name(), bytes, id, n);
  };
  for (std::int64_t id = 0; id < n; ++id) {
    try {
      set_->read_encoded(id, picture, out);
      bytes += std::int64_t(picture.bytes.size());
      if (bytes > most_bytes) fail(id);
      files_[std::size_t(id)] = std::vector<std::byte>(picture.bytes.begin(), picture.bytes.end());
    } catch (const DataError& error) {
      faults_[id] = error.what();
    } catch (const std::bad_alloc&) {
      fail(id);
    }
  }
}

std::int64_t PictureMemory::num_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& file : files_) bytes += std::int64_t(file.size());
  return bytes;
}

void PictureMemory::read_encoded(std::int64_t id, EncodedPicture& picture,
                                 std::span<std::byte* const> out) const {
  const auto fault = faults_.find(id);
  if (fault != faults_.end()) throw_as<DataError>("{}", fault->second);
  set_->read(id, out);
  const std::vector<std::byte>& file = files_[std::size_t(id)];
  picture.bytes.assign(file.begin(), file.end());
}

}  // namespace tr::data

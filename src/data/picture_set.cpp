// SPDX-License-Identifier: Apache-2.0
#include "data/picture_set.h"

#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/printable.h"

namespace tr::data {

PictureSet::PictureSet(std::string name, PictureList list, PictureClasses classes, int channels,
                       std::shared_ptr<FileReader> reader)
    : name_(std::move(name)),
      list_(std::move(list)),
      classes_(std::move(classes)),
      channels_(channels),
      reader_(std::move(reader)) {
  TR_ASSERT(list_.size() > 0 && reader_ != nullptr);
  TR_ASSERT(classes_.names.empty() || std::int64_t(classes_.names.size()) == classes_.count);
  TR_CHECK(channels == 1 || channels == 3, "color_channels is {}, expected 1 or 3", channels);
}

std::vector<Field> PictureSet::fields() const {
  return {{"image", {{0, 0, channels_}, DType::UINT8}, true}, {"label", {Shape{}, DType::INT32}}};
}

void PictureSet::read(std::int64_t id, std::span<std::byte* const> out) const {
  TR_ASSERT(id >= 0 && id < list_.size() && out.size() == 2);
  std::memcpy(out[1], &list_.labels[std::size_t(id)], sizeof(std::int32_t));
}

void PictureSet::read_encoded(std::int64_t id, EncodedPicture& picture,
                              std::span<std::byte* const> out) const {
  read(id, out);
  reader_->read(list_.path_of(id), picture.bytes, picture.stop);
}

std::int64_t PictureSet::num_file_bytes() const {
  std::int64_t bytes = 0;
  for (std::int64_t id = 0; id < list_.size(); ++id) {
    std::error_code error;  // reading it tells what is wrong
    const std::uintmax_t size = std::filesystem::file_size(list_.path_of(id), error);
    if (!error) bytes += std::int64_t(size);
  }
  return bytes;
}

std::string PictureSet::sample_name(std::int64_t id) const { return printable(list_.path_of(id)); }

}  // namespace tr::data

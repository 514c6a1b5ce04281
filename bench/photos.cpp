// SPDX-License-Identifier: Apache-2.0
#include "photos.h"

#include <algorithm>
#include <filesystem>

namespace tr::bench {

std::string find_photos() {
  namespace fs = std::filesystem;
  for (fs::path at = fs::current_path(); at.has_relative_path(); at = at.parent_path()) {
    const fs::path folder = at / "build/data/imagenet-sample/train";
    if (fs::is_directory(folder)) return folder.string();
  }
  return "";
}

PlainLibjpeg::PlainLibjpeg() {
  codec_.err = jpeg_std_error(&errors_);
  jpeg_create_decompress(&codec_);
}

PlainLibjpeg::~PlainLibjpeg() { jpeg_destroy_decompress(&codec_); }

void PlainLibjpeg::decode(std::span<const std::byte> file) {
  jpeg_mem_src(&codec_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
  jpeg_read_header(&codec_, TRUE);
  codec_.out_color_space = JCS_RGB;
  jpeg_start_decompress(&codec_);
  const std::size_t stride = 3 * std::size_t(codec_.output_width);
  if (pixels_.size() < stride * codec_.output_height) pixels_.resize(stride * codec_.output_height);
  while (codec_.output_scanline < codec_.output_height) {
    JSAMPROW rows[16];
    for (std::size_t i = 0; i < 16; ++i)
      rows[i] = pixels_.data() + (codec_.output_scanline + i) * stride;
    jpeg_read_scanlines(&codec_, rows,
                        std::min(16u, codec_.output_height - codec_.output_scanline));
  }
  width_ = int(codec_.output_width);
  jpeg_finish_decompress(&codec_);
}

}  // namespace tr::bench

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>  // jpeglib.h needs it
#include <span>
#include <string>
#include <vector>

#include <jpeglib.h>

namespace tr::bench {

/// The photos that tests use, below the nearest build/data above the working directory; "": none.
std::string find_photos();

/// libjpeg-turbo through its own interface, as its manual shows it: one object, full size, all rows
/// to RGB. What decodes of pictures are measured against.
class PlainLibjpeg {
 public:
  PlainLibjpeg();
  ~PlainLibjpeg();
  PlainLibjpeg(const PlainLibjpeg&) = delete;
  PlainLibjpeg& operator=(const PlainLibjpeg&) = delete;

  /// A file that it cannot read ends the program.
  void decode(std::span<const std::byte> file);
  /// Of the last picture.
  int at(int y, int x, int c) const { return pixels_[std::size_t((y * width_ + x) * 3 + c)]; }

 private:
  jpeg_error_mgr errors_{};
  jpeg_decompress_struct codec_{};
  std::vector<unsigned char> pixels_;
  int width_ = 0;
};

}  // namespace tr::bench

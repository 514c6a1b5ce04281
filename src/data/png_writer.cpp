// SPDX-License-Identifier: Apache-2.0
#include "data/png_writer.h"

#include <png.h>

#include <vector>

#include "core/atomic_file.h"
#include "core/check.h"

namespace tr::data {

void write_png(const std::string& path, const ImageRef& image) {
  const ImageShape& shape = image.shape;
  TR_ASSERT(shape.channels == 1 || shape.channels == 3);
  png_image header = {};
  header.version = PNG_IMAGE_VERSION;
  header.height = png_uint_32(shape.height);
  header.width = png_uint_32(shape.width);
  header.format = shape.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  const auto encode = [&](void* out, png_alloc_size_t& bytes) {
    if (png_image_write_to_memory(&header, out, &bytes, /*convert_to_8_bit=*/0, image.pixels,
                                  png_int_32(image.stride), nullptr) == 0) {
      throw_as<DataError>("{}: libpng cannot encode {}x{} pixels: {}", path, shape.height,
                          shape.width, header.message);
    }
  };
  png_alloc_size_t bytes = 0;
  encode(nullptr, bytes);  // asks for the size
  std::vector<std::byte> file(bytes);
  encode(file.data(), bytes);
  write_file_atomically(path, std::span(file.data(), bytes));
}

}  // namespace tr::data

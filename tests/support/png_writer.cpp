// SPDX-License-Identifier: Apache-2.0
#include "support/png_writer.h"

#include <png.h>

#include <array>
#include <cstdio>
#include <cstdlib>

#include "support/jpeg_writer.h"

namespace tr::test {
namespace {

[[noreturn]] void on_error(png_structp, png_const_charp text) {
  std::fprintf(stderr, "make_png: %s\n", text);
  std::abort();  // a fault of the test
}

void on_write(png_structp png, png_bytep data, std::size_t count) {
  auto& out = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  for (std::size_t i = 0; i < count; ++i) out.push_back(std::byte(data[i]));
}

int num_channels(int color_type) {
  switch (color_type) {
    case PNG_COLOR_TYPE_RGB: return 3;
    case PNG_COLOR_TYPE_GRAY_ALPHA: return 2;
    case PNG_COLOR_TYPE_RGB_ALPHA: return 4;
    default: return 1;
  }
}

std::vector<png_byte> packed_row(const PngSpec& spec, int y) {
  std::vector<png_byte> row;
  unsigned held = 0;
  int num_held = 0;
  for (int x = 0; x < spec.width; ++x) {
    for (int c = 0; c < num_channels(spec.color_type); ++c) {
      const unsigned sample = png_sample(y, x, c) & ((1u << spec.bits) - 1);
      held = (held << spec.bits) | sample;
      num_held += spec.bits;
      for (; num_held >= 8; num_held -= 8) row.push_back(png_byte(held >> (num_held - 8)));
    }
  }
  if (num_held > 0) row.push_back(png_byte(held << (8 - num_held)));
  return row;
}

void set_metadata(png_structp png, png_infop info, const PngSpec& spec,
                  std::vector<std::byte>& exif) {
  if (spec.color_type == PNG_COLOR_TYPE_PALETTE) {
    std::array<png_color, 256> palette{};
    const int count = 1 << spec.bits;
    for (int i = 0; i < count; ++i) {
      palette[std::size_t(i)] = {png_palette(i, 0), png_palette(i, 1), png_palette(i, 2)};
    }
    png_set_PLTE(png, info, palette.data(), count);
  }
  if (spec.transparency) {
    png_byte alpha[] = {0, 128};
    png_color_16 color{};
    png_set_tRNS(png, info, alpha, 2, &color);
  }
  if (spec.orientation != 0) {
    exif = exif_app1(spec.orientation, true);
    exif.erase(exif.begin(), exif.begin() + 6);  // "Exif\0\0" is JPEG's
    png_set_eXIf_1(png, info, png_uint_32(exif.size()), reinterpret_cast<png_bytep>(exif.data()));
  }
}

}  // namespace

unsigned png_sample(int y, int x, int channel) {
  return unsigned(y * 9973 + x * 4099 + channel * 20011 + (y * x) * 257) & 0xffffu;
}

std::uint8_t png_palette(int entry, int channel) {
  return std::uint8_t(entry * (37 + 20 * channel) + 11);
}

std::vector<std::byte> make_png(const PngSpec& spec) {
  std::vector<std::byte> out, exif;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, on_error, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &out, on_write, nullptr);
  png_set_IHDR(png, info, png_uint_32(spec.width), png_uint_32(spec.height), spec.bits,
               spec.color_type, spec.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  set_metadata(png, info, spec, exif);
  png_write_info(png, info);
  std::vector<std::vector<png_byte>> rows;
  std::vector<png_bytep> pointers;
  for (int y = 0; y < spec.height; ++y) rows.push_back(packed_row(spec, y));
  for (auto& row : rows) pointers.push_back(row.data());
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace tr::test

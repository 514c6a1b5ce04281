// SPDX-License-Identifier: Apache-2.0
#include "support/jpeg_writer.h"

#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace tr::test {
namespace {

struct ColorRow {
  J_COLOR_SPACE in, stored;
  int channels;
};
ColorRow color_row(JpegSpec::Color color) {
  switch (color) {
    case JpegSpec::Color::GRAY: return {JCS_GRAYSCALE, JCS_GRAYSCALE, 1};
    case JpegSpec::Color::RGB: return {JCS_RGB, JCS_RGB, 3};
    case JpegSpec::Color::CMYK: return {JCS_CMYK, JCS_CMYK, 4};
    case JpegSpec::Color::YCCK: return {JCS_CMYK, JCS_YCCK, 4};
    default: return {JCS_RGB, JCS_YCbCr, 3};
  }
}

[[noreturn]] void on_error(j_common_ptr codec) {
  char text[JMSG_LENGTH_MAX];
  codec->err->format_message(codec, text);
  std::fprintf(stderr, "make_jpeg: %s\n", text);
  std::abort();  // a fault of the test
}

void set_parameters(jpeg_compress_struct& codec, const JpegSpec& spec,
                    std::array<jpeg_scan_info, 4>& scans) {
  const ColorRow color = color_row(spec.color);
  codec.image_width = JDIMENSION(spec.width);
  codec.image_height = JDIMENSION(spec.height);
  codec.input_components = color.channels;
  codec.in_color_space = color.in;
  jpeg_set_defaults(&codec);
  jpeg_set_colorspace(&codec, color.stored);
  jpeg_set_quality(&codec, spec.quality, TRUE);
  for (int c = 0; c < codec.num_components; ++c) {
    // Black of YCCK is as large as the luma.
    const bool is_full = c == 0 || c == 3;
    codec.comp_info[c].h_samp_factor = is_full ? spec.h_samp : 1;
    codec.comp_info[c].v_samp_factor = is_full ? spec.v_samp : 1;
  }
  codec.restart_in_rows = spec.restart_rows;
  codec.restart_interval = unsigned(spec.restart_mcus);
  codec.arith_code = spec.arithmetic ? TRUE : FALSE;
  if (spec.progressive) jpeg_simple_progression(&codec);
  if (spec.separate_scans) {
    for (int c = 0; c < codec.num_components; ++c) {
      scans[std::size_t(c)] = {1, {c, 0, 0, 0}, 0, 63, 0, 0};
    }
    codec.scan_info = scans.data();
    codec.num_scans = codec.num_components;
  }
}

}  // namespace

std::uint8_t texture(int y, int x, int channel) {
  const double wave = 60 * std::sin(x / (5.0 + channel)) + 50 * std::cos(y / (7.0 - channel));
  const unsigned mixed = unsigned(y * 7919 + x * 104729 + channel * 31) * 2654435761u;
  return std::uint8_t(128 + wave + int(mixed >> 27) - 16);
}

std::vector<std::byte> make_jpeg(const JpegSpec& spec) {
  jpeg_compress_struct codec{};
  jpeg_error_mgr errors{};
  codec.err = jpeg_std_error(&errors);
  errors.error_exit = on_error;
  jpeg_create_compress(&codec);
  unsigned char* data = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&codec, &data, &size);
  std::array<jpeg_scan_info, 4> scans{};
  set_parameters(codec, spec, scans);
  jpeg_start_compress(&codec, TRUE);
  if (!spec.app1.empty()) {
    jpeg_write_marker(&codec, JPEG_APP0 + 1, reinterpret_cast<const JOCTET*>(spec.app1.data()),
                      unsigned(spec.app1.size()));
  }
  const auto pixel = spec.pixel ? spec.pixel : texture;
  std::vector<JSAMPLE> row(std::size_t(spec.width) * std::size_t(codec.input_components));
  for (int y = 0; y < spec.height; ++y) {
    std::size_t at = 0;
    for (int x = 0; x < spec.width; ++x) {
      for (int c = 0; c < codec.input_components; ++c) row[at++] = pixel(y, x, c);
    }
    JSAMPROW rows[] = {row.data()};
    jpeg_write_scanlines(&codec, rows, 1);
  }
  jpeg_finish_compress(&codec);
  jpeg_destroy_compress(&codec);
  std::vector<std::byte> bytes(size);
  std::memcpy(bytes.data(), data, size);
  std::free(data);
  return bytes;
}

std::vector<std::byte> exif_app1(int orientation, bool big_endian) {
  std::vector<std::byte> out;
  const auto put = [&](unsigned value, int count) {
    for (int i = 0; i < count; ++i) {
      out.push_back(std::byte(value >> (8 * (big_endian ? count - 1 - i : i))));
    }
  };
  for (const char c : {'E', 'x', 'i', 'f', '\0', '\0'}) out.push_back(std::byte(c));
  for (int i = 0; i < 2; ++i) out.push_back(std::byte(big_endian ? 'M' : 'I'));
  put(42, 2);
  put(8, 4);                                        // the directory follows
  put(2, 2);                                        // entries
  put(0x010f, 2), put(2, 2), put(2, 4), put(0, 4);  // maker: an empty text
  put(0x0112, 2), put(3, 2), put(1, 4), put(unsigned(orientation), 2), put(0, 2);
  put(0, 4);  // no further directory
  return out;
}

}  // namespace tr::test

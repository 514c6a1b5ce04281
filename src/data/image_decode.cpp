// SPDX-License-Identifier: Apache-2.0
#include "data/image_decode.h"

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "core/check.h"
#include "data/formats/image_format.h"
#include "data/formats/jpeg.h"
#include "data/formats/png.h"
#include "data/transforms/pixel_step.h"

namespace tr::data {
namespace {

constexpr ImageFormat kFormats[] = {kJpegFormat, kPngFormat};

bool starts_with(std::span<const std::byte> bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

/// What a file is that no decoder reads, for the message: the usual finds in folders of pictures.
std::string kind_of(std::span<const std::byte> bytes) {
  using namespace std::string_view_literals;
  constexpr std::pair<std::string_view, const char*> kKnown[] = {
      {"BM"sv, "a BMP picture"},
      {"GIF8"sv, "a GIF picture"},
      {"\x1f\x8b"sv, "a gzip file"},
      {"II*\0"sv, "a TIFF picture"},
      {"MM\0*"sv, "a TIFF picture"},
      {"RIFF"sv, "a RIFF file (WebP?)"},
      {"<"sv, "a text (HTML, XML or SVG)"},
      {"%PDF"sv, "a PDF document"},
      {"PK\x03\x04"sv, "a zip archive"}};
  for (const auto& [magic, kind] : kKnown) {
    if (starts_with(bytes, magic)) return kind;
  }
  std::string text = "something else (it starts with";
  for (std::size_t i = 0; i < std::min<std::size_t>(bytes.size(), 4); ++i) {
    text += fmt::format(" {:02x}", std::uint32_t(bytes[i]));
  }
  return text + ")";
}

/// How an upright picture lies in the stored one: its axes may be swapped, and stored columns and
/// rows may run backwards. Source: EXIF 2.32, tag 0x0112.
struct Turn {
  bool swap_axes = false, flip_x = false, flip_y = false;
};
Turn turn_of(int orientation) {
  constexpr std::array<Turn, 9> kTurns{{{},
                                        {},
                                        {false, true, false},
                                        {false, true, true},
                                        {false, false, true},
                                        {true, false, false},
                                        {true, false, true},
                                        {true, true, true},
                                        {true, true, false}}};
  return kTurns[std::size_t(orientation)];
}

/// The same rectangle in the other of both systems, of which the stored one is `width` x `height`.
PixelRect stored_rect(PixelRect upright, const Turn& turn, int width, int height) {
  PixelRect r = upright;
  if (turn.swap_axes) r = {r.y, r.x, r.height, r.width};
  if (turn.flip_x) r.x = width - r.x - r.width;
  if (turn.flip_y) r.y = height - r.y - r.height;
  return r;
}
PixelRect upright_rect(PixelRect r, const Turn& turn, int width, int height) {
  if (turn.flip_x) r.x = width - r.x - r.width;
  if (turn.flip_y) r.y = height - r.y - r.height;
  return turn.swap_axes ? PixelRect{r.y, r.x, r.height, r.width} : r;
}

}  // namespace

void DecodeOptions::validate() const {
  TR_CHECK(color_channels == 1 || color_channels == 3, "color_channels is {}, expected 1 or 3",
           color_channels);
  TR_CHECK(max_pixels > 0, "max_pixels is {}, must be positive", max_pixels);
}

std::uint8_t* PixelBuffer::reserve(std::size_t bytes) {
  if (bytes + kImageSlack > num_bytes_) {
    data_.reset();  // before the new memory is taken
    num_bytes_ = 0;
    data_ = std::make_unique<std::uint8_t[]>(bytes + kImageSlack);
    num_bytes_ = bytes + kImageSlack;
  }
  return data_.get();
}

void check_size(const EncodedImage& image, std::int64_t width, std::int64_t height,
                const DecodeOptions& options) {
  if (width >= 1 && height >= 1 && height <= options.max_pixels / width) return;
  throw_as<DataError>("{}: the header says {}x{} pixels, from 1 to {} in all are accepted",
                      image.who, width, height, options.max_pixels);
}

ImageDecoder::ImageDecoder(const DecodeOptions& options) : options_(options) {
  options_.validate();
  for (const ImageFormat& format : kFormats) decoders_.push_back(format.make_decoder(options_));
  upright_ = std::make_unique<PixelBuffer>();
}

ImageDecoder::~ImageDecoder() = default;

const ImageInfo& ImageDecoder::open(const EncodedImage& image) {
  current_ = nullptr;
  if (image.bytes.empty()) throw_as<DataError>("{}: the file is empty", image.who);
  for (std::size_t i = 0; i < std::size(kFormats); ++i) {
    if (!kFormats[i].matches(image.bytes)) continue;
    info_ = decoders_[i]->open(image);
    if (options_.exif == ExifPolicy::IGNORE) info_.orientation = 1;
    if (turn_of(info_.orientation).swap_axes) std::swap(info_.width, info_.height);
    who_ = image.who;
    current_ = decoders_[i].get();
    return info_;
  }
  throw_as<DataError>("{}: the file is {}, neither JPEG nor PNG", image.who, kind_of(image.bytes));
}

DecodedImage ImageDecoder::decode(const DecodeRequest& request) {
  TR_CHECK(current_ != nullptr, "decode() must follow an open() that found a picture");
  const PixelRect whole{0, 0, info_.width, info_.height};
  const PixelRect crop = request.crop.value_or(whole);
  TR_CHECK(crop.x >= 0 && crop.y >= 0 && crop.width >= 1 && crop.height >= 1 &&
               crop.width <= info_.width - crop.x && crop.height <= info_.height - crop.y,
           "{}: the crop is {}x{} at column {}, row {}, the picture is {}x{}", who_, crop.width,
           crop.height, crop.x, crop.y, info_.width, info_.height);
  const Turn turn = turn_of(info_.orientation);
  int stored_width = info_.width, stored_height = info_.height;
  int target_width = request.target_width, target_height = request.target_height;
  if (turn.swap_axes) {
    std::swap(stored_width, stored_height);
    std::swap(target_width, target_height);
  }
  FormatDecoder& decoder = *std::exchange(current_, nullptr);
  const DecodedImage stored = decoder.decode(stored_rect(crop, turn, stored_width, stored_height),
                                             target_width, target_height);
  return info_.orientation == 1 ? stored : turn_upright(stored);
}

DecodedImage ImageDecoder::turn_upright(const DecodedImage& stored) {
  const Turn turn = turn_of(info_.orientation);
  const Pixels& in = stored.pixels;
  DecodedImage upright = stored;
  Pixels& out = upright.pixels;
  if (turn.swap_axes) std::swap(out.width, out.height);
  const std::size_t channels = std::size_t(in.channels);
  out.row_stride = std::size_t(out.width) * channels;
  out.data = upright_->reserve(out.row_stride * std::size_t(out.height));
  for (int y = 0; y < out.height; ++y) {
    std::uint8_t* to = out.data + std::size_t(y) * out.row_stride;
    for (int x = 0; x < out.width; ++x, to += channels) {
      int column = turn.swap_axes ? y : x, row = turn.swap_axes ? x : y;
      if (turn.flip_x) column = in.width - 1 - column;
      if (turn.flip_y) row = in.height - 1 - row;
      const std::uint8_t* from =
          in.data + std::size_t(row) * in.row_stride + std::size_t(column) * channels;
      for (std::size_t c = 0; c < channels; ++c) to[c] = from[c];
    }
  }
  upright.crop_eighths = upright_rect(stored.crop_eighths, turn, 8 * in.width, 8 * in.height);
  return upright;
}

std::int64_t ImageDecoder::memory_bytes() const {
  std::size_t bytes = upright_->num_bytes();
  for (const auto& decoder : decoders_) bytes += decoder->memory_bytes();
  return std::int64_t(bytes);
}

ImageInfo probe_image(const EncodedImage& image, const DecodeOptions& options) {
  return ImageDecoder(options).open(image);
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include "data/formats/png.h"

#include <png.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "core/check.h"
#include "data/formats/c_errors.h"
#include "data/formats/exif.h"

namespace tr::data {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::uint64_t kMaxDeflateRatio = 1032;
constexpr png_alloc_size_t kMaxChunkBytes = 8 << 20;  // of metadata, once inflated

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  static_cast<CErrors*>(png_get_error_ptr(png))->raise(text);
}
void on_warning(png_structp png, png_const_charp text) {
  static_cast<CErrors*>(png_get_error_ptr(png))->warn(text);
}

void on_read(png_structp png, png_bytep out, std::size_t count) {
  auto& left = *static_cast<std::span<const std::byte>*>(png_get_io_ptr(png));
  if (count > left.size()) png_error(png, "the file ends early");
  if (count > 0) std::memcpy(out, left.data(), count);
  left = left.subspan(count);
}

/// What libpng does not tell before the pixels are read.
struct PngLayout {
  int orientation = 1;   // of eXIf, which may follow the pixels
  bool has_end = false;  // IEND: the file was not cut
};

PngLayout png_layout(std::span<const std::byte> bytes) {
  PngLayout layout;
  std::size_t at = kSignatureBytes;
  constexpr std::size_t kFrame = 12;  // length, type, CRC
  while (at <= bytes.size() && bytes.size() - at >= kFrame) {
    const auto* head = reinterpret_cast<const png_byte*>(bytes.data() + at);
    const std::size_t length = png_get_uint_32(head);
    if (length > bytes.size() - at - kFrame) break;
    if (std::memcmp(head + 4, "eXIf", 4) == 0) {
      layout.orientation = exif_orientation(bytes.subspan(at + 8, length));
    }
    layout.has_end = std::memcmp(head + 4, "IEND", 4) == 0;
    if (layout.has_end) break;
    at += kFrame + length;
  }
  return layout;
}

class PngDecoder final : public FormatDecoder {
 public:
  explicit PngDecoder(const DecodeOptions& options) : FormatDecoder(options) {}
  ~PngDecoder() override { close(); }

  ImageInfo open(const EncodedImage& image) override;
  DecodedImage decode(const PixelRect& crop, int target_width, int target_height) override;
  std::size_t memory_bytes() const override {
    return pixels_.num_bytes() + whole_.num_bytes() + rows_.capacity() * sizeof(png_bytep);
  }

 private:
  void create();
  void close() { png_destroy_read_struct(&png_, &info_, nullptr); }
  void check_header(std::uint32_t width, std::uint32_t height) const;
  void set_up();
  void read_interlaced();
  void read_lines(const PixelRect& crop);
  void keep(const std::uint8_t* row, const PixelRect& crop, int y);
  [[noreturn]] void fail(const char* part);

  EncodedImage image_;
  std::span<const std::byte> left_;  // of its bytes
  PngLayout layout_;
  CErrors errors_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int height_ = 0, num_passes_ = 1;
  int row_channels_ = 0;       // of a row as libpng gives it: 1 or 3
  std::size_t row_bytes_ = 0;  // as libpng gives it
  PixelBuffer pixels_;         // the crop
  PixelBuffer whole_;          // a row, or all of an interlaced picture
  std::vector<png_bytep> rows_;
};

void PngDecoder::create() {
  close();
  errors_.reset();
  const bool good = errors_.run([&] {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &errors_, on_error, on_warning);
    if (png_ == nullptr) errors_.raise("no memory");
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) errors_.raise("no memory");
    png_set_read_fn(png_, &left_, on_read);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_header() has ours
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    // Texts and profiles are not needed, and may be bombs.
    static constexpr png_byte kIgnored[] = "iCCP\0iTXt\0tEXt\0zTXt\0sPLT";
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, kIgnored, 5);
  });
  if (!good) fail("header");
}

void PngDecoder::fail(const char* part) {
  const std::uint32_t row = png_ != nullptr ? png_get_current_row_number(png_) : 0;
  const int height = height_;
  close();
  if (height == 0) {
    throw_as<DataError>("{}: the PNG {} is damaged or cut ({})", image_.who, part, errors_.text());
  }
  throw_as<DataError>("{}: the PNG {} is damaged or cut at row {} of {} ({})", image_.who, part,
                      row, height, errors_.text());
}

ImageInfo PngDecoder::open(const EncodedImage& image) {
  image_ = image;
  left_ = image.bytes;
  height_ = 0;
  create();
  if (!errors_.run([&] { png_read_info(png_, info_); })) fail("header");
  const std::uint32_t width = png_get_image_width(png_, info_);
  const std::uint32_t height = png_get_image_height(png_, info_);
  check_header(width, height);
  height_ = int(height);
  layout_ = png_layout(image.bytes);
  const bool is_palette = png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE;
  return {.format = kPngFormat.name,
          .height = int(height),
          .width = int(width),
          .channels = is_palette ? 3 : png_get_channels(png_, info_),
          .bits = png_get_bit_depth(png_, info_),
          .orientation = layout_.orientation,
          .progressive = png_get_interlace_type(png_, info_) != PNG_INTERLACE_NONE};
}

void PngDecoder::check_header(std::uint32_t width, std::uint32_t height) const {
  check_size(image_, width, height, options());
  const std::uint64_t needed = std::uint64_t(png_get_rowbytes(png_, info_)) * height;
  const std::uint64_t most = kMaxDeflateRatio * (image_.bytes.size() + 64);
  if (needed > most) {
    throw_as<DataError>(
        "{}: the header says {}x{} pixels ({} bytes), {} bytes inflate to {} at most", image_.who,
        width, height, needed, image_.bytes.size(), most);
  }
}

void PngDecoder::set_up() {
  const bool wants_gray = options().color_channels == 1;
  const bool good = errors_.run([&] {
    const int color = png_get_color_type(png_, info_), bits = png_get_bit_depth(png_, info_);
    if (bits == 16) png_set_strip_16(png_);
    if (color == PNG_COLOR_TYPE_PALETTE) {
      png_set_palette_to_rgb(png_);
    } else if (bits < 8) {
      png_set_expand_gray_1_2_4_to_8(png_);
    }
    png_set_strip_alpha(png_);  // tRNS becomes alpha where it is expanded
    if (!wants_gray) png_set_gray_to_rgb(png_);
    num_passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    row_channels_ = png_get_channels(png_, info_);
    row_bytes_ = png_get_rowbytes(png_, info_);
  });
  if (!good) fail("data");
  TR_ASSERT(row_channels_ == 3 || (wants_gray && row_channels_ == 1));
}

/// The crop's part of row y of the picture.
void PngDecoder::keep(const std::uint8_t* row, const PixelRect& crop, int y) {
  const std::size_t channels = std::size_t(options().color_channels);
  const std::size_t stride = std::size_t(crop.width) * channels;
  std::uint8_t* out = pixels_.reserve(0) + std::size_t(y - crop.y) * stride;
  row += std::size_t(crop.x) * std::size_t(row_channels_);
  if (row_channels_ == options().color_channels) {
    std::memcpy(out, row, stride);
    return;
  }
  for (int x = 0; x < crop.width; ++x, row += 3) out[x] = luma_of(row[0], row[1], row[2]);
}

void PngDecoder::read_interlaced() {
  std::uint8_t* whole = whole_.reserve(row_bytes_ * std::size_t(height_));
  rows_.resize(std::size_t(height_));
  for (std::size_t y = 0; y < rows_.size(); ++y) rows_[y] = whole + y * row_bytes_;
  const bool good = errors_.run([&] {
    png_read_image(png_, rows_.data());
    png_read_end(png_, nullptr);
  });
  if (!good) fail("data");
}

void PngDecoder::read_lines(const PixelRect& crop) {
  std::uint8_t* row = whole_.reserve(row_bytes_);
  const int bottom = crop.y + crop.height;
  const int end = options().decode_crop_only ? bottom : height_;
  const bool good = errors_.run([&] {
    for (int y = 0; y < end; ++y) {
      png_read_row(png_, row, nullptr);
      if (y >= crop.y && y < bottom) keep(row, crop, y);
    }
    if (end == height_) png_read_end(png_, nullptr);
  });
  if (!good) fail("data");
}

DecodedImage PngDecoder::decode(const PixelRect& crop, int /*target_width*/,
                                int /*target_height*/) {
  if (!layout_.has_end) {
    close();
    throw_as<DataError>("{}: the PNG is cut: there is no IEND", image_.who);
  }
  set_up();
  const int channels = options().color_channels;
  const std::size_t stride = std::size_t(crop.width) * std::size_t(channels);
  std::uint8_t* data = pixels_.reserve(stride * std::size_t(crop.height));
  if (num_passes_ == 1) {
    read_lines(crop);
  } else {
    read_interlaced();
    for (int y = crop.y; y < crop.y + crop.height; ++y) keep(rows_[std::size_t(y)], crop, y);
  }
  close();
  return {.pixels = {data, crop.height, crop.width, channels, stride},
          .scale = 8,
          .crop_eighths = {0, 0, 8 * crop.width, 8 * crop.height},
          .warnings = errors_.warnings(),
          .first_warning = errors_.first_warning()};
}

}  // namespace

bool is_png(std::span<const std::byte> bytes) {
  return bytes.size() >= kSignatureBytes &&
         png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, kSignatureBytes) == 0;
}

std::unique_ptr<FormatDecoder> make_png_decoder(const DecodeOptions& options) {
  return std::make_unique<PngDecoder>(options);
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "renaissance/data/dataset.h"

namespace tr::data {

class FormatDecoder;
class PixelBuffer;
struct ScanMarks;

/// A picture file's bytes, and what messages call it (its path). All must outlive the decoding.
struct EncodedImage {
  std::span<const std::byte> bytes;
  std::string_view who = "image";
  ScanMarks* marks = nullptr;  // what decodes of these bytes found so far; this one adds to it
};

/// Interleaved pixels somewhere in memory: pixel (y, x) starts at data + y * row_stride + x *
/// channels. At least kImageSlack bytes behind the last row may be read.
struct Pixels {
  std::uint8_t* data = nullptr;
  int height = 0, width = 0, channels = 0;
  std::size_t row_stride = 0;  // bytes
};

struct PixelRect {
  int x = 0, y = 0, width = 0, height = 0;
  bool operator==(const PixelRect&) const = default;
};

using tr::ExifPolicy;

/// How a decoder works: the same for all pictures of a set.
struct DecodeOptions {
  int color_channels = 3;  // 1 or 3
  ExifPolicy exif = ExifPolicy::APPLY;
  bool decode_crop_only = true;  // only the rows and columns that the crop needs; the same pixels
  bool dct_scaling = true;       // a JPEG whose crop is shrunk is decoded smaller
  bool fast_dct = false;         // JPEG: the less exact DCT and plain chroma upsampling
  bool own_huffman = true;       // JPEG: codes of baseline pictures are not left to libjpeg
  bool remember_rows = true;     // JPEGs that random crops begin with: rows' places are kept
  // The limit at which Pillow, too, speaks of a decompression bomb.
  std::int64_t max_pixels = 178'956'970;

  void validate() const;  // throws InvalidArgument
};

/// What a file's header says.
struct ImageInfo {
  std::string_view format;    // "JPEG", "PNG"
  int height = 0, width = 0;  // of the whole picture as decode() gives it (upright)
  int channels = 0;          // as stored: 1 gray, 2 gray with alpha, 3 RGB or palette, 4 CMYK, RGBA
  int bits = 8;              // of a sample, as stored
  int orientation = 1;       // EXIF, 1..8; 1 where there is none or no valid one
  bool progressive = false;  // JPEG of several scans, interlaced PNG
};

/// Which part of a picture is wanted, and how large it will be afterwards.
struct DecodeRequest {
  std::optional<PixelRect> crop;  // of the upright picture; none: all of it
  /// What the crop is resized to, with antialias; 0: it is not resized. Leave it 0 for a resize
  /// without antialias: that one's result depends on pixels which a smaller decode lacks.
  int target_width = 0, target_height = 0;
};

/// Decoded pixels and where they lie in the picture.
struct DecodedImage {
  Pixels pixels;  // memory of the decoder, valid until its next call
  /// Size of a pixel: scale / 8 pixels of the result stand for one of the picture. 8: full size,
  /// and then `pixels` are the crop and nothing else.
  int scale = 8;
  /// The crop within `pixels`, in eighths of a pixel: {0, 0, 8 * width, 8 * height} at full size.
  /// Of a smaller decode the edges may lie within a pixel: crop edge c of the picture lies at c *
  /// scale eighths, exactly.
  PixelRect crop_eighths;
  bool own_huffman = false;        // codes were read as DecodeOptions::own_huffman says
  bool rows_by_marks = false;      // rows were gone to where EncodedImage::marks has them
  std::int64_t paired_rows = 0;    // rows of MCUs that were decoded beside an earlier one
  int warnings = 0;                // of the format's library about this picture, pixels intact
  std::string_view first_warning;  // empty if there was none
};

/// Decodes pictures one after the other: formats are told by content. One per thread; its buffers
/// grow to the largest picture and stay. After that a decode allocates only inside libjpeg and
/// libpng (a few pools a picture).
class ImageDecoder {
 public:
  /// @throws InvalidArgument  the options.
  explicit ImageDecoder(const DecodeOptions& options = {});
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  /// Reads the header; the next decode() is about this picture.
  /// @throws DataError  the format is unknown, the header damaged, or the picture too large.
  const ImageInfo& open(const EncodedImage& image);

  /// Once after each open().
  /// @throws DataError  the data is damaged or cut; says in which row.
  /// @throws InvalidArgument  the crop does not lie in the picture.
  DecodedImage decode(const DecodeRequest& request = {});

  const DecodeOptions& options() const { return options_; }
  /// Memory held between pictures, that of libjpeg and libpng aside.
  std::int64_t memory_bytes() const;

 private:
  DecodedImage turn_upright(const DecodedImage& stored);

  DecodeOptions options_;
  std::vector<std::unique_ptr<FormatDecoder>> decoders_;  // one a format
  FormatDecoder* current_ = nullptr;                      // of the open picture
  std::string_view who_;
  ImageInfo info_;
  std::unique_ptr<PixelBuffer> upright_;
};

/// The header alone. @throws DataError  see ImageDecoder::open().
ImageInfo probe_image(const EncodedImage& image, const DecodeOptions& options = {});

}  // namespace tr::data

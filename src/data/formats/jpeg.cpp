// SPDX-License-Identifier: Apache-2.0
#include "data/formats/jpeg.h"

#include <cstdio>  // jpeglib.h needs it

#include <jpeglib.h>

#include <jerror.h>  // needs jpeglib.h

#include <algorithm>
#include <bitset>
#include <span>

#include "core/check.h"
#include "data/formats/c_errors.h"
#include "data/formats/jpeg_entropy.h"
#include "data/formats/jpeg_segments.h"

namespace tr::data {
namespace {

// Of the columns and rows around a crop that smooth chroma upsampling looks at, in output pixels.
constexpr int kContext = 2;
// More are an attack: each walks over the whole picture.
constexpr int kMaxScans = 100;
constexpr int kRowsPerCall = 16;

/// Warnings of libjpeg after which pixels are not those of the picture.
bool is_damage(int code) {
  return code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_ARITH_BAD_CODE ||
         code == JWRN_BOGUS_PROGRESSION || code == JWRN_MUST_RESYNC;
}

CErrors& errors_of(j_common_ptr codec) {
  return static_cast<JpegClient*>(codec->client_data)->errors;
}

void on_error(j_common_ptr codec) {
  char text[JMSG_LENGTH_MAX];
  codec->err->format_message(codec, text);
  errors_of(codec).raise(text);
}

void on_message(j_common_ptr codec, int level) {
  if (level >= 0) return;  // traces
  if (is_damage(codec->err->msg_code)) on_error(codec);
  char text[JMSG_LENGTH_MAX];
  codec->err->format_message(codec, text);
  errors_of(codec).warn(text);
}

void on_progress(j_common_ptr codec) {
  if (reinterpret_cast<j_decompress_ptr>(codec)->input_scan_number > kMaxScans) {
    errors_of(codec).raise("more than 100 scans");
  }
}

/// Bytes in memory. At their end libjpeg gets an end marker; `ran_out` remembers that.
struct MemorySource {
  jpeg_source_mgr base{};
  bool ran_out = false;
};

void ignore(j_decompress_ptr) {}

boolean fill_input(j_decompress_ptr codec) {
  static constexpr JOCTET kEnd[] = {0xff, JPEG_EOI};
  auto* source = reinterpret_cast<MemorySource*>(codec->src);
  source->ran_out = true;
  source->base.next_input_byte = kEnd;
  source->base.bytes_in_buffer = sizeof(kEnd);
  return TRUE;
}

void skip_input(j_decompress_ptr codec, long count) {
  jpeg_source_mgr& source = *codec->src;
  if (count <= 0) return;
  if (std::size_t(count) > source.bytes_in_buffer) {
    fill_input(codec);
    return;
  }
  source.next_input_byte += count;
  source.bytes_in_buffer -= std::size_t(count);
}

/// Inverted CMYK to RGB, rounded as Pillow rounds it.
void rgb_of_cmyk(const std::uint8_t* cmyk, int width, std::uint8_t* out, int channels) {
  const auto times = [](int a, int b) {
    const int product = a * b + 128;
    return ((product >> 8) + product) >> 8;
  };
  for (int x = 0; x < width; ++x, cmyk += 4, out += channels) {
    const int light = cmyk[3];
    int rgb[3];
    for (int c = 0; c < 3; ++c) rgb[c] = light - times(255 - cmyk[c], light);
    if (channels == 1) {
      out[0] = luma_of(rgb[0], rgb[1], rgb[2]);
    } else {
      for (int c = 0; c < 3; ++c) out[c] = std::uint8_t(rgb[c]);
    }
  }
}

/// libjpeg's own goes byte by byte.
void rgb_of_gray(const std::uint8_t* gray, int width, std::uint8_t* out) {
  for (int x = 0; x < width; ++x) out[3 * x] = out[3 * x + 1] = out[3 * x + 2] = gray[x];
}

int ceil_eighths(int value) { return (value + 7) / 8; }

/// BaselineScan gave up, or libjpeg did behind it.
struct UnusualData {};

class JpegDecoder final : public FormatDecoder {
 public:
  explicit JpegDecoder(const DecodeOptions& options) : FormatDecoder(options) {
    source_.base.init_source = ignore;
    source_.base.fill_input_buffer = fill_input;
    source_.base.skip_input_data = skip_input;
    source_.base.resync_to_restart = jpeg_resync_to_restart;
    source_.base.term_source = ignore;
    progress_.progress_monitor = on_progress;
  }
  ~JpegDecoder() override { close(); }

  ImageInfo open(const EncodedImage& image) override;
  DecodedImage decode(const PixelRect& crop, int target_width, int target_height) override;
  std::size_t memory_bytes() const override {
    return pixels_.num_bytes() + rows_.num_bytes() + client_.scan.memory_bytes();
  }

 private:
  /// A fresh object a picture: libjpeg's would remember tables of the last one.
  void create();
  void close();
  void check_header() const;
  void start(int scale);
  void check_scans() const;
  bool has_all_bits() const;
  bool is_upsampled(const jpeg_component_info& info) const;
  int context() const;
  bool can_cut_columns() const;
  DecodedImage decode_once(const PixelRect& crop, int scale);
  void read_rows(JDIMENSION last, std::uint8_t* data, std::size_t stride);
  void finish();
  bool covers(int scale, const PixelRect& crop, int target_width, int target_height);
  int choose_scale(const PixelRect& crop, int target_width, int target_height);
  [[noreturn]] void fail_in_header();
  [[noreturn]] void fail_in_data();
  [[noreturn]] void fail_with(std::string_view reason);

  EncodedImage image_;
  JpegLayout layout_;
  JpegClient client_;
  CErrors& errors_ = client_.errors;
  bool own_entropy_ = false;  // client_.scan decodes the open picture
  jpeg_error_mgr error_mgr_{};
  MemorySource source_;
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct codec_{};
  bool exists_ = false;        // codec_
  PixelBuffer pixels_, rows_;  // rows_: of libjpeg, if it is not to write RGB
};

void JpegDecoder::create() {
  close();
  errors_.reset();
  codec_ = {};
  codec_.err = jpeg_std_error(&error_mgr_);
  error_mgr_.error_exit = on_error;
  error_mgr_.emit_message = on_message;
  codec_.client_data = &client_;  // kept by jpeg_create_decompress()
  if (!errors_.run([&] { jpeg_create_decompress(&codec_); })) fail_in_header();
  exists_ = true;
  codec_.src = &source_.base;
  codec_.progress = &progress_;
}

void JpegDecoder::close() {
  own_entropy_ = false;
  if (exists_) jpeg_destroy_decompress(&codec_);
  exists_ = false;
}

void JpegDecoder::fail_in_header() {
  close();
  throw_as<DataError>("{}: the JPEG header is damaged or cut ({})", image_.who, errors_.text());
}

void JpegDecoder::fail_in_data() {
  if (own_entropy_) throw UnusualData();
  fail_with(errors_.text());
}

void JpegDecoder::fail_with(std::string_view reason) {
  const auto row = std::min<std::int64_t>(
      std::int64_t(codec_.input_iMCU_row) * codec_.max_v_samp_factor * DCTSIZE,
      codec_.image_height);
  const int scan = codec_.input_scan_number, height = int(codec_.image_height);
  close();
  throw_as<DataError>("{}: the JPEG data is damaged or cut at row {} of {}{} ({})", image_.who, row,
                      height, scan > 1 ? fmt::format(" of scan {}", scan) : "", reason);
}

ImageInfo JpegDecoder::open(const EncodedImage& image) {
  image_ = image;
  create();
  source_.base.next_input_byte = reinterpret_cast<const JOCTET*>(image.bytes.data());
  source_.base.bytes_in_buffer = image.bytes.size();
  source_.ran_out = false;
  if (!errors_.run([&] { jpeg_read_header(&codec_, TRUE); })) fail_in_header();
  check_header();
  layout_ = jpeg_layout(image.bytes);
  return {.format = kJpegFormat.name,
          .height = int(codec_.image_height),
          .width = int(codec_.image_width),
          .channels = codec_.num_components,
          .bits = codec_.data_precision,
          .orientation = layout_.orientation,
          .progressive = jpeg_has_multiple_scans(&codec_) != FALSE};
}

void JpegDecoder::check_header() const {
  check_size(image_, codec_.image_width, codec_.image_height, options());
  const int count = codec_.num_components;
  if (count != 1 && count != 3 && count != 4) {
    throw_as<DataError>("{}: the JPEG has {} components, expected 1, 3 or 4", image_.who, count);
  }
  // Huffman codes take a bit or more for each block of 64 pixels of at least one component.
  const std::uint64_t pixels = std::uint64_t(codec_.image_width) * codec_.image_height;
  const std::uint64_t most = 1024 * std::uint64_t(image_.bytes.size()) + 65536;
  if (codec_.arith_code == FALSE && pixels > most) {
    throw_as<DataError>("{}: the header says {}x{} pixels, {} bytes hold {} at most", image_.who,
                        codec_.image_width, codec_.image_height, image_.bytes.size(), most);
  }
}

bool JpegDecoder::covers(int scale, const PixelRect& crop, int target_width, int target_height) {
  codec_.scale_num = unsigned(scale);
  codec_.scale_denom = 8;
  if (!errors_.run([&] { jpeg_calc_output_dimensions(&codec_); })) fail_in_header();
  // Eighths of the picture's resolution, of the coarsest component: chroma that is subsampled along
  // one axis alone is decoded smaller than the luma.
  int across = 8, down = 8;
  for (int c = 0; c < codec_.num_components; ++c) {
    const jpeg_component_info& info = codec_.comp_info[c];
    across = std::min(across, info.DCT_scaled_size * info.h_samp_factor / codec_.max_h_samp_factor);
    down = std::min(down, info.DCT_scaled_size * info.v_samp_factor / codec_.max_v_samp_factor);
  }
  // Half as much again as the target stays, since a decode that only just covers it is visibly
  // sharper than the resize of the full one.
  return 2 * std::int64_t(crop.width) * across >= 3 * std::int64_t(target_width) * 8 &&
         2 * std::int64_t(crop.height) * down >= 3 * std::int64_t(target_height) * 8;
}

int JpegDecoder::choose_scale(const PixelRect& crop, int target_width, int target_height) {
  if (!options().dct_scaling || target_width < 1 || target_height < 1) return 8;
  // Those whose transforms are vectorised; the others are slower than full size.
  for (const int scale : {1, 2, 4}) {
    if (covers(scale, crop, target_width, target_height)) return scale;
  }
  return 8;
}

void JpegDecoder::start(int scale) {
  codec_.scale_num = unsigned(scale);
  codec_.scale_denom = 8;
  codec_.dct_method = options().fast_dct ? JDCT_IFAST : JDCT_ISLOW;
  codec_.do_fancy_upsampling = options().fast_dct ? FALSE : TRUE;
  const bool is_gray = codec_.num_components == 1 || options().color_channels == 1;
  codec_.out_color_space = codec_.num_components == 4 ? JCS_CMYK
                           : is_gray                  ? JCS_GRAYSCALE
                                                      : JCS_RGB;
  if (!errors_.run([&] { jpeg_start_decompress(&codec_); })) fail_in_data();
  if (jpeg_has_multiple_scans(&codec_) != FALSE) check_scans();
}

/// Of several scans some may be missing, without a word from libjpeg.
void JpegDecoder::check_scans() const {
  const std::bitset<256> sent = jpeg_components_sent(image_.bytes);
  for (int c = 0; c < codec_.num_components; ++c) {
    const int id = codec_.comp_info[c].component_id;
    if (!sent.test(std::size_t(id) & 255u)) {
      throw_as<DataError>("{}: the JPEG data is cut: there is no scan of component {}", image_.who,
                          id);
    }
  }
  if (source_.ran_out && !has_all_bits()) {
    throw_as<DataError>("{}: the JPEG data is cut after scan {}, more are needed", image_.who,
                        codec_.input_scan_number);
  }
}

/// False if a progressive picture is not as sharp as it could be; libjpeg smoothes it then.
bool JpegDecoder::has_all_bits() const {
  if (codec_.coef_bits == nullptr) return true;
  for (int c = 0; c < codec_.num_components; ++c) {
    for (int k = 0; k < DCTSIZE2; ++k) {
      if (codec_.coef_bits[c][k] != 0) return false;
    }
  }
  return true;
}

/// A component's samples are fewer than the pixels of the result.
bool JpegDecoder::is_upsampled(const jpeg_component_info& info) const {
  const int size = info.DCT_scaled_size, least = codec_.min_DCT_scaled_size;
  return info.h_samp_factor * size != codec_.max_h_samp_factor * least ||
         info.v_samp_factor * size != codec_.max_v_samp_factor * least;
}

/// Columns and rows around a crop that its pixels depend on.
int JpegDecoder::context() const {
  const std::span components(codec_.comp_info, std::size_t(codec_.num_components));
  return std::ranges::any_of(components, [&](const auto& info) { return is_upsampled(info); })
             ? kContext
             : 0;
}

/// jpeg_crop_scanline() counts a component's columns as if its blocks had the size of the luma's.
bool JpegDecoder::can_cut_columns() const {
  for (int c = 0; c < codec_.num_components; ++c) {
    const jpeg_component_info& info = codec_.comp_info[c];
    if (info.DCT_scaled_size != codec_.min_DCT_scaled_size && is_upsampled(info)) return false;
  }
  return true;
}

void JpegDecoder::read_rows(JDIMENSION last, std::uint8_t* data, std::size_t stride) {
  const int width = int(codec_.output_width), channels = options().color_channels;
  const std::size_t row_bytes = std::size_t(width) * std::size_t(codec_.out_color_components);
  const bool is_final = codec_.out_color_components == channels;
  std::uint8_t* const stored = is_final ? nullptr : rows_.reserve(kRowsPerCall * row_bytes);
  const bool good = errors_.run([&] {
    while (codec_.output_scanline < last) {
      JSAMPROW rows[kRowsPerCall];
      const JDIMENSION most = std::min<JDIMENSION>(kRowsPerCall, last - codec_.output_scanline);
      for (JDIMENSION i = 0; i < most; ++i) {
        rows[i] = is_final ? data + i * stride : stored + i * row_bytes;
      }
      const JDIMENSION count = jpeg_read_scanlines(&codec_, rows, most);
      for (JDIMENSION i = 0; i < count && !is_final; ++i) {
        if (codec_.out_color_space == JCS_CMYK) {
          rgb_of_cmyk(rows[i], width, data + i * stride, channels);
        } else {
          rgb_of_gray(rows[i], width, data + i * stride);
        }
      }
      data += count * stride;
    }
  });
  if (!good) fail_in_data();
}

void JpegDecoder::finish() {
  if (codec_.output_scanline == codec_.output_height) {
    if (!errors_.run([&] { jpeg_finish_decompress(&codec_); })) fail_in_data();
    if (source_.ran_out) {
      // Its decoder goes on with zeros, without a word.
      if (codec_.arith_code != FALSE) fail_with("there is no end marker");
      errors_.warn("the end marker is missing");
    }
  }
  close();
}

DecodedImage JpegDecoder::decode(const PixelRect& crop, int target_width, int target_height) {
  const int scale = choose_scale(crop, target_width, target_height);
  start(scale);
  own_entropy_ = options().own_huffman && take_over_entropy(codec_);
  if (own_entropy_ && image_.marks != nullptr) client_.scan.use_marks(*image_.marks);
  try {
    return decode_once(crop, scale);
  } catch (const UnusualData&) {
    // Again from the start: what is wrong, and whether pixels suffer from it, libjpeg knows.
    open(image_);
    start(scale);
    return decode_once(crop, scale);
  }
}

DecodedImage JpegDecoder::decode_once(const PixelRect& crop, int scale) {
  const int left = crop.x * scale / 8, right = ceil_eighths((crop.x + crop.width) * scale);
  const int top = crop.y * scale / 8, bottom = ceil_eighths((crop.y + crop.height) * scale);
  // Whether a file that lacks its end lacks rows too, only reading all of it tells; and smoothing
  // looks far around.
  const bool partial = options().decode_crop_only &&
                       has_jpeg_end(image_.bytes, layout_.first_scan) && has_all_bits();

  JDIMENSION column = 0, width = codec_.output_width, row = 0, end = codec_.output_height;
  if (partial) {
    const int around = context();
    if (can_cut_columns()) {
      column = JDIMENSION(std::max(0, left - around));
      width = std::min(width, JDIMENSION(right + around)) - column;
    }
    row = JDIMENSION(std::max(0, top - around));
    end = JDIMENSION(bottom);
    if (own_entropy_) expect_rows(codec_, end);
    const bool good = errors_.run([&] {
      if (width < codec_.output_width) {
        jpeg_crop_scanline(&codec_, &column, &width);
        if (own_entropy_) pass_over_columns(codec_, column, width);
      }
      if (row > 0) jpeg_skip_scanlines(&codec_, row);
    });
    if (!good) fail_in_data();
    TR_ASSERT(codec_.output_scanline == row);
  }
  const std::size_t channels = std::size_t(options().color_channels);
  const std::size_t stride = std::size_t(codec_.output_width) * channels;
  std::uint8_t* data = pixels_.reserve(stride * std::size_t(end - row));
  const bool own_huffman = own_entropy_;
  read_rows(end, data, stride);
  finish();

  data += std::size_t(top - int(row)) * stride + std::size_t(left - int(column)) * channels;
  return {.pixels = {data, bottom - top, right - left, int(channels), stride},
          .scale = scale,
          .crop_eighths = {crop.x * scale - 8 * left, crop.y * scale - 8 * top, crop.width * scale,
                           crop.height * scale},
          .own_huffman = own_huffman,
          .rows_by_marks = own_huffman && client_.scan.used_marks(),
          .paired_rows = own_huffman ? client_.scan.paired_rows() : 0,
          .warnings = errors_.warnings(),
          .first_warning = errors_.first_warning()};
}

}  // namespace

bool is_jpeg(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 && bytes[0] == std::byte{0xff} && bytes[1] == std::byte{0xd8} &&
         bytes[2] == std::byte{0xff};
}

std::unique_ptr<FormatDecoder> make_jpeg_decoder(const DecodeOptions& options) {
  return std::make_unique<JpegDecoder>(options);
}

}  // namespace tr::data

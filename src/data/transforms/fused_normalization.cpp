// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/fused_normalization.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "data/transforms/mirror.h"

namespace tr::data {
namespace {

constexpr int kPieceBytes = 6144;

ImageShape with_channels(ImageShape in, int out_channels) {
  TR_CHECK(out_channels == 0 || (out_channels >= in.channels && out_channels <= kMaxChannels),
           "transforms: output_channels is {}, must be in {}..{} (the images have {}), or 0",
           out_channels, in.channels, kMaxChannels, in.channels);
  return {in.height, in.width, out_channels == 0 ? in.channels : out_channels};
}

/// Those of the images, then mean 0 and deviation 1, which keep zeros.
std::vector<ChannelNorm> padded_norms(const Normalization& normalization, int channels,
                                      int out_channels) {
  std::vector<ChannelNorm> norms = channel_norms(normalization, channels);
  norms.resize(std::size_t(out_channels));
  return norms;
}

void widen_pixels(const std::uint8_t* src, int width, int channels, int out_channels,
                  std::uint8_t* dst) {
  for (int x = 0; x < width; ++x, src += channels, dst += out_channels) {
    for (int c = 0; c < channels; ++c) dst[c] = src[c];
    for (int c = channels; c < out_channels; ++c) dst[c] = 0;
  }
}

}  // namespace

FusedNormalization::FusedNormalization(const Normalization& normalization,
                                       const std::optional<RandomErasing>& erasing, ImageShape in,
                                       DType dtype, int out_channels)
    : in_(in),
      out_(with_channels(in, out_channels)),
      rows_(padded_norms(normalization, in.channels, out_.channels), dtype) {
  if (erasing) {
    erasing_ = pixel::EraseRange{erasing->p, erasing->scale.low, erasing->scale.high,
                                 det::log(erasing->ratio.low), det::log(erasing->ratio.high)};
  }
}

/// In pieces where pixels are mirrored or widened, which stay in the first-level cache.
void FusedNormalization::convert_row(const std::uint8_t* row, bool mirrored, std::byte* dst) const {
  if (!mirrored && in_.channels == out_.channels) return rows_.convert(row, in_.row_bytes(), dst);
  std::uint8_t line[kPieceBytes + kImageSlack], wide[kPieceBytes];
  const int piece = kPieceBytes / out_.channels / 8 * 8;  // pixels
  for (int x = 0; x < in_.width; x += piece) {
    const int count = std::min(piece, in_.width - x);
    const std::uint8_t* pixels = row + (mirrored ? in_.width - x - count : x) * in_.channels;
    if (mirrored) {
      mirror_row(pixels, count, in_.channels, line);
      pixels = line;
    }
    if (in_.channels != out_.channels) {
      widen_pixels(pixels, count, in_.channels, out_.channels, wide);
      pixels = wide;
    }
    const std::size_t values = std::size_t(count) * std::size_t(out_.channels);
    rows_.convert(pixels, values, dst);
    dst += values * size_of(dtype());
  }
}

void FusedNormalization::apply(const ImageRef& src, bool mirrored, void* dst,
                               const pixel::StepDraws& draws) const {
  pixel::EraseRect rect;
  if (erasing_) rect = pixel::draw_erase(draws, out_.height, out_.width, *erasing_);
  const std::size_t element = size_of(dtype());
  const std::size_t pixel_bytes = std::size_t(out_.channels) * element;
  auto* line = static_cast<std::byte*>(dst);
  for (int y = 0; y < out_.height; ++y, line += out_.row_bytes() * element) {
    convert_row(src.row(y), mirrored, line);
    if (y >= rect.top && y < rect.top + rect.height) {  // all-zero bytes are 0 in every type
      std::memset(line + std::size_t(rect.left) * pixel_bytes, 0,
                  std::size_t(rect.width) * pixel_bytes);
    }
  }
}

}  // namespace tr::data

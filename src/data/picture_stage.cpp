// SPDX-License-Identifier: Apache-2.0
#include "data/picture_stage.h"

#include <optional>

#include "core/check.h"
#include "core/clock.h"

namespace tr::data {
namespace {

ImageRef image_of(const Pixels& p) {
  return {p.data, {p.height, p.width, p.channels}, p.row_stride};
}

DecodePath path_of(const ImageInfo& info, const DecodedImage& decoded) {
  if (info.format != "JPEG") return DecodePath::PNG;
  if (!decoded.own_huffman) return DecodePath::LIBJPEG;
  if (decoded.scale < 8) return DecodePath::SMALLER;
  return decoded.rows_by_marks ? DecodePath::ROWS : DecodePath::CODES;
}

DecodeRequest request_of(const std::optional<SourceCrop>& crop) {
  if (!crop) return {};
  return {.crop = PixelRect{crop->left, crop->top, crop->width, crop->height},
          .target_width = crop->target_width,
          .target_height = crop->target_height};
}

}  // namespace

ImageRef PictureStage::run_pixels(const PixelChain& chain, const EncodedImage& file,
                                  const DrawAddress& address) {
  warning_.clear();
  const std::int64_t start_ns = now_ns();
  try {
    const ImageInfo& info = decoder_.open(file);
    const int height = info.height, width = info.width;
    const std::optional<SourceCrop> crop = chain.first_crop(address, height, width);
    const DecodedImage decoded = decoder_.decode(request_of(crop));
    ++decoded_[std::size_t(path_of(info, decoded))];
    if (decoded.warnings > 0) warning_ = decoded.first_warning;
    decode_ns_ += now_ns() - start_ns;
    const std::size_t scratch = chain.scratch_bytes(height, width);
    if (scratch_.size() < scratch) scratch_.resize(scratch);
    const ImageRef image = image_of(decoded.pixels);
    if (!crop) return chain.run_pixels(image, address, scratch_.data());
    const PixelRect& part = decoded.crop_eighths;
    const DecodedCrop decoded_crop(image, part.y, part.x, part.height, part.width);
    return chain.run_pixels(decoded_crop, *crop, address, scratch_.data());
  } catch (const DataError& error) {
    const std::string_view what = error.what();
    if (what.find(file.who) != std::string_view::npos) throw;
    throw_as<DataError>("{}: {}", file.who, what);
  }
}

}  // namespace tr::data

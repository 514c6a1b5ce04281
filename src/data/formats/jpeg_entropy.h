// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "data/formats/baseline_scan.h"
#include "data/formats/c_errors.h"

struct jpeg_decompress_struct;

namespace tr::data {

/// What libjpeg's callbacks find behind client_data.
struct JpegClient {
  CErrors errors;
  BaselineScan scan;
};

/// Puts `scan` of the codec's client in the place of libjpeg's entropy decoder, which takes half as
/// long again, in a decompression that has just been started; all else stays libjpeg's. False: it
/// is no baseline picture of one scan, or this libjpeg is built otherwise than expected. What the
/// scan does not take leaves libjpeg as an error, and the picture has to be decoded again without
/// it.
bool take_over_entropy(jpeg_decompress_struct& codec);

/// Behind take_over_entropy(): output rows from `end` on will not be read. Smooth upsampling may
/// still look at the row of MCUs behind them.
void expect_rows(jpeg_decompress_struct& codec, unsigned end);

/// Behind take_over_entropy() and jpeg_crop_scanline(), which found `width` output columns from
/// `column` on: libjpeg transforms the MCUs of those alone, so no others' coefficients are kept.
void pass_over_columns(jpeg_decompress_struct& codec, unsigned column, unsigned width);

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/philox.h"
#include "data/image_decode.h"
#include "data/stage_times.h"
#include "data/transforms/chain.h"

namespace tr::data {

/// A worker's way from picture files to rows of a batch: a decoder, and scratch that grows to the
/// largest picture and stays.
class PictureStage {
 public:
  explicit PictureStage(const DecodeOptions& options) : decoder_(options) {}

  /// Decodes what `chain` needs of the picture and runs its steps: the pixels for
  /// PixelChain::normalise(), in memory of this stage.
  /// @throws DataError  the file is no picture, or damaged, or of a size that the chain cannot
  /// take.
  ImageRef run_pixels(const PixelChain& chain, const EncodedImage& file,
                      const DrawAddress& address);
  /// What the decoder said of the last picture though its pixels are whole; "" if nothing.
  const std::string& warning() const { return warning_; }
  /// Time spent decoding since the last call.
  std::int64_t take_decode_ns() { return std::exchange(decode_ns_, 0); }
  /// What was decoded since the last call.
  DecodeCounts take_decoded() { return std::exchange(decoded_, {}); }

  std::int64_t num_bytes() const { return decoder_.memory_bytes() + std::int64_t(scratch_.size()); }

 private:
  ImageDecoder decoder_;
  std::vector<std::byte> scratch_;
  std::string warning_;
  std::int64_t decode_ns_ = 0;
  DecodeCounts decoded_{};
};

}  // namespace tr::data

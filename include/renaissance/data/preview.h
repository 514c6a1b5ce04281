// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "renaissance/core/export.h"
#include "renaissance/data/dataset.h"
#include "renaissance/data/transforms.h"

namespace tr {

struct PreviewOptions {
  std::int64_t first_sample = 0;
  int num_samples = 8;                  // rows of the sheet
  int num_draws = 7;                    // epochs 0, 1, ... beside each sample
  bool validation = false;              // draws of the validation split
  std::uint64_t seed = 0;               // of the training run
  ExifPolicy exif = ExifPolicy::APPLY;  // of picture files
};

/// Writes a contact sheet of a set's pictures as a chain of transforms gives them to a network: a
/// row a sample, first the picture itself, scaled to fit, then what epochs 0, 1, ... see of it.
/// What RandomErasing sets to 0 is shown in the mean's colour; Mixup and CutMix, which need a
/// batch, are left out.
/// @param png_path  the sheet; small pictures are enlarged. Beside it, with ".json" for ".png",
///                  goes the text that is returned.
/// @return          JSON {chain, seed, split, rows: [{sample, name, height, width, draws: [[text
///                  of each transform]]}]}
/// @throws InvalidArgument  the path does not end in ".png", the options, or the chain does not
/// fit.
/// @throws DataError        a sample cannot be read, a file cannot be written.
TR_API std::string write_preview(const Dataset& dataset, const TransformChain& chain,
                                 const std::string& png_path, const PreviewOptions& options = {});

}  // namespace tr

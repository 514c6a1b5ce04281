// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "renaissance/core/export.h"
#include "renaissance/data/dataset.h"

namespace tr {

struct DatasetOptions {
  bool download = false;           // fetch what is missing into `path` before reading
  std::int64_t num_train = 60000;  // procedural only
  std::int64_t num_val = 10000;
  std::uint64_t seed = 0;   // of procedural, and of the choice that val_fraction makes
  double val_fraction = 0;  // folder, imagenet, csv without a validation split: taken from training
  int color_channels = 0;   // folder, imagenet, csv: 1 or 3; 0: 3
  double read_timeout_s = 30;  // folder, imagenet, csv: for one file; 0: none
};

/// Opens both splits of a named set at `path`. "mnist", "fashion-mnist" (four IDX files, raw or
/// .gz), "cifar-10", "cifar-100" (binary version): read and checked as a whole, the samples stay in
/// memory. "folder" (a folder per class, below train and val or by itself), "imagenet" (the same,
/// or a flat val with a list of truth), "csv" (lists "path,label"): files are listed, and read one
/// by one when they are wanted. "procedural": no files, `path` is ignored. Layouts, and what
/// becomes of odd files: docs/data.md. What is odd but no error is logged as a warning.
/// @throws InvalidArgument  an unknown name (the message gives the nearest one); an option that the
///         set cannot follow.
/// @throws DataError        a file is missing or damaged; a download that was asked for failed.
TR_API DatasetPair open_dataset(const std::string& name, const std::string& path,
                                const DatasetOptions& options = {});

/// What is known of a set by its name alone, before any file is opened. Channels 0, classes 0:
/// known from the files only. @throws InvalidArgument  an unknown name.
struct DatasetTraits {
  std::string name;  // canonical: "cifar-10" for "cifar10"
  int channels = 0;
  int num_classes = 0;
  bool readable = false;   // open_dataset() can read it
  bool downloads = false;  // DatasetOptions::download can fetch it
  bool in_files = false;   // pictures are read one by one, each of its own size
};
TR_API DatasetTraits dataset_traits(const std::string& name);

/// True if `path` holds the four files of MNIST, raw or .gz (not whether they are sound).
TR_API bool has_mnist(const std::string& path);

/// Ten digits drawn as strokes with random shape, position, thickness and noise: images [28, 28,
/// 1], balanced labels. Sample k of a split depends on (seed, split, k) alone. `split` is "train"
/// or "val".
/// @throws InvalidArgument  another split, n < 1.
TR_API std::shared_ptr<const Dataset> make_procedural_digits(const std::string& split,
                                                             std::int64_t n,
                                                             std::uint64_t seed = 0);

}  // namespace tr

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
  std::uint64_t seed = 0;  // procedural only
};

/// Opens both splits of a named set in folder `path`: "mnist" (four IDX files, raw or .gz),
/// "procedural" (no files; `path` is ignored). Reads and checks everything; the samples stay in
/// memory.
/// @throws InvalidArgument  an unknown name (the message gives the nearest one).
/// @throws Unsupported      a known set that this version cannot read yet ("imagenet", "cifar-10",
/// ...).
/// @throws DataError        a file is missing or damaged; a download that was asked for failed.
TR_API DatasetPair open_dataset(const std::string& name, const std::string& path,
                                const DatasetOptions& options = {});

/// What is known of a set by its name alone, before any file is opened. Channels 0, classes 0:
/// known from the files only. @throws InvalidArgument  an unknown name.
struct DatasetTraits {
  std::string name;  // canonical: "cifar-10" for "cifar10"
  int channels = 0;
  int num_classes = 0;
  bool readable = false;  // open_dataset() can read it
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

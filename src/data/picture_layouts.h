// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/picture_list.h"

namespace tr::data {

/// How a set of files becomes a training and a validation set.
struct SplitOptions {
  double val_fraction = 0;  // of each class, where the set has no validation split; 0: none
  std::uint64_t seed = 0;   // of that choice
};

// Each layout lists its files and opens no picture. All throw DataError for what is missing or
// contradictory, and InvalidArgument if val_fraction is given beside a validation split.

/// `dir`/train and `dir`/val with a folder a class; or `dir` itself with a folder a class, all of
/// it for training but val_fraction. Classes of val are numbered as those of train.
PictureLists list_folder(const std::string& dir, const SplitOptions& options);

/// ImageNet: `dir`/train with a folder a synset; `dir`/val the same, or flat with a list of truth
/// beside it (see parse_truth()). synsets.txt or LOC_synset_mapping.txt in `dir` (first word of a
/// line) gives the classes and their order, else the sorted folders of train do.
PictureLists list_imagenet(const std::string& dir, const SplitOptions& options);

/// Lists "path,label" (see parse_csv()): `path` is one, or a folder with train.csv and perhaps
/// val.csv and classes.txt (a name a line). Paths are relative to the list's folder. If all labels
/// are whole numbers they are the classes' numbers, else names, numbered as in classes.txt or
/// sorted by their bytes; then numbers that are no classes ("-1", "1.0", "nan") are an error, whole
/// ones among names a note.
PictureLists list_csv(const std::string& path, const SplitOptions& options);

/// A line of a list of truth: "NAME LABEL", "NAME,LABEL more", or "LABEL" alone (name is empty).
struct TruthRow {
  std::int64_t line = 0;
  std::string name, label;
};
/// @throws DataError  no row; rows of both kinds.
std::vector<TruthRow> parse_truth(std::string_view text, const std::string& who);

}  // namespace tr::data

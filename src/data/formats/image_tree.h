// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "data/picture_list.h"

namespace tr::data {

/// A folder with a folder per class, as it was found on the disk. docs/data.md states the outcome
/// for hidden files, empty classes, links, other files, and names that differ only in case.
struct ImageTree {
  PictureList pictures;
  std::vector<std::string> classes;  // folders' names, sorted by their bytes; labels index them
  std::vector<std::string> notes;    // what was left out or looks wrong, one warning each
};

/// Scans `root`. Pictures are files whose name ends in .jpg, .jpeg, .jpe, .jfif or .png in any
/// case (what they hold is told by their content when they are read), at any depth below the
/// class's folder; in the order of torchvision's ImageFolder. No file is opened.
/// @throws DataError  a folder cannot be read; there is no class folder, or no picture in any; a
/// link in `root` leads nowhere.
ImageTree scan_image_tree(const std::string& root);

/// The pictures that lie in `root` itself, sorted by name; labels are all -1.
/// @throws DataError  the folder cannot be read.
PictureList scan_flat_folder(const std::string& root);

/// Names of the folders in `root` that are not hidden, sorted by their bytes.
/// @throws DataError  the folder cannot be read.
std::vector<std::string> folders_in(const std::string& root);

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "core/check.h"
#include "data/formats/class_index.h"

namespace tr::data {

PictureLists list_folder(const std::string& dir, const SplitOptions& options) {
  const std::string inner = child(dir, "train"), val = child(dir, "val");
  // A class may be called "train": as a split it holds folders.
  const bool has_splits = is_folder(inner) && has_folders(inner);
  const ImageTree train = scan_image_tree(has_splits ? inner : dir);
  PictureLists lists{.train = train.pictures, .classes = train.classes};
  lists.num_classes = std::int64_t(train.classes.size());
  take_notes(lists, train);
  if (has_splits && is_folder(val)) {
    const ImageTree tree = scan_image_tree(val);
    take_notes(lists, tree);
    lists.val = renumbered(tree, ClassIndex(train.classes, inner));
  }
  finish_split(lists, options, val);
  return lists;
}

}  // namespace tr::data

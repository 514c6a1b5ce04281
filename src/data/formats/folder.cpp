// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "core/check.h"
#include "core/printable.h"
#include "data/formats/class_index.h"

namespace tr::data {
namespace {

constexpr std::array<std::string_view, 7> kSplitNames{"train",      "training", "val",    "valid",
                                                      "validation", "test",     "testing"};

bool names_a_split(std::string name) {
  for (char& c : name) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return std::find(kSplitNames.begin(), kSplitNames.end(), name) != kSplitNames.end();
}

/// True: the classes lie below `train`. False: in `dir` itself; a class may be called "train" or
/// "val" then, but folders in it would be another split's classes.
bool has_splits(const std::string& dir, const std::string& train) {
  if (is_folder(train) && !folders_in(train).empty()) return true;
  for (const std::string& name : folders_in(dir)) {
    if (!names_a_split(name) || folders_in(child(dir, name.c_str())).empty()) continue;
    throw_as<DataError>(
        "{}: {} holds folders as a split does, but {}; expected train with a folder for each "
        "class, and perhaps val (a class is not to be called so)",
        printable(dir), printable(name),
        is_split_folder(train) ? "there is no folder in train" : "there is no train beside it");
  }
  return false;
}

}  // namespace

PictureLists list_folder(const std::string& dir, const SplitOptions& options) {
  const std::string inner = child(dir, "train"), val = child(dir, "val");
  const bool is_split = has_splits(dir, inner);
  const ImageTree train = scan_image_tree(is_split ? inner : dir);
  PictureLists lists{.train = train.pictures, .classes = train.classes};
  lists.num_classes = std::int64_t(train.classes.size());
  take_train_notes(lists, train);
  if (is_split && is_split_folder(val)) {
    const ImageTree tree = scan_image_tree(val);
    take_notes(lists, tree);
    lists.val = renumbered(tree, ClassIndex(train.classes, inner));
  }
  if (is_split) note_left_out(lists, dir);
  finish_split(lists, options, val);
  return lists;
}

}  // namespace tr::data

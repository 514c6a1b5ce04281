// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "data/formats/image_tree.h"
#include "data/picture_layouts.h"

// What the layouts of sets of files have in common.
namespace tr::data {

constexpr std::uint64_t kMaxListBytes = std::uint64_t(1) << 32;

/// False also for what cannot be looked at: that is told when it is read.
bool is_folder(const std::string& path);
/// True also for a link that leads nowhere: reading it tells.
bool is_there(const std::string& path);
/// False if nothing is there. @throws DataError  what is there is no folder.
bool is_split_folder(const std::string& path);
/// `dir`/`name`
std::string child(const std::string& dir, const char* name);

/// A whole number of at least 0.
std::optional<std::int64_t> class_number(std::string_view text);

/// The lines of a text file that are not empty. @throws DataError  there is none.
std::vector<std::string> lines_of(const std::string& path);

/// Numbers of class names.
class ClassIndex {
 public:
  /// `who` (a file or folder) is where the names come from. @throws DataError  a name stands twice.
  ClassIndex(const std::vector<std::string>& names, std::string who);
  std::optional<std::int64_t> find(const std::string& name) const;
  /// @throws DataError  `where` names a class that is not one.
  std::int64_t at(const std::string& name, const std::string& where) const;

 private:
  std::string who_;
  std::unordered_map<std::string, std::int64_t> index_;
};

/// The tree's pictures under the numbers of `index`. @throws DataError  a class is not in it.
PictureList renumbered(const ImageTree& tree, const ClassIndex& index);

/// Splits off the validation set that `options` ask for; `val` is where there is one already.
/// @throws InvalidArgument  both.
void finish_split(PictureLists& lists, const SplitOptions& options, const std::string& val);

/// Notes the folders that lie in `dir` beside train and val.
void note_left_out(PictureLists& lists, const std::string& dir);

/// Adds the tree's notes to the set's; of a training split also that it has one class only.
void take_notes(PictureLists& lists, const ImageTree& tree);
void take_train_notes(PictureLists& lists, const ImageTree& tree);

}  // namespace tr::data

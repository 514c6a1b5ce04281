// SPDX-License-Identifier: Apache-2.0
#include "data/formats/class_index.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "core/check.h"
#include "core/input_file.h"
#include "core/printable.h"

namespace tr::data {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

bool is_there(const std::string& path) {
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  return type != fs::file_type::not_found && type != fs::file_type::none;
}

bool is_split_folder(const std::string& path) {
  if (is_folder(path)) return true;
  if (!is_there(path)) return false;
  std::error_code error;
  const bool leads_nowhere = fs::is_symlink(fs::symlink_status(path, error)) &&
                             fs::status(path, error).type() == fs::file_type::not_found;
  throw_as<DataError>("{}: {}, expected a folder with the pictures of a split", printable(path),
                      leads_nowhere ? "the link leads nowhere" : "it is no folder");
}

std::string child(const std::string& dir, const char* name) {
  return (fs::path(dir) / name).string();
}

std::optional<std::int64_t> class_number(std::string_view text) {
  std::int64_t value = -1;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  return whole && value >= 0 ? std::optional(value) : std::nullopt;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  const std::string text = read_text(path, kMaxListBytes);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
    at = end + 1;
  }
  if (lines.empty()) throw_as<DataError>("{}: the file is empty", path);
  return lines;
}

ClassIndex::ClassIndex(const std::vector<std::string>& names, std::string who)
    : who_(std::move(who)) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!index_.try_emplace(names[i], std::int64_t(i)).second) {
      throw_as<DataError>("{}: the class \"{}\" is named twice", who_, printable(names[i]));
    }
  }
}

std::optional<std::int64_t> ClassIndex::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t ClassIndex::at(const std::string& name, const std::string& where) const {
  const auto found = find(name);
  if (!found) {
    throw_as<DataError>("{}: the class \"{}\" is none of the {} classes of {}", printable(where),
                        printable(name), index_.size(), printable(who_));
  }
  return *found;
}

/// The tree's pictures under the numbers of `index`.
PictureList renumbered(const ImageTree& tree, const ClassIndex& index) {
  std::vector<std::int64_t> numbers;
  for (const std::string& name : tree.classes) {
    numbers.push_back(index.at(name, tree.pictures.root));
  }
  PictureList list{.root = tree.pictures.root};
  for (std::int64_t id = 0; id < tree.pictures.size(); ++id) {
    list.add(tree.pictures.paths[id], numbers[std::size_t(tree.pictures.labels[std::size_t(id)])]);
  }
  return list;
}

void note_left_out(PictureLists& lists, const std::string& dir) {
  std::vector<std::string> others;
  for (const std::string& name : folders_in(dir)) {
    if (name != "train" && name != "val") others.push_back(printable(name));
  }
  if (others.empty()) return;
  lists.notes.push_back(fmt::format("{}: of the folders in it only train and val are read, not {}",
                                    printable(dir), fmt::join(others, ", ")));
}

void take_train_notes(PictureLists& lists, const ImageTree& tree) {
  take_notes(lists, tree);
  if (tree.classes.size() != 1) return;
  lists.notes.push_back(fmt::format(
      "{}: only one class was found ({}); if this is the folder above the set, give the set's "
      "own: with one class every loss is 0",
      printable(tree.pictures.root), printable(tree.classes.front())));
}

void take_notes(PictureLists& lists, const ImageTree& tree) {
  lists.notes.insert(lists.notes.end(), tree.notes.begin(), tree.notes.end());
}

void finish_split(PictureLists& lists, const SplitOptions& options, const std::string& val) {
  TR_CHECK(!lists.val || options.val_fraction == 0,
           "dataset.val_fraction is {}, but there is a validation set already: {}",
           options.val_fraction, printable(val));
  if (options.val_fraction != 0) split_off_validation(lists, options.val_fraction, options.seed);
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <unordered_map>

#include "core/check.h"
#include "core/input_file.h"
#include "core/printable.h"
#include "data/formats/class_index.h"

namespace tr::data {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> kSynsetLists{"synsets.txt", "LOC_synset_mapping.txt"};
constexpr std::array<const char*, 5> kTruthLists{
    "val.txt", "LOC_val_solution.csv", "imagenet_2012_validation_synset_labels.txt",
    "synset_labels.txt", "ILSVRC2012_validation_ground_truth.txt"};

/// "n01440764 tench, Tinca tinca" -> "n01440764"
std::vector<std::string> first_words(std::vector<std::string> lines) {
  for (std::string& line : lines) line.resize(std::min(line.find_first_of(" \t,"), line.size()));
  return lines;
}

std::string truth_list_of(const std::string& dir) {
  for (const char* name : kTruthLists) {
    for (const fs::path& folder : {fs::path(dir), fs::path(dir) / "val"}) {
      if (is_there((folder / name).string())) return (folder / name).string();
    }
  }
  throw_as<DataError>(
      "{}: the validation pictures lie flat, and none of {} is there or in the folder above to say "
      "their classes",
      printable(child(dir, "val")), fmt::join(kTruthLists, ", "));
}

/// Class of a row's label: a synset, or a number.
std::int64_t truth_label(const TruthRow& row, const ClassIndex& index, std::int64_t num_classes,
                         bool has_synset_list, const std::string& who) {
  if (const auto found = index.find(row.label)) return *found;
  const auto number = class_number(row.label);
  if (!number) {
    throw_as<DataError>("{}: line {}: \"{}\" is neither one of the {} classes nor a number", who,
                        row.line, printable(row.label), num_classes);
  }
  const bool counts_from_one = row.name.empty();
  if (counts_from_one && !has_synset_list) {
    throw_as<DataError>(
        "{}: line {}: numbers alone are ILSVRC's, whose order is not that of the synsets' names; "
        "synsets.txt with a synset a line in ILSVRC's order must stand beside train",
        who, row.line);
  }
  const std::int64_t label = counts_from_one ? *number - 1 : *number;
  if (label < 0 || label >= num_classes) {
    throw_as<DataError>("{}: line {}: the class {} is outside {}..{}", who, row.line, *number,
                        counts_from_one ? 1 : 0, counts_from_one ? num_classes : num_classes - 1);
  }
  return label;
}

PictureList flat_validation(const std::string& dir, const ClassIndex& index,
                            std::int64_t num_classes, bool has_synset_list,
                            std::vector<std::string>& notes) {
  const PictureList flat = scan_flat_folder(child(dir, "val"));
  if (flat.size() == 0) {
    throw_as<DataError>("{}: there are neither class folders nor pictures in it",
                        printable(flat.root));
  }
  const std::string who = truth_list_of(dir);
  const std::vector<TruthRow> rows = parse_truth(read_text(who, kMaxListBytes), who);
  const auto label = [&](const TruthRow& row) {
    return truth_label(row, index, num_classes, has_synset_list, who);
  };
  PictureList list{.root = flat.root};
  if (rows.front().name.empty()) {
    if (std::int64_t(rows.size()) != flat.size()) {
      throw_as<DataError>("{}: has {} lines, {} holds {} pictures", who, rows.size(), flat.root,
                          flat.size());
    }
    for (std::int64_t id = 0; id < flat.size(); ++id) {
      list.add(flat.paths[id], label(rows[std::size_t(id)]));
    }
    return list;
  }
  std::unordered_map<std::string, const TruthRow*> by_name;  // file names, with or without .JPEG
  for (const TruthRow& row : rows) by_name[fs::path(row.name).filename().string()] = &row;
  std::size_t used = 0;
  for (std::int64_t id = 0; id < flat.size(); ++id) {
    const std::string name(flat.paths[id]);
    auto found = by_name.find(name);
    if (found == by_name.end()) found = by_name.find(fs::path(name).stem().string());
    if (found == by_name.end()) {
      throw_as<DataError>("{}: says no class for {}", who, printable(flat.path_of(id)));
    }
    list.add(name, label(*found->second));
    ++used;
  }
  if (used < by_name.size()) {
    notes.push_back(fmt::format("{}: {} of its {} pictures are not in {}", who,
                                by_name.size() - used, by_name.size(), printable(flat.root)));
  }
  return list;
}

}  // namespace

PictureLists list_imagenet(const std::string& dir, const SplitOptions& options) {
  const std::string inner = child(dir, "train"), val = child(dir, "val");
  if (!is_split_folder(inner)) {
    throw_as<DataError>("{}: there is no folder train in it, with a folder for each synset",
                        printable(dir));
  }
  const ImageTree train = scan_image_tree(inner);
  PictureLists lists;
  take_train_notes(lists, train);
  lists.classes = train.classes;
  std::string synsets = inner;
  for (const char* name : kSynsetLists) {
    if (synsets != inner || !is_there(child(dir, name))) continue;
    synsets = child(dir, name);
    lists.classes = first_words(lines_of(synsets));
  }
  lists.num_classes = std::int64_t(lists.classes.size());
  const ClassIndex index(lists.classes, synsets);
  lists.train = renumbered(train, index);
  const bool has_val = is_split_folder(val);
  if (has_val && !folders_in(val).empty()) {
    const ImageTree tree = scan_image_tree(val);
    take_notes(lists, tree);
    lists.val = renumbered(tree, index);
  } else if (has_val) {
    lists.val = flat_validation(dir, index, lists.num_classes, synsets != inner, lists.notes);
  }
  if (!has_val) note_left_out(lists, dir);
  finish_split(lists, options, val);
  return lists;
}

std::vector<TruthRow> parse_truth(std::string_view text, const std::string& who) {
  std::vector<TruthRow> rows;
  std::int64_t line = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view rest = text.substr(at, end - at);
    at = end + 1;
    ++line;
    const auto word = [&rest] {
      const std::size_t begin = std::min(rest.find_first_not_of(" \t\r,"), rest.size());
      rest.remove_prefix(begin);
      const std::size_t length = std::min(rest.find_first_of(" \t\r,"), rest.size());
      const std::string_view found = rest.substr(0, length);
      rest.remove_prefix(length);
      return found;
    };
    const std::string_view first = word(), second = word();
    if (first.empty() || first == "ImageId") continue;  // Kaggle's list has a heading
    const bool labels_alone = second.empty();
    if (!rows.empty() && rows.front().name.empty() != labels_alone) {
      throw_as<DataError>("{}: line {}: the line {} a name, those before {}", who, line,
                          labels_alone ? "has no" : "has", labels_alone ? "have one" : "have none");
    }
    rows.push_back(
        {line, std::string(labels_alone ? "" : first), std::string(labels_alone ? first : second)});
  }
  if (rows.empty()) throw_as<DataError>("{}: there are no lines in it", who);
  return rows;
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/input_file.h"
#include "core/printable.h"
#include "data/check.h"
#include "data/formats/class_index.h"
#include "data/formats/csv.h"

namespace tr::data {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMaxClasses = std::int64_t(1) << 24;

struct CsvSplits {
  std::vector<CsvRow> train, val;
  std::string train_path, val_path;
};

PictureList csv_list(const std::vector<CsvRow>& rows, const std::string& who,
                     const ClassIndex* names, std::int64_t num_classes) {
  PictureList list{.root = fs::path(who).parent_path().string()};
  if (list.root.empty()) list.root = ".";
  for (const CsvRow& row : rows) {
    const std::int64_t label = names != nullptr
                                   ? names->at(row.label, fmt::format("{}: line {}", who, row.line))
                                   : *class_number(row.label);
    if (label >= num_classes) {
      throw_as<DataError>("{}: line {}: the class {} of {} is outside 0..{}", who, row.line, label,
                          printable(row.path), num_classes - 1);
    }
    list.add(row.path, label);
  }
  return list;
}

/// A number that is no class: "-1", "1.0", " 2", "nan" (a missing value of a table).
bool is_odd_number(std::string_view label) {
  if (class_number(label)) return false;
  const std::size_t first = label.find_first_not_of(" \t+");
  if (first == std::string_view::npos) return false;
  const std::string_view text = label.substr(first, label.find_last_not_of(" \t") + 1 - first);
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole =
      parsed.ec != std::errc::invalid_argument && parsed.ptr == text.data() + text.size();
  return whole && text.substr(0, 3) != "inf";
}

/// Numbers among names would be numbered anew, by their bytes.
void check_labels(const CsvSplits& splits, std::vector<std::string>& notes) {
  const CsvRow *number = nullptr, *name = nullptr;
  for (const CsvRow& row : splits.train) {
    if (is_odd_number(row.label)) {
      throw_as<DataError>(
          "{}: line {}: the label \"{}\" is no class, expected a whole number of at least 0, or "
          "names with the list of them in classes.txt",
          splits.train_path, row.line, printable(row.label));
    }
    (class_number(row.label) ? number : name) = &row;
  }
  if (number == nullptr || name == nullptr) return;
  const auto is_name = [](const CsvRow& row) { return !class_number(row.label); };
  if (name == &splits.train.front() &&
      std::none_of(splits.train.begin() + 1, splits.train.end(), is_name)) {
    throw_as<DataError>(
        "{}: line {}: \"{}\" is the only label that is no number; if the line is a heading, "
        "expected "
        "path,label, if it is a class, classes.txt with all of them",
        splits.train_path, name->line, printable(name->label));
  }
  notes.push_back(fmt::format(
      "{}: labels are whole numbers (line {}: {}) and names (line {}: {}); all are taken as names, "
      "and classes are numbered in the order of their bytes",
      splits.train_path, number->line, printable(number->label), name->line,
      printable(name->label)));
}

/// Numbers the classes; empty `names` mean that labels are numbers.
std::vector<std::string> csv_classes(const CsvSplits& splits, const std::string& classes_path,
                                     std::int64_t& num_classes) {
  std::vector<std::string> names;
  if (!classes_path.empty()) names = lines_of(classes_path);
  bool numbers = true;
  std::int64_t highest = -1;
  std::string where;  // of the highest
  std::set<std::string> seen;
  for (const auto* rows : {&splits.train, &splits.val}) {
    for (const CsvRow& row : *rows) {
      const auto number = class_number(row.label);
      numbers = numbers && number;
      if (number.value_or(-1) > highest) {
        highest = *number;
        where = fmt::format("{}: line {}",
                            rows == &splits.val ? splits.val_path : splits.train_path, row.line);
      }
      if (!numbers && rows == &splits.val) continue;  // a class of validation alone is a fault
      seen.insert(row.label);
    }
  }
  if (!numbers) {
    if (names.empty()) names.assign(seen.begin(), seen.end());
    num_classes = std::int64_t(names.size());
    return names;
  }
  if (highest >= kMaxClasses) {
    throw_as<DataError>("{}: the class {} is too high, at most {} make sense", where, highest,
                        kMaxClasses - 1);
  }
  num_classes = names.empty() ? highest + 1 : std::int64_t(names.size());
  return {};
}

}  // namespace

PictureLists list_csv(const std::string& path, const SplitOptions& options) {
  CsvSplits splits;
  std::string classes;
  splits.train_path = path;
  if (is_folder(path)) {
    splits.train_path = child(path, "train.csv");
    splits.val_path = child(path, "val.csv");
    classes = child(path, "classes.txt");
  }
  splits.train = parse_csv(read_text(splits.train_path, kMaxListBytes), splits.train_path);
  const bool has_val = !splits.val_path.empty() && is_there(splits.val_path);
  if (has_val) splits.val = parse_csv(read_text(splits.val_path, kMaxListBytes), splits.val_path);
  if (classes.empty() || !is_there(classes)) classes.clear();
  PictureLists lists;
  if (classes.empty()) check_labels(splits, lists.notes);
  const std::vector<std::string> names = csv_classes(splits, classes, lists.num_classes);
  lists.classes = names.empty() && !classes.empty() ? lines_of(classes) : names;
  std::optional<ClassIndex> index;
  if (!names.empty()) index.emplace(names, classes.empty() ? splits.train_path : classes);
  const ClassIndex* by_name = index ? &*index : nullptr;
  lists.train = csv_list(splits.train, splits.train_path, by_name, lists.num_classes);
  if (has_val) lists.val = csv_list(splits.val, splits.val_path, by_name, lists.num_classes);
  finish_split(lists, options, splits.val_path);
  return lists;
}

void write_csv_set(const PictureLists& lists, const std::string& target) {
  const std::string train_path = child(target, "train.csv"), val_path = child(target, "val.csv"),
                    classes_path = child(target, "classes.txt");
  std::string names;
  for (const std::string& name : lists.classes) {
    if (name.find_first_of("\r\n") != std::string::npos) {
      throw_as<DataError>("{}: the class \"{}\" has a line break in its name",
                          printable(classes_path), printable(name));
    }
    names += name + "\n";
  }
  make_folder(target);
  // A list of another set beside ours would become a part of it.
  for (const auto& [path, is_ours] :
       {std::pair(&val_path, lists.val.has_value()), {&classes_path, !lists.classes.empty()}}) {
    if (is_ours || !is_there(*path)) continue;
    throw_as<DataError>("{}: is there and would count as a part of these lists, which have no {}",
                        printable(*path), path == &val_path ? "validation set" : "class names");
  }
  const auto text_of = [&](const PictureList& list) {
    // Relative to where the lists lie, so that both may move together.
    std::error_code error;
    const fs::path root = fs::relative(list.root, target, error);
    if (error) throw_as<DataError>("{}: {}", printable(list.root), error.message());
    std::string text = "path,label\n";
    for (std::int64_t id = 0; id < list.size(); ++id) {
      const std::string path((root == "." ? fs::path() : root) / std::string(list.paths[id]));
      text += csv_field(path) + "," + std::to_string(list.labels[std::size_t(id)]) + "\n";
    }
    return text;
  };
  write_file_atomically(train_path, text_of(lists.train));
  if (lists.val) write_file_atomically(val_path, text_of(*lists.val));
  if (!names.empty()) write_file_atomically(classes_path, names);
}

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#include "data/formats/image_tree.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>

#include "core/check.h"
#include "core/printable.h"

namespace tr::data {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamed = 10;  // of the things that a note counts
constexpr int kMostWays = 10000;    // through links to one folder
constexpr std::array<std::string_view, 5> kRead{".jpg", ".jpeg", ".jpe", ".jfif", ".png"};
constexpr std::array<std::string_view, 9> kNotRead{".bmp", ".gif",  ".webp", ".tif", ".tiff",
                                                   ".ppm", ".heic", ".avif", ".jp2"};

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return text;
}

template <std::size_t N>
bool ends_in(const std::string& name, const std::array<std::string_view, N>& suffixes) {
  const std::string low = lower(name);
  return std::any_of(suffixes.begin(), suffixes.end(), [&](std::string_view suffix) {
    return low.size() > suffix.size() && low.ends_with(suffix);
  });
}

bool is_hidden(const std::string& name) { return name.starts_with('.'); }

/// Things of one kind that a note will tell: how many, and the first of them.
struct Tally {
  std::size_t count = 0;
  std::vector<std::string> first;
  void add(std::string what) {
    if (++count <= kNamed) first.push_back(std::move(what));
  }
  /// "3 xs: a, b, c"
  void tell(std::vector<std::string>& notes, const std::string& root, const char* what) const {
    if (count == 0) return;
    notes.push_back(fmt::format("{}: {} {}: {}{}", printable(root), count, what,
                                fmt::join(first, ", "), count > kNamed ? ", ..." : ""));
  }
};

struct Entry {
  std::string name;
  bool folder = false, file = false;  // neither: a pipe, a socket, a device
  bool nowhere = false;               // a link without an end; counts as a file
};

/// What is in a folder, hidden things left out, sorted by the bytes of the names. Links are
/// followed; one that leads nowhere counts as a file, so that reading it tells.
std::vector<Entry> entries_of(const std::string& dir) {
  std::error_code error;
  std::vector<Entry> entries;
  fs::directory_iterator at(dir, error);
  for (; !error && at != fs::directory_iterator(); at.increment(error)) {
    std::error_code broken;
    Entry entry{at->path().filename().string()};
    if (is_hidden(entry.name)) continue;
    entry.folder = at->is_directory(broken);
    entry.file = !entry.folder && (broken || at->is_regular_file(broken) || at->is_symlink(broken));
    entry.nowhere = entry.file && at->is_symlink(broken) &&
                    fs::status(at->path(), broken).type() == fs::file_type::not_found;
    entries.push_back(std::move(entry));
  }
  if (error) {
    throw_as<DataError>("{}: the folder cannot be read: {}", printable(dir), error.message());
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

class Scanner {
 public:
  explicit Scanner(std::string root) : root_(std::move(root)) { tree_.pictures.root = root_; }

  ImageTree scan() {
    enter(root_);
    const std::vector<Entry> entries = entries_of(root_);
    tell_case_twins("", entries);
    for (const Entry& entry : entries) {
      if (entry.folder) scan_class(entry.name);
      if (entry.file && ends_in(entry.name, kRead)) outside_.add(printable(entry.name));
      if (entry.nowhere && !ends_in(entry.name, kRead)) {  // its number would be a guess
        throw_as<DataError>("{}: the link {} leads nowhere; it may be a class", printable(root_),
                            printable(entry.name));
      }
    }
    if (tree_.classes.empty()) {
      throw_as<DataError>(
          "{}: no class was found in that folder, expected a folder for each class with its "
          "pictures in it",
          printable(root_));
    }
    if (tree_.pictures.size() == 0) {
      throw_as<DataError>("{}: none of the {} class folders holds a .jpg or .png picture",
                          printable(root_), tree_.classes.size());
    }
    tell();
    return std::move(tree_);
  }

 private:
  using Identity = std::pair<dev_t, ino_t>;

  /// False: the folder is one of those that lead to it.
  bool enter(const std::string& dir) {
    struct stat info {};
    if (::stat(dir.c_str(), &info) != 0) return true;  // entries_of() tells what is wrong
    const Identity identity{info.st_dev, info.st_ino};
    if (std::find(above_.begin(), above_.end(), identity) != above_.end()) return false;
    if (++ways_[identity] > kMostWays) {  // links from level to level double them each time
      throw_as<DataError>("{}: links lead to this folder in more than {} ways", printable(dir),
                          kMostWays);
    }
    above_.push_back(identity);
    return true;
  }

  void scan_class(const std::string& name) {
    const std::int64_t label = std::int64_t(tree_.classes.size());
    std::map<std::string, std::vector<std::string>> folders;  // relative path -> pictures
    if (!enter((fs::path(root_) / name).string())) {
      loops_.add(printable(name));
      return;
    }
    tree_.classes.push_back(name);
    walk(name, folders);
    above_.pop_back();
    std::int64_t count = 0;
    for (const auto& [folder, names] : folders) {
      for (const std::string& picture : names) {
        tree_.pictures.add(folder + "/" + picture, label);
        ++count;
      }
    }
    if (count == 0) empty_.add(fmt::format("{} ({})", printable(name), label));
  }

  void walk(const std::string& relative, std::map<std::string, std::vector<std::string>>& folders) {
    const std::vector<Entry> entries = entries_of((fs::path(root_) / relative).string());
    tell_case_twins(relative, entries);
    for (const Entry& entry : entries) {
      const std::string inner = relative + "/" + entry.name;
      if (entry.folder) {
        if (!enter((fs::path(root_) / inner).string())) {
          loops_.add(printable(inner));
          continue;
        }
        walk(inner, folders);
        above_.pop_back();
      } else if (entry.file && ends_in(entry.name, kRead)) {
        folders[relative].push_back(entry.name);
      } else if (!entry.file && ends_in(entry.name, kRead)) {
        special_.add(printable(inner));
      } else if (ends_in(entry.name, kNotRead)) {
        not_read_.add(printable(inner));
      } else if (entry.nowhere) {
        nowhere_.add(printable(inner));
      }
    }
  }

  void tell_case_twins(const std::string& relative, const std::vector<Entry>& entries) {
    std::map<std::string, std::string> seen;
    for (const Entry& entry : entries) {
      const auto [twin, fresh] = seen.try_emplace(lower(entry.name), entry.name);
      if (fresh) continue;
      const std::string where = relative.empty() ? "" : relative + "/";
      twins_.add(
          fmt::format("{} and {}", printable(where + twin->second), printable(where + entry.name)));
    }
  }

  void tell() {
    std::vector<std::string>& notes = tree_.notes;
    empty_.tell(notes, root_, "classes without a picture keep their numbers");
    outside_.tell(notes, root_, "pictures outside of any class folder are left out");
    not_read_.tell(notes, root_, "pictures of kinds that are not read are left out");
    special_.tell(notes, root_, "pipes, sockets and devices are left out");
    nowhere_.tell(notes, root_, "links that lead nowhere are left out");
    loops_.tell(notes, root_, "links that lead back to a folder above them are not followed");
    twins_.tell(notes, root_, "pairs of names differ only in case and are kept apart");
  }

  std::string root_;
  ImageTree tree_;
  std::vector<Identity> above_;
  std::map<Identity, int> ways_;
  Tally empty_, outside_, not_read_, special_, nowhere_, loops_, twins_;
};

}  // namespace

ImageTree scan_image_tree(const std::string& root) { return Scanner(root).scan(); }

PictureList scan_flat_folder(const std::string& root) {
  PictureList list{.root = root};
  for (const Entry& entry : entries_of(root)) {
    if (entry.file && ends_in(entry.name, kRead)) list.add(entry.name, -1);
  }
  return list;
}

std::vector<std::string> folders_in(const std::string& root) {
  std::vector<std::string> names;
  for (const Entry& entry : entries_of(root)) {
    if (entry.folder) names.push_back(entry.name);
  }
  return names;
}

}  // namespace tr::data

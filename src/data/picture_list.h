// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/name_table.h"

namespace tr::data {

/// Picture files and their classes: what every layout of a set of files is read into.
struct PictureList {
  std::string root{};  // folder that the paths are relative to
  NameTable paths{};   // of the samples, bytes as the file system has them; may be absolute
  std::vector<std::int32_t> labels{};

  std::int64_t size() const { return paths.size(); }
  void add(std::string_view path, std::int64_t label) {
    paths.add(path);
    labels.push_back(std::int32_t(label));
  }
  /// Path of sample `id` as it is opened.
  std::string path_of(std::int64_t id) const;
};

/// Both splits of a set of files, and what a user should know of it.
struct PictureLists {
  PictureList train{};
  std::optional<PictureList> val{};    // none: validation is off
  std::vector<std::string> classes{};  // names in the order of their numbers; empty: numbers alone
  std::int64_t num_classes = 0;
  std::vector<std::string> notes{};  // one warning each
};

/// Takes `fraction` of each class's pictures out of the training set for validation, which must be
/// none yet. Which ones depends on (seed, relative path) alone: the same on every machine, and
/// adding a picture moves at most one other of its class. Of n pictures round(fraction * n) are
/// taken, at most n - 1.
/// @throws InvalidArgument  fraction is not inside (0, 1).  @throws DataError  nothing is taken.
void split_off_validation(PictureLists& lists, double fraction, std::uint64_t seed);

}  // namespace tr::data

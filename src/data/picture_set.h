// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/file_reader.h"
#include "data/picture_list.h"
#include "renaissance/data/dataset.h"

namespace tr::data {

/// Names of a set's classes; numbers alone if `names` is empty.
struct PictureClasses {
  std::vector<std::string> names;
  std::int64_t count = 0;
};

/// A set of picture files, read one by one when they are wanted. Fields: "image", encoded, of
/// `channels`, and "label" INT32 [].
class PictureSet final : public Dataset {
 public:
  /// `list` must hold samples whose labels are below classes.count; `reader` is shared by the
  /// splits.
  PictureSet(std::string name, PictureList list, PictureClasses classes, int channels,
             std::shared_ptr<FileReader> reader);

  std::int64_t num_samples() const override { return list_.size(); }
  std::vector<Field> fields() const override;
  /// The label alone.
  void read(std::int64_t id, std::span<std::byte* const> out) const override;
  void read_encoded(std::int64_t id, EncodedPicture& picture,
                    std::span<std::byte* const> out) const override;
  int num_classes() const override { return int(classes_.count); }
  std::string name() const override { return name_; }
  std::int64_t known_label(std::int64_t id) const override { return list_.labels[std::size_t(id)]; }
  std::string sample_name(std::int64_t id) const override;
  std::vector<std::string> class_names() const override { return classes_.names; }

  /// Of all files, as the file system says it; those that are not there count nothing.
  std::int64_t num_file_bytes() const;
  const PictureList& list() const { return list_; }

 private:
  std::string name_;
  PictureList list_;
  PictureClasses classes_;
  int channels_;
  std::shared_ptr<FileReader> reader_;
};

}  // namespace tr::data

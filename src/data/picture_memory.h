// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "renaissance/data/dataset.h"

namespace tr::data {

/// A set of picture files read into memory as they are (FULLY). What could not be read fails when
/// it is asked for, as it does from the disk.
class PictureMemory final : public Dataset {
 public:
  /// Reads every file of `set`, whose image is encoded.
  /// @throws OutOfMemory  they take more than `most_bytes`.
  PictureMemory(std::shared_ptr<const Dataset> set, std::int64_t most_bytes);

  std::int64_t num_samples() const override { return set_->num_samples(); }
  std::vector<Field> fields() const override { return set_->fields(); }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    set_->read(id, out);
  }
  void read_encoded(std::int64_t id, EncodedPicture& picture,
                    std::span<std::byte* const> out) const override;
  int num_classes() const override { return set_->num_classes(); }
  std::string name() const override { return set_->name(); }
  std::int64_t known_label(std::int64_t id) const override { return set_->known_label(id); }
  std::string sample_name(std::int64_t id) const override { return set_->sample_name(id); }
  std::vector<std::string> class_names() const override { return set_->class_names(); }

  std::int64_t num_bytes() const;

 private:
  std::shared_ptr<const Dataset> set_;
  std::vector<std::vector<std::byte>> files_;
  std::map<std::int64_t, std::string> faults_;  // of samples that could not be read
};

}  // namespace tr::data

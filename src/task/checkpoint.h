// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "renaissance/tensor/safetensors.h"

namespace tr {

/// All state of a run: tensors, and a JSON text with configuration, tuning table, counters, data
/// position, history. One safetensors file; the text, the format's number and a SHA-256 over
/// everything are its metadata.
struct Checkpoint {
  static constexpr int kFormat = 1;

  std::string state;  // JSON
  std::vector<NamedTensor> tensors;

  SafetensorsFile to_file() const;
  /// True if the file says of itself that it is a checkpoint.
  static bool is_one(const SafetensorsFile& file);
  /// @throws DataError    not a checkpoint of this program, or a checksum that does not fit.
  /// @throws Unsupported  a newer format.
  static Checkpoint from_file(SafetensorsFile file, const std::string& source);
};

/// Folder of "checkpoint-0000001200.safetensors" (by step) and "best.safetensors".
class CheckpointFolder {
 public:
  /// Makes the folder and tries to write there. @throws DataError  it cannot be.
  CheckpointFolder(std::string path, int keep);

  /// Writes atomically, then removes all but the `keep` newest. Returns the file's path.
  std::string write(std::int64_t step, const Checkpoint& checkpoint) const;
  /// Removes what a run that was killed while writing left there. Nobody else may be writing.
  void remove_leftovers() const;
  /// Moves the checkpoints of a former run to the subfolder "former-N", announced: by their steps
  /// they would count as newer than those of a run that starts afresh. `best_weights` too, if it
  /// lies in the folder: it would count as the best of this run.
  void set_former_aside(const std::string& best_weights = "") const;
  /// Lets "best.safetensors" be the file `path`, atomically.
  void mark_best(const std::string& path) const;
  const std::string& path() const { return path_; }

  struct Found {
    std::string path;
    std::int64_t step = 0;
    Checkpoint checkpoint;
  };
  /// The newest sound checkpoint; damaged ones are logged and passed over. A folder that does not
  /// exist has none. @throws DataError  the folder, or a file that may be the newest sound one,
  /// cannot be read (permissions, the disk); or all are damaged.
  /// @throws Unsupported  the newest one has a newer format.
  static std::optional<Found> newest(const std::string& path);

 private:
  std::string path_;
  int keep_;
};

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "backend/device_backend.h"

namespace tr {

struct TuningOptions {
  double search_seconds =
      0;  // for all nodes of a compile; 0: nothing is measured, no cache is read
  std::string cache = "auto";  // auto: a file of the cache folder; off; else the file's path
};

/// The measured choice of engines for one compile: its search, and the cache on disk. Where a
/// device measures nothing (the CPU), engines are chosen by rank and no file is touched.
class EngineTuning {
 public:
  EngineTuning(const TuningOptions& options, DeviceKind device, int device_index);

  /// For make_kernel_oracle(); null: by rank.
  EngineSearch* search() { return search_.get(); }
  /// Says what was measured and keeps what is new; the device's scratch memory is given back.
  void finish();
  /// Empty: none.
  const std::string& cache_path() const { return path_; }

 private:
  std::unique_ptr<EngineSearch> search_;
  std::string environment_, path_;
  std::string loaded_hash_;  // of what the file gave
};

}  // namespace tr

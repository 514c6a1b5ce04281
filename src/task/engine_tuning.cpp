// SPDX-License-Identifier: Apache-2.0
#include "task/engine_tuning.h"

#include "core/env.h"
#include "core/format.h"
#include "core/log.h"
#include "core/sha256.h"

namespace tr {
namespace {

/// One file an environment, so that machines that share a home folder do not overwrite each
/// other's.
std::string path_of(const std::string& cache, const std::string& environment) {
  if (cache == "off") return "";
  if (cache != "auto") return cache;
  const std::string folder = cache_folder();
  if (folder.empty()) {
    log_info("tuning cache: none, since neither TR_CACHE_DIR, XDG_CACHE_HOME nor HOME is set");
    return "";
  }
  Sha256 sha;
  sha.update(environment);
  return fmt::format("{}/tuning-{}.json", folder, sha.hex().substr(0, 16));
}

}  // namespace

EngineTuning::EngineTuning(const TuningOptions& options, DeviceKind device, int device_index) {
  const DeviceBackend* backend = find_backend(device);
  if (backend == nullptr || !backend->make_bench || options.search_seconds <= 0) return;
  environment_ = backend->tuning_environment(device_index);
  path_ = path_of(options.cache, environment_);
  search_ = std::make_unique<EngineSearch>(backend->make_bench(device_index),
                                           SearchOptions{.seconds = options.search_seconds});
  if (!path_.empty()) search_->cache() = TuningTable::load_cache(path_, environment_);
  loaded_hash_ = search_->cache().hash();
}

void EngineTuning::finish() {
  if (search_ == nullptr) return;
  if (search_->num_searched() > 0) {
    log_info("tuning: engines of {} nodes measured in {:.2f} s", search_->num_searched(),
             search_->spent_seconds());
  }
  if (search_->num_out_of_time() > 0) {
    log_warning(
        "tuning: search_seconds ended before all engines of {} nodes were measured; theirs are "
        "chosen by rank, or among those that were",
        search_->num_out_of_time());
  }
  TuningTable& table = search_->cache();
  if (!path_.empty() && table.hash() != loaded_hash_) {
    // What another process has added since.
    table.add_missing(TuningTable::read_cache(path_, environment_).table);
    table.save_cache(path_, environment_);
  }
  search_.reset();
}

}  // namespace tr

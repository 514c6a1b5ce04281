// SPDX-License-Identifier: Apache-2.0
#include "data/sets_in_memory.h"

#include <algorithm>

#include "core/check.h"
#include "core/host_memory.h"
#include "core/human.h"
#include "core/log.h"
#include "data/memory_dataset.h"
#include "data/picture_memory.h"
#include "data/picture_set.h"

namespace tr::data {
namespace {

/// What a set's samples take in memory, picture files aside.
std::int64_t bytes_of_fields(const Dataset& set) {
  std::int64_t bytes = 0;
  for (const Field& field : set.fields()) {
    if (!field.encoded) bytes += bytes_of(field.type) * set.num_samples();
  }
  return bytes;
}

/// With picture files; of those of another kind than ours nothing is known before they are read.
std::int64_t bytes_in_memory(const Dataset& set) {
  const auto* pictures = dynamic_cast<const PictureSet*>(&set);
  return bytes_of_fields(set) + (pictures == nullptr ? 0 : pictures->num_file_bytes());
}

}  // namespace

std::shared_ptr<const Dataset> SetsInMemory::get(const std::shared_ptr<const Dataset>& set) {
  const std::lock_guard lock(mutex_);
  Loaded& loaded = loaded_[set];
  if (loaded.fault) std::rethrow_exception(loaded.fault);
  if (loaded.set) return loaded.set;
  try {
    loaded.set = load(set);
  } catch (...) {  // every loader that asks is told the same
    loaded.fault = std::current_exception();
    throw;
  }
  return loaded.set;
}

std::shared_ptr<const Dataset> SetsInMemory::load(const std::shared_ptr<const Dataset>& set) {
  std::int64_t bytes = bytes_in_memory(*set);
  const std::int64_t most = most_bytes_ == kWhatIsFree
                                ? free_host_memory_bytes()
                                : std::max<std::int64_t>(0, most_bytes_ - num_bytes_);
  if (!is_in_memory(*set) && bytes > most) {
    throw_as<OutOfMemory>(
        "fully_mode: the {} samples of {} take {} of memory, {} are free; expected "
        "fully_mode=false, which reads them as they are needed",
        set->num_samples(), set->name(), format_bytes(bytes), format_bytes(most));
  }
  std::shared_ptr<const Dataset> loaded = load_into_memory(set, most);
  if (loaded == set) return loaded;
  const auto* pictures = dynamic_cast<const PictureMemory*>(loaded.get());
  if (pictures != nullptr) bytes = bytes_of_fields(*set) + pictures->num_bytes();
  num_bytes_ += bytes;
  log_info("data: {} samples of {} lie in memory, {}", set->num_samples(), set->name(),
           format_bytes(bytes));
  return loaded;
}

}  // namespace tr::data

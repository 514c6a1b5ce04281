// SPDX-License-Identifier: Apache-2.0
#include "task/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/format.h"
#include "core/input_file.h"
#include "core/log.h"
#include "core/sha256.h"
#include "task/parse.h"

namespace tr {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFormatKey = "renaissance.checkpoint";
constexpr const char* kStateKey = "state";
constexpr const char* kHashKey = "sha256";
constexpr std::string_view kPrefix = "checkpoint-";
constexpr std::string_view kSuffix = ".safetensors";

std::string content_hash(const std::string& state, const std::vector<NamedTensor>& tensors) {
  Sha256 hash;
  hash.update(std::string_view(state));
  for (const NamedTensor& t : tensors) {
    hash.update(fmt::format("\n{} {}\n", t.name, to_string(t.tensor.type())));
    hash.update(std::span(static_cast<const std::byte*>(t.tensor.raw()), t.tensor.num_bytes()));
  }
  return hash.hex();
}

struct Entry {
  std::int64_t step;
  std::string path;
};

std::string file_name(std::int64_t step) {
  return fmt::format("{}{:010}{}", kPrefix, step, kSuffix);
}

/// Checkpoints by step, newest first; files of other names, "checkpoint-5.safetensors" too, are
/// none of ours and stay.
std::vector<Entry> entries(const std::string& folder) {
  std::vector<Entry> found;
  std::error_code failed;
  const fs::directory_iterator files(folder, failed);
  if (failed && failed != std::errc::no_such_file_or_directory)
    throw_as<DataError>("{}: the folder of checkpoints cannot be read: {}", folder,
                        failed.message());
  for (const auto& file : files) {
    const std::string name = file.path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    const std::string_view digits = std::string_view(name).substr(
        kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
    const auto step = parse_number<std::int64_t>(digits);
    if (step && *step >= 0 && name == file_name(*step))
      found.push_back({*step, file.path().string()});
  }
  std::sort(found.begin(), found.end(),
            [](const Entry& a, const Entry& b) { return a.step > b.step; });
  return found;
}

}  // namespace

SafetensorsFile Checkpoint::to_file() const {
  SafetensorsFile file{tensors, {}};
  // The file orders tensors by itself; the hash must not depend on that.
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  file.metadata[kFormatKey] = std::to_string(kFormat);
  file.metadata[kStateKey] = state;
  file.metadata[kHashKey] = content_hash(state, file.tensors);
  return file;
}

bool Checkpoint::is_one(const SafetensorsFile& file) { return file.metadata.contains(kFormatKey); }

Checkpoint Checkpoint::from_file(SafetensorsFile file, const std::string& source) {
  const auto value = [&](const char* key) -> const std::string& {
    const auto found = file.metadata.find(key);
    if (found == file.metadata.end()) {
      throw_as<DataError>("{}: it is not a checkpoint, its metadata has no \"{}\"", source, key);
    }
    return found->second;
  };
  const std::string& number = value(kFormatKey);
  const auto format = parse_number<int>(number);
  if (!format || *format < 1)
    throw_as<DataError>("{}: its format is \"{}\", expected a number", source, number);
  if (*format > kFormat) {
    throw_as<Unsupported>(
        "{}: its format is {}, this version reads up to {}; use the version that wrote it", source,
        *format, kFormat);
  }
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  const std::string hash = content_hash(value(kStateKey), file.tensors);
  if (hash != value(kHashKey)) {
    throw_as<DataError>(
        "{}: the checksum is {}, expected {} (from its metadata): the file is damaged", source,
        hash, value(kHashKey));
  }
  return {value(kStateKey), std::move(file.tensors)};
}

CheckpointFolder::CheckpointFolder(std::string path, int keep)
    : path_(std::move(path)), keep_(keep) {
  TR_ASSERT(keep_ >= 1);
  make_folder(path_);
  std::error_code none;
  if (fs::is_directory(path_ + "/best.safetensors", none)) {
    throw_as<DataError>(
        "{}/best.safetensors: it is a folder, expected a place for the best checkpoint", path_);
  }
  AtomicFile probe(path_ + "/.probe");  // never committed: tells now, not after the first epoch
  probe.write(std::string_view("x"));
}

void CheckpointFolder::remove_leftovers() const {
  std::error_code failed;
  for (const auto& file : fs::directory_iterator(path_, failed)) {
    const std::string name = file.path().filename().string();
    const bool ours =
        name.starts_with(kPrefix) || name.starts_with("best") || name.starts_with(".probe");
    if (!ours || !name.ends_with(".tmp")) continue;
    std::error_code kept;
    if (fs::remove(file.path(), kept)) log_info("{}: an unfinished file is removed", name);
  }
}

std::string CheckpointFolder::write(std::int64_t step, const Checkpoint& checkpoint) const {
  const std::string file = fmt::format("{}/{}", path_, file_name(step));
  save_safetensors(file, checkpoint.to_file());
  const std::vector<Entry> all = entries(path_);
  for (std::size_t i = std::size_t(keep_); i < all.size(); ++i) {
    std::error_code failed;
    fs::remove(all[i].path, failed);
    if (failed)
      log_warning("{}: an old checkpoint cannot be removed: {}", all[i].path, failed.message());
  }
  return file;
}

void CheckpointFolder::set_former_aside(const std::string& best_weights) const {
  std::error_code failed;
  std::vector<fs::path> former;
  for (const Entry& entry : entries(path_)) former.emplace_back(entry.path);
  const fs::path best = fs::path(path_) / "best.safetensors", weights = best_weights;
  if (!former.empty() && fs::exists(best, failed)) former.push_back(best);
  const fs::path parent = weights.has_parent_path() ? weights.parent_path() : fs::path(".");
  if (fs::exists(weights, failed) && fs::equivalent(parent, path_, failed)) {
    former.push_back(weights);
  }
  if (former.empty()) return;
  int number = 1;
  while (fs::exists(fmt::format("{}/former-{}", path_, number), failed)) ++number;
  const std::string aside = fmt::format("{}/former-{}", path_, number);
  make_folder(aside);
  for (const fs::path& file : former) {
    fs::rename(file, fs::path(aside) / file.filename(), failed);
    if (failed)
      throw_as<DataError>("{}: cannot be moved to {}: {}", file.string(), aside, failed.message());
  }
  log_warning("{}: {} files of a former run are moved to {}; resume would have continued it", path_,
              former.size(), aside);
}

void CheckpointFolder::mark_best(const std::string& path) const {
  const std::string best = path_ + "/best.safetensors";
  const std::string temporary = fmt::format("{}.{}.tmp", best, ::getpid());
  ::unlink(temporary.c_str());
  if (::link(path.c_str(), temporary.c_str()) != 0) {  // a file system without hard links
    std::error_code failed;
    fs::copy_file(path, temporary, fs::copy_options::overwrite_existing, failed);
    if (failed) throw_as<DataError>("{}: it cannot be written: {}", temporary, failed.message());
  }
  if (::rename(temporary.c_str(), best.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    throw_as<DataError>("{}: it cannot be renamed to {}: {}", temporary, best,
                        std::strerror(error));
  }
  ::unlink(temporary.c_str());  // renaming one link of a file onto another leaves both
}

std::optional<CheckpointFolder::Found> CheckpointFolder::newest(const std::string& path) {
  const std::vector<Entry> all = entries(path);
  for (const Entry& entry : all) {
    try {
      return Found{entry.path, entry.step,
                   Checkpoint::from_file(load_safetensors(entry.path), entry.path)};
    } catch (const UnreadableFile& error) {
      // Its state may be sound and newer than the one before: not to be passed over in silence.
      throw_as<DataError>(
          "{}; it is the newest checkpoint of {}: make it readable, or move it away "
          "to continue from the one before",
          error.what(), path);
    } catch (const DataError& error) {
      if (&entry == &all.back()) {  // a run that starts afresh is not what was asked for
        throw_as<DataError>(
            "{}; {} has no other checkpoint that is sound ({} in all): move them away to start "
            "afresh",
            error.what(), path, all.size());
      }
      log_warning("{}; trying the one before", error.what());
    }
  }
  return std::nullopt;
}

}  // namespace tr

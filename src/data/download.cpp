// SPDX-License-Identifier: Apache-2.0
#include "data/download.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/input_file.h"
#include "core/log.h"
#include "core/sha256.h"
#include "data/curl_library.h"
#include "data/formats/byte_source.h"

namespace tr::data {
namespace {

constexpr std::int64_t kWorthwhileBytes = 1 << 20;  // of a try that was interrupted

/// Hash of a file's contents, gunzipped if it is gzip. @throws DataError  it is cut or damaged.
std::string payload_sha256(const std::string& path) {
  const std::vector<std::byte> file = read_bytes(path);
  const std::unique_ptr<ByteSource> source = open_bytes(file, path);
  Sha256 hash;
  std::vector<std::byte> bytes(std::size_t(1) << 20);
  for (;;) {
    const std::size_t count = source->read(bytes);
    hash.update(std::span<const std::byte>(bytes).first(count));
    if (count < bytes.size()) return hash.hex();
  }
}

/// NAME.part: what has come so far, kept between tries and runs.
class PartFile {
 public:
  explicit PartFile(std::string path) : path_(std::move(path)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("cannot be written");
    const off_t end = lseek(descriptor_, 0, SEEK_END);
    if (end < 0) fail("cannot be measured");
    num_bytes_ = end;
  }
  ~PartFile() {
    close(descriptor_);
    if (num_bytes_ == 0) unlink(path_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  std::int64_t num_bytes() const { return num_bytes_; }
  bool append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return false;
      num_bytes_ += written;
      bytes = bytes.subspan(std::size_t(written));
    }
    return true;
  }
  void clear() {
    if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) < 0)
      fail("cannot be emptied");
    num_bytes_ = 0;
  }
  /// Makes it the finished file.
  void rename_to(const std::string& target) {
    if (fsync(descriptor_) != 0) fail("cannot be synced");
    if (std::rename(path_.c_str(), target.c_str()) != 0) fail("cannot be renamed");
  }
  [[noreturn]] void fail(const char* what) const {
    throw_as<DataError>("download: {} {} ({})", path_, what, std::strerror(errno));
  }

 private:
  std::string path_;
  int descriptor_ = -1;
  std::int64_t num_bytes_ = 0;
};

/// "" if the part is the whole file, else what is wrong with it.
std::string fault_of(const RemoteFile& file, const std::string& path) {
  try {
    const std::string hash = file.wrapper_too ? sha256_file(path) : payload_sha256(path);
    if (hash == file.payload_sha256) return "";
    return fmt::format("SHA-256 of the {} is {}, expected {}",
                       file.wrapper_too ? "file" : "contents", hash, file.payload_sha256);
  } catch (const DataError& error) {
    return error.what();
  }
}

/// One mirror: tries, each going on where the last one ended; only those that brought little are
/// counted. "" if the part is complete and sound, else what happened.
std::string fetch_from(const std::string& url, const RemoteFile& file,
                       const DownloadOptions& options, PartFile& part) {
  std::string fault;
  // What an earlier run left may be another mirror's: a wrong hash after it is no verdict on this
  // one.
  bool foreign = part.num_bytes() > 0;
  for (int fruitless = 0; fruitless < options.tries_per_mirror;) {
    const std::int64_t start = part.num_bytes();
    bool disk_full = false;
    const HttpResult result = http_get(
        {url, start, options.connect_timeout_s, options.stall_s},
        [&](std::span<const std::byte> bytes) { return !(disk_full = !part.append(bytes)); });
    if (disk_full) part.fail("cannot be written");
    // Without a network the demo must come to its own data soon; a later run resumes the part.
    if (result.outcome == HttpOutcome::UNREACHABLE) return result.message;
    if (result.outcome == HttpOutcome::INTERRUPTED) {
      fault = result.message;
      if (part.num_bytes() - start < kWorthwhileBytes) ++fruitless;
      continue;
    }
    if (result.outcome == HttpOutcome::DONE) {
      const std::string wrong = fault_of(file, part.path());
      if (wrong.empty()) return "";
      fault = url + ": " + wrong;
    } else {
      fault = result.message;
    }
    part.clear();
    if (!foreign && result.outcome != HttpOutcome::NO_RANGE) return fault;
    foreign = false;
    if (start == 0) ++fruitless;  // else it begins anew, without what could not be resumed
  }
  return fault;
}

std::string joined(const std::string& mirror, const std::string& name) {
  return mirror.ends_with('/') ? mirror + name : mirror + "/" + name;
}

}  // namespace

void download_file(const RemoteFile& file, const std::string& dir, const DownloadOptions& options) {
  TR_CHECK(!options.mirrors.empty(), "download: there is no mirror for {}", file.name);
  make_folder(dir);
  const std::string target = (std::filesystem::path(dir) / file.name).string();
  PartFile part(target + ".part");
  if (part.num_bytes() > 0 && fault_of(file, part.path()).empty()) {  // only the rename was missing
    part.rename_to(target);
    return;
  }
  std::string faults;
  for (const std::string& mirror : options.mirrors) {
    const std::string url = joined(mirror, file.name);
    log_info("download: {} to {}", url, target);
    const std::string fault = fetch_from(url, file, options, part);
    if (fault.empty()) {
      part.rename_to(target);
      return;
    }
    log_warning("download: {}", fault);
    faults += (faults.empty() ? "" : "; ") + fault;
    if (&mirror != &options.mirrors.back()) part.clear();  // another mirror's bytes may differ
  }
  throw_as<DataError>("download: {} could not be fetched: {}", file.name, faults);
}

}  // namespace tr::data

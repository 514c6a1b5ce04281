// SPDX-License-Identifier: Apache-2.0
#include "data/formats/cifar.h"

#include <cstring>
#include <filesystem>

#include "core/check.h"
#include "core/input_file.h"
#include "data/formats/byte_source.h"
#include "data/memory_dataset.h"

namespace tr::data {
namespace {

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kPixels = 3 * kPlane;

struct Layout {
  const char* name;
  const char* folder;  // that the archive unpacks to
  int num_classes;
  std::vector<std::string> train, val;
};

const Layout& layout_of(CifarKind kind) {
  static const Layout ten{"cifar-10",
                          "cifar-10-batches-bin",
                          10,
                          {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin"},
                          {"test_batch.bin"}};
  static const Layout hundred{"cifar-100", "cifar-100-binary", 100, {"train.bin"}, {"test.bin"}};
  return kind == CifarKind::CIFAR10 ? ten : hundred;
}

std::size_t label_bytes(CifarKind kind) { return kind == CifarKind::CIFAR10 ? 1 : 2; }

/// Where the files lie: `dir` itself, or the archive's folder in it.
std::filesystem::path folder_of(const std::string& dir, const Layout& layout) {
  std::error_code error;  // an unreadable folder shows when its files are opened
  const std::filesystem::path inner = std::filesystem::path(dir) / layout.folder;
  return std::filesystem::is_directory(inner, error) ? inner : std::filesystem::path(dir);
}

/// Planes to pixels.
void interleave(const std::byte* planes, std::uint8_t* pixels) {
  for (std::size_t p = 0; p < kPlane; ++p) {
    for (std::size_t c = 0; c < 3; ++c) pixels[3 * p + c] = std::uint8_t(planes[c * kPlane + p]);
  }
}

std::vector<std::byte> unpacked(std::span<const std::byte> bytes, const std::string& who) {
  const std::unique_ptr<ByteSource> source = open_bytes(bytes, who);
  std::vector<std::byte> all;
  constexpr std::size_t kStep = std::size_t(1) << 20;
  for (;;) {
    const std::size_t before = all.size();
    all.resize(before + kStep);
    const std::size_t got = source->read(std::span(all).subspan(before));
    all.resize(before + got);
    if (got < kStep) return all;
  }
}

CifarRecords records_of(std::span<const std::byte> bytes, CifarKind kind, const std::string& who) {
  const std::size_t head = label_bytes(kind), record = head + kPixels;
  const Layout& layout = layout_of(kind);
  if (bytes.empty()) throw_as<DataError>("{}: the file is empty, there are no records", who);
  if (bytes.size() % record != 0) {
    throw_as<DataError>(
        "{}: has {} bytes, which is no multiple of {} (a record of {}): {} records and {} bytes",
        who, bytes.size(), record, layout.name, bytes.size() / record, bytes.size() % record);
  }
  const std::int64_t n = std::int64_t(bytes.size() / record);
  CifarRecords records{Tensor({n, kSide, kSide, 3}, DType::UINT8), Tensor({n}, DType::INT32)};
  for (std::int64_t i = 0; i < n; ++i) {
    const std::byte* at = bytes.data() + std::size_t(i) * record;
    const int label = int(at[head - 1]);
    if (label >= layout.num_classes) {
      throw_as<DataError>("{}: label {} of record {} is outside 0..{}", who, label, i,
                          layout.num_classes - 1);
    }
    records.labels.data<std::int32_t>()[i] = label;
    interleave(at + head, records.images.data<std::uint8_t>() + std::size_t(i) * kPixels);
  }
  return records;
}

/// The files' records one after the other; files that have a fault are left out and told.
CifarRecords read_files(const std::filesystem::path& folder, const std::vector<std::string>& names,
                        CifarKind kind, std::vector<std::string>& faults) {
  std::vector<CifarRecords> parts;
  std::int64_t n = 0;
  for (const std::string& name : names) {
    const std::string path = (folder / name).string();
    try {
      parts.push_back(parse_cifar(read_bytes(path), kind, path));
      n += parts.back().labels.num_elements();
    } catch (const DataError& error) {
      faults.emplace_back(error.what());
    }
  }
  if (parts.empty()) return {};
  CifarRecords all{Tensor({n, kSide, kSide, 3}, DType::UINT8), Tensor({n}, DType::INT32)};
  std::int64_t done = 0;
  for (const CifarRecords& part : parts) {
    std::memcpy(all.images.data<std::uint8_t>() + std::size_t(done) * kPixels, part.images.raw(),
                part.images.num_bytes());
    std::memcpy(all.labels.data<std::int32_t>() + done, part.labels.raw(), part.labels.num_bytes());
    done += part.labels.num_elements();
  }
  return all;
}

std::shared_ptr<const Dataset> open_split(const std::filesystem::path& folder,
                                          const std::vector<std::string>& names, CifarKind kind) {
  std::vector<std::string> faults;
  CifarRecords records = read_files(folder, names, kind, faults);
  if (!faults.empty()) throw_as<DataError>("{}", faults.front());
  std::vector<NamedTensor> fields;
  fields.push_back({"image", std::move(records.images)});
  fields.push_back({"label", std::move(records.labels)});
  const Layout& layout = layout_of(kind);
  return std::make_shared<MemoryDataset>(layout.name, std::move(fields), layout.num_classes);
}

}  // namespace

CifarRecords parse_cifar(std::span<const std::byte> bytes, CifarKind kind, const std::string& who) {
  if (!is_gzip(bytes)) return records_of(bytes, kind, who);
  return records_of(unpacked(bytes, who), kind, who);
}

DatasetPair open_cifar(const std::string& dir, CifarKind kind) {
  const Layout& layout = layout_of(kind);
  const std::filesystem::path folder = folder_of(dir, layout);
  return {open_split(folder, layout.train, kind), open_split(folder, layout.val, kind)};
}

std::vector<std::string> check_cifar(const std::string& dir, CifarKind kind) {
  const Layout& layout = layout_of(kind);
  const std::filesystem::path folder = folder_of(dir, layout);
  std::vector<std::string> faults;
  read_files(folder, layout.train, kind, faults);
  read_files(folder, layout.val, kind, faults);
  return faults;
}

bool has_cifar(const std::string& dir, CifarKind kind) {
  const Layout& layout = layout_of(kind);
  const std::filesystem::path folder = folder_of(dir, layout);
  std::error_code error;  // an unreadable folder is the same as a missing file here
  for (const auto* names : {&layout.train, &layout.val}) {
    for (const std::string& name : *names) {
      if (!std::filesystem::exists(folder / name, error)) return false;
    }
  }
  return true;
}

}  // namespace tr::data

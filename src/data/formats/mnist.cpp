// SPDX-License-Identifier: Apache-2.0
#include "data/formats/mnist.h"

#include <filesystem>

#include "core/check.h"
#include "core/format.h"
#include "data/formats/idx.h"
#include "data/memory_dataset.h"
#include "renaissance/data/datasets.h"

namespace tr::data {
namespace {

constexpr int kNumClasses = 10;

/// The plain file, else the .gz, else "".
std::string find_file(const std::string& dir, const std::string& name) {
  std::error_code error;  // an unreadable folder is the same as a missing file here
  for (const char* suffix : {"", ".gz"}) {
    const std::filesystem::path path = std::filesystem::path(dir) / (name + suffix);
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return "";
}

std::string images_name(const std::string& prefix) { return prefix + "-images-idx3-ubyte"; }
std::string labels_name(const std::string& prefix) { return prefix + "-labels-idx1-ubyte"; }

/// The file's tensor; empty with a fault noted if it cannot be had.
Tensor read_part(const std::string& dir, const std::string& file, const std::string& set,
                 std::string& path, std::vector<std::string>& faults) {
  path = find_file(dir, file);
  if (path.empty()) {
    faults.push_back(fmt::format("{}: {} has neither {} nor {}.gz", set, dir, file, file));
    return {};
  }
  const IdxKind kind = file.ends_with("idx3-ubyte") ? IdxKind::IMAGES : IdxKind::LABELS;
  try {
    return read_idx(path, kind);
  } catch (const Error& error) {
    faults.emplace_back(error.what());
    return {};
  }
}

Tensor widened(const Tensor& labels) { return labels.empty() ? Tensor() : labels.to(DType::INT32); }

std::string size_fault(const std::string& set, const MnistSplit& train, const MnistSplit& val) {
  if (train.images.empty() || val.images.empty()) return "";
  const Shape a = train.images.shape().drop_first(), b = val.images.shape().drop_first();
  if (a == b) return "";
  return fmt::format("{}: the images of {} are {}, those of {} are {}", set, train.images_path, a,
                     val.images_path, b);
}

std::shared_ptr<const Dataset> to_dataset(MnistSplit&& split, const std::string& set) {
  if (!split.faults.empty()) throw_as<DataError>("{}", split.faults.front());
  std::vector<NamedTensor> fields;
  fields.push_back({"image", std::move(split.images)});
  fields.push_back({"label", std::move(split.labels)});
  return std::make_shared<MemoryDataset>(set, std::move(fields), kNumClasses);
}

}  // namespace

MnistSplit read_mnist_split(const std::string& dir, const std::string& prefix,
                            const std::string& name) {
  MnistSplit split;
  const Tensor images = read_part(dir, images_name(prefix), name, split.images_path, split.faults);
  const Tensor labels = read_part(dir, labels_name(prefix), name, split.labels_path, split.faults);
  if (!images.empty()) {
    const Shape& s = images.shape();
    split.images = images.reshape({s[0], s[1], s[2], 1});
  }
  split.labels = widened(labels);
  if (!labels.empty()) {
    const auto bad = label_faults(split.labels_path, split.labels, kNumClasses);
    split.faults.insert(split.faults.end(), bad.begin(), bad.end());
  }
  if (!images.empty() && !labels.empty() && images.shape()[0] != labels.shape()[0]) {
    split.faults.push_back(fmt::format("{}: {} holds {} images, {} holds {} labels", name,
                                       split.images_path, images.shape()[0], split.labels_path,
                                       labels.shape()[0]));
  }
  return split;
}

DatasetPair open_mnist(const std::string& dir, const std::string& name) {
  MnistSplit train = read_mnist_split(dir, "train", name);
  MnistSplit val = read_mnist_split(dir, "t10k", name);
  const std::string fault = size_fault(name, train, val);
  if (!fault.empty()) throw_as<DataError>("{}", fault);
  DatasetPair pair;
  pair.train = to_dataset(std::move(train), name);
  pair.val = to_dataset(std::move(val), name);
  return pair;
}

std::vector<std::string> check_mnist(const std::string& dir, const std::string& name) {
  const MnistSplit train = read_mnist_split(dir, "train", name);
  const MnistSplit val = read_mnist_split(dir, "t10k", name);
  std::vector<std::string> faults = train.faults;
  faults.insert(faults.end(), val.faults.begin(), val.faults.end());
  const std::string fault = size_fault(name, train, val);
  if (!fault.empty()) faults.push_back(fault);
  return faults;
}

}  // namespace tr::data

namespace tr {

bool has_mnist(const std::string& path) {
  for (const std::string prefix : {"train", "t10k"}) {
    if (data::find_file(path, data::images_name(prefix)).empty()) return false;
    if (data::find_file(path, data::labels_name(prefix)).empty()) return false;
  }
  return true;
}

}  // namespace tr

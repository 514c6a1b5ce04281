// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/datasets.h"

#include <array>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/log.h"
#include "core/nearest_name.h"
#include "core/printable.h"
#include "data/check.h"
#include "data/download.h"
#include "data/formats/cifar.h"
#include "data/formats/mnist.h"
#include "data/picture_layouts.h"
#include "data/picture_set.h"

namespace tr {
namespace {

using data::CifarKind;
using data::PictureLists;
using Path = const std::string&;
using Options = const DatasetOptions&;
using Faults = std::vector<std::string>;

/// A set that can be opened by its name: the one place that knows all of them.
struct NamedSet {
  std::string_view name;  // canonical
  int channels, num_classes;
  DatasetPair (*open)(Path path, Options options) = nullptr;  // null: `list` instead
  bool (*is_there)(Path path) = nullptr;                      // all files are; with download
  void (*download)(Path path) = nullptr;
  Faults (*check)(Path path) = nullptr;  // null: no files, or picture by picture
  PictureLists (*list)(Path path, const data::SplitOptions& options) = nullptr;  // of picture files
};

void check_path(const NamedSet& set, Path path) {
  const bool has_files = set.list != nullptr || set.is_there != nullptr;
  TR_CHECK(!path.empty() || !has_files,
           "dataset {}: the path is empty, expected the place of its files", set.name);
  if (!path.empty() && !has_files)
    log_warning("data: {} has no files, so {} is not looked at", set.name, printable(path));
}

/// What list_*() found, as a set.
DatasetPair open_pictures(const NamedSet& set, PictureLists lists, Options options) {
  for (const std::string& note : lists.notes) log_warning("data: {}", note);
  log_info("data: {}: {} pictures of {} classes for training, {}", set.name, lists.train.size(),
           lists.num_classes,
           lists.val ? fmt::format("{} for validation", lists.val->size())
                     : std::string("none for validation"));
  const auto reader = std::make_shared<data::FileReader>(
      data::FileReaderOptions{.timeout_s = options.read_timeout_s});
  const auto make = [&](data::PictureList list) {
    return std::make_shared<data::PictureSet>(
        std::string(set.name), std::move(list),
        data::PictureClasses{lists.classes, lists.num_classes},
        options.color_channels == 0 ? 3 : options.color_channels, reader);
  };
  DatasetPair pair;
  pair.train = make(std::move(lists.train));
  if (lists.val) pair.val = make(std::move(*lists.val));
  return pair;
}

const std::array<NamedSet, 8> kSets{{
    {.name = "mnist",
     .channels = 1,
     .num_classes = 10,
     .open = [](Path path, Options) { return data::open_mnist(path); },
     .is_there = has_mnist,
     .download = [](Path path) { data::download_mnist(path, data::mnist_download_options()); },
     .check = [](Path path) { return data::check_mnist(path); }},
    {.name = "fashion-mnist",
     .channels = 1,
     .num_classes = 10,
     .open = [](Path path, Options) { return data::open_mnist(path, "fashion-mnist"); },
     .is_there = has_mnist,
     .download =
         [](Path path) {
           data::download_fashion_mnist(path, data::fashion_mnist_download_options());
         },
     .check = [](Path path) { return data::check_mnist(path, "fashion-mnist"); }},
    {.name = "cifar-10",
     .channels = 3,
     .num_classes = 10,
     .open = [](Path path, Options) { return data::open_cifar(path, CifarKind::CIFAR10); },
     .is_there = [](Path path) { return data::has_cifar(path, CifarKind::CIFAR10); },
     .download =
         [](Path path) {
           data::download_cifar(path, CifarKind::CIFAR10, data::cifar_download_options());
         },
     .check = [](Path path) { return data::check_cifar(path, CifarKind::CIFAR10); }},
    {.name = "cifar-100",
     .channels = 3,
     .num_classes = 100,
     .open = [](Path path, Options) { return data::open_cifar(path, CifarKind::CIFAR100); },
     .is_there = [](Path path) { return data::has_cifar(path, CifarKind::CIFAR100); },
     .download =
         [](Path path) {
           data::download_cifar(path, CifarKind::CIFAR100, data::cifar_download_options());
         },
     .check = [](Path path) { return data::check_cifar(path, CifarKind::CIFAR100); }},
    {.name = "imagenet", .channels = 3, .num_classes = 0, .list = data::list_imagenet},
    {.name = "folder", .channels = 0, .num_classes = 0, .list = data::list_folder},
    {.name = "csv", .channels = 0, .num_classes = 0, .list = data::list_csv},
    {.name = "procedural",
     .channels = 1,
     .num_classes = 10,
     .open =
         [](Path, Options options) {
           return DatasetPair{make_procedural_digits("train", options.num_train, options.seed),
                              make_procedural_digits("val", options.num_val, options.seed)};
         },
     .check = [](Path) { return Faults(); }},  // made from numbers: nothing can be damaged
}};

/// Other ways to write a name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kAliases{
    {{"cifar10", "cifar-10"},
     {"cifar100", "cifar-100"},
     {"fashion_mnist", "fashion-mnist"},
     {"fashionmnist", "fashion-mnist"}}};

const NamedSet& named_set(const std::string& name) {
  std::string_view canonical = name;
  for (const auto& [alias, meant] : kAliases) {
    if (alias == name) canonical = meant;
  }
  std::vector<std::string> names;
  for (const NamedSet& set : kSets) {
    if (set.name == canonical) return set;
    names.emplace_back(set.name);
  }
  for (const auto& [alias, meant] : kAliases) names.emplace_back(alias);
  throw_as<InvalidArgument>("{}", unknown_name_message("dataset", name, names));
}

}  // namespace

DatasetTraits dataset_traits(const std::string& name) {
  const NamedSet& set = named_set(name);
  return {.name = std::string(set.name),
          .channels = set.channels,
          .num_classes = set.num_classes,
          .readable = true,
          .downloads = set.download != nullptr,
          .in_files = set.list != nullptr};
}

DatasetPair open_dataset(const std::string& name, const std::string& path,
                         const DatasetOptions& options) {
  const NamedSet& set = named_set(name);
  check_path(set, path);
  if (set.list == nullptr) {
    TR_CHECK(options.val_fraction == 0,
             "dataset.val_fraction is {}, but {} has a validation split of its own",
             options.val_fraction, set.name);
    if (options.download && set.download != nullptr && !set.is_there(path)) set.download(path);
    return set.open(path, options);
  }
  if (options.download) {
    log_warning("data: {} cannot be downloaded, its files must be at {}", set.name,
                printable(path));
  }
  return open_pictures(
      set, set.list(path, {.val_fraction = options.val_fraction, .seed = options.seed}), options);
}

}  // namespace tr

namespace tr::data {

std::vector<std::string> check_dataset(const std::string& name, const std::string& path,
                                       double val_fraction) {
  const NamedSet& set = named_set(name);
  check_path(set, path);
  if (set.check != nullptr) return set.check(path);
  std::vector<std::string> faults;
  try {
    const DatasetPair pair = open_dataset(name, path, {.val_fraction = val_fraction});
    for (const auto& split : {pair.train, pair.val}) {
      if (!split) continue;
      const SplitReport report = report_split(*split);
      for (const std::string& warning : report.warnings) log_warning("data: {}", warning);
      faults.insert(faults.end(), report.faults.begin(), report.faults.end());
    }
  } catch (const DataError& error) {  // the set cannot even be listed
    faults.emplace_back(error.what());
  }
  return faults;
}

PictureLists list_pictures(const std::string& name, const std::string& path,
                           const SplitOptions& options) {
  const NamedSet& set = named_set(name);
  if (set.list == nullptr) {
    throw_as<Unsupported>("dataset {}: is no set of picture files (folder, imagenet, csv are)",
                          set.name);
  }
  return set.list(path, options);
}

}  // namespace tr::data

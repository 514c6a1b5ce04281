// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/datasets.h"

#include <array>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/nearest_name.h"
#include "data/check.h"
#include "data/download.h"
#include "data/formats/mnist.h"

namespace tr {
namespace {

struct KnownSet {
  std::string_view name;  // as written
  std::string_view canonical;
  int channels, num_classes;
  bool readable;
};

constexpr std::array<KnownSet, 7> kKnownSets{{
    {"mnist", "mnist", 1, 10, true},
    {"procedural", "procedural", 1, 10, true},
    {"cifar-10", "cifar-10", 3, 10, false},
    {"cifar10", "cifar-10", 3, 10, false},
    {"cifar-100", "cifar-100", 3, 100, false},
    {"cifar100", "cifar-100", 3, 100, false},
    {"imagenet", "imagenet", 3, 0, false},
}};

/// The traits of a set that this version can read.
DatasetTraits readable_traits(const std::string& name) {
  const DatasetTraits traits = dataset_traits(name);
  if (!traits.readable) {
    throw_as<Unsupported>(
        "dataset: \"{}\" is known, but this version cannot read it yet (it reads \"mnist\" and "
        "\"procedural\")",
        name);
  }
  return traits;
}

}  // namespace

DatasetTraits dataset_traits(const std::string& name) {
  std::vector<std::string> names;
  for (const KnownSet& set : kKnownSets) {
    if (set.name == name) {
      return {std::string(set.canonical), set.channels, set.num_classes, set.readable};
    }
    names.emplace_back(set.name);
  }
  throw_as<InvalidArgument>("{}", unknown_name_message("dataset", name, names));
}

DatasetPair open_dataset(const std::string& name, const std::string& path,
                         const DatasetOptions& options) {
  const DatasetTraits traits = readable_traits(name);
  if (traits.name == "procedural") {
    return {make_procedural_digits("train", options.num_train, options.seed),
            make_procedural_digits("val", options.num_val, options.seed)};
  }
  if (options.download && !has_mnist(path))
    data::download_mnist(path, data::mnist_download_options());
  return data::open_mnist(path);
}

}  // namespace tr

namespace tr::data {

std::vector<std::string> check_dataset(const std::string& name, const std::string& dir) {
  const DatasetTraits traits = readable_traits(name);
  if (traits.name == "procedural") return {};  // made from numbers: there is nothing to be damaged
  return check_mnist(dir);
}

}  // namespace tr::data

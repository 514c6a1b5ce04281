// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/data/dataset.h"

namespace tr::data {

/// Sets in MNIST's layout differ in their names and contents only: "mnist", "fashion-mnist".

/// One split of a set in MNIST's layout, with everything that is wrong with it.
struct MnistSplit {
  std::string images_path, labels_path;  // "" if there is no such file
  Tensor images;                         // UINT8 [n, h, w, 1]; empty if unreadable
  Tensor labels;                         // INT32 [n]
  std::vector<std::string> faults;       // one line each
};

/// Reads PREFIX-images-idx3-ubyte and PREFIX-labels-idx1-ubyte of `dir` (the plain file first, then
/// .gz); PREFIX is "train" or "t10k". Never throws for a bad file: the faults say it.
MnistSplit read_mnist_split(const std::string& dir, const std::string& prefix,
                            const std::string& name = "mnist");

/// Both splits. @throws DataError  with the first fault; or the splits' images have different
/// sizes.
DatasetPair open_mnist(const std::string& dir, const std::string& name = "mnist");

/// Every fault of both splits.
std::vector<std::string> check_mnist(const std::string& dir, const std::string& name = "mnist");

}  // namespace tr::data

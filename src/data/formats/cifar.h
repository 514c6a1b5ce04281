// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "renaissance/data/dataset.h"

namespace tr::data {

/// The two binary layouts: a record is one label byte (CIFAR-10) or a coarse and a fine one
/// (CIFAR-100), then 1024 bytes red, 1024 green, 1024 blue, row by row.
/// Source: https://www.cs.toronto.edu/~kriz/cifar.html (binary version).
enum class CifarKind { CIFAR10, CIFAR100 };

struct CifarRecords {
  Tensor images;  // UINT8 [n, 32, 32, 3]
  Tensor labels;  // INT32 [n]: of CIFAR-100 the fine ones
};

/// Contents of a batch file, plain or gzip. `who` (the path) opens every message.
/// @throws DataError  no record, a size that is no multiple of a record's, a label out of range
///         (the record and the label).
CifarRecords parse_cifar(std::span<const std::byte> bytes, CifarKind kind, const std::string& who);

/// Both splits: `dir` holds the files (data_batch_1.bin .. data_batch_5.bin and test_batch.bin;
/// train.bin and test.bin), or the folder that the archive unpacks to. A file holds any number of
/// records. @throws DataError  with the first fault.
DatasetPair open_cifar(const std::string& dir, CifarKind kind);

/// Every fault of all files.
std::vector<std::string> check_cifar(const std::string& dir, CifarKind kind);

/// True if all files are there (not whether they are sound).
bool has_cifar(const std::string& dir, CifarKind kind);

}  // namespace tr::data

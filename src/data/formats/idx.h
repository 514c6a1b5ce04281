// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "renaissance/tensor/tensor.h"

namespace tr::data {

enum class IdxKind { IMAGES, LABELS };

/// Contents of an IDX file of unsigned bytes: [n, rows, columns] for IMAGES (magic 0x803), [n] for
/// LABELS (0x801), UINT8. Plain or gzip is told by the content, not by the name. Nothing is
/// allocated before the header has been held against the bytes that are there. `who` (the path)
/// opens every message. Source: http://yann.lecun.com/exdb/mnist (file format).
/// @throws DataError  not IDX, another magic or element type, no items, cut, or bytes left over.
Tensor parse_idx(std::span<const std::byte> bytes, IdxKind kind, const std::string& who);

/// The same of a file. @throws DataError  also if it cannot be read.
Tensor read_idx(const std::string& path, IdxKind kind);

}  // namespace tr::data

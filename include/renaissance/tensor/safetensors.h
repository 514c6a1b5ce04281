// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// Contents of a safetensors file, in the order of their bytes in it.
struct SafetensorsFile {
  std::vector<NamedTensor> tensors;
  std::map<std::string, std::string> metadata;

  /// @throws InvalidArgument  no tensor has this name (the message gives the nearest one).
  TR_API const Tensor& at(const std::string& name) const;
  TR_API bool contains(const std::string& name) const;
};

/// Reads a whole file. Source: https://github.com/huggingface/safetensors, format of version 0.4.
/// @throws DataError  missing, cut, overlapping or misaligned data, unknown dtype, a header above 100 MB.
TR_API SafetensorsFile load_safetensors(const std::string& path);

/// Writes through a temporary file in the same folder, synced and renamed, so that no reader and no crash
/// ever sees half a file. @throws DataError  the folder cannot be written or the disk is full.
TR_API void save_safetensors(const std::string& path, const SafetensorsFile& file);

}  // namespace tr

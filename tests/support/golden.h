// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/tensor/safetensors.h"

namespace tr::test {

/// Folder of the files that tests/correction/make_goldens.py writes.
std::string golden_folder();
/// Names of all golden files, sorted, without ".safetensors".
std::vector<std::string> golden_names();
/// @throws DataError  there is no such golden.
SafetensorsFile golden(const std::string& name);
/// Distinct first parts of names "case.tensor", sorted: the cases of one file.
std::vector<std::string> cases_of(const SafetensorsFile& file);

}  // namespace tr::test

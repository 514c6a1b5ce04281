// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace tr::data {

/// Reads the whole set `name` in folder `dir`; one line a fault, empty if it is sound. Goes on
/// after a fault where it can, so that one run tells everything.
/// @throws InvalidArgument, Unsupported  as open_dataset() for the name.
std::vector<std::string> check_dataset(const std::string& name, const std::string& dir);

}  // namespace tr::data

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/data/transforms.h"

namespace tr::zoo {

/// "Pad(4), RandomCrop(32), RandomHorizontalFlip": names with numbers in the order of the
/// constructors; those that are left out have their defaults.
/// @throws InvalidArgument  an unknown name (the message gives the nearest one), too many or too
/// few numbers, text that is none.
std::vector<Transform> parse_transforms(const std::string& text);

}  // namespace tr::zoo

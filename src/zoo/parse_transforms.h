// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "renaissance/data/transforms.h"
#include "zoo/text_reader.h"

namespace tr::zoo {

/// "Pad(4, REFLECT), RandomCrop(32), RandomResizedCrop(64, scale=[0.25, 1], antialias=false)".
/// Values without a name come first, in the order of the parameters; a range is [low, high], or two
/// numbers in a row; words of a mode or an interpolation, in capitals or not, need no name. What is
/// left out has its default. What to_string() of a transform gives is read back as that transform.
/// @throws InvalidArgument  an unknown name (the message gives the nearest one), a value that its
/// parameter does not take, one too many or too few, text that is none; the message begins with
/// place(offset of the fault).
std::vector<Transform> parse_transforms(std::string_view text, const PlaceOf& place = {});

/// Of each transform: "Pad(padding, fill=0, mode=CONSTANT)".
std::vector<std::string> transform_signatures();

}  // namespace tr::zoo

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "renaissance/core/shape.h"
#include "renaissance/graph/blueprint.h"
#include "zoo/toml.h"

namespace tr::zoo {

/// The [model] table of a recipe.
struct RecipeModel {
  BluePrint blueprint;
  std::optional<Shape> input;  // [H, W, C] of a sample, where the table says it
};

/// @throws InvalidArgument  with the place in the file: an unknown key, op or attribute (the
/// message gives the nearest), a value of another type, a name that is unknown or taken, too many
/// layers.
RecipeModel read_model(const toml::table& table);

}  // namespace tr::zoo

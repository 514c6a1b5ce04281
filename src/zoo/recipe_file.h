// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "renaissance/core/shape.h"
#include "renaissance/graph/blueprint.h"
#include "renaissance/task/deep_learning_task.h"
#include "task/config.h"

namespace tr::zoo {

/// What a recipe file says (docs/recipes.md).
struct RecipeFile {
  std::string path;
  std::string summary;
  std::optional<BluePrint> model;
  std::optional<Shape> input;  // [H, W, C] of a sample, for plans
  bool has_loss = false;
  std::vector<KeyValue> keys;  // configuration keys in the order of the file
  Config config;               // all of it but the model

  /// The keys that decide where samples come from, which a caller may set otherwise.
  static bool is_place_of_data(std::string_view key);
  void apply(Session& session, DeepLearningTask& task) const;
};

/// @throws DataError  the file cannot be read.
/// @throws InvalidArgument  "FILE:LINE:COLUMN: what": it is no TOML, a key is unknown (the nearest
/// one is named), a value is refused.
RecipeFile read_recipe(const std::string& path);
/// The same of a text; `name` stands for the file in messages.
RecipeFile parse_recipe(std::string_view text, const std::string& name);

/// True for what `renaissance train` takes as a file: a name that ends in ".toml".
bool is_recipe_file(std::string_view name);

}  // namespace tr::zoo

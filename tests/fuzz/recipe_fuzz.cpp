// SPDX-License-Identifier: Apache-2.0

// Whatever a recipe file holds: an InvalidArgument, or transforms and a model whose plan, if it
// fits its input, that come back from their own texts.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/assert.h"
#include "graph/arch_plan.h"
#include "renaissance/core/error.h"
#include "renaissance/zoo/zoo.h"
#include "zoo/parse_transforms.h"
#include "zoo/recipe_file.h"

namespace {

void expect_same_again(const std::vector<tr::Transform>& steps) {
  for (const tr::Transform& step : steps) {
    const std::string text = tr::to_string(step);
    const std::vector<tr::Transform> again = tr::zoo::parse_transforms(text);
    TR_ASSERT(again.size() == 1 && tr::to_string(again.front()) == text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tr;
  std::string plan, text;
  const Shape input{8, 8, 3};
  try {
    const zoo::RecipeFile file =
        zoo::parse_recipe({reinterpret_cast<const char*>(data), size}, "fuzz");
    expect_same_again(file.config.preprocessor.values().train_transforms);
    expect_same_again(file.config.preprocessor.values().val_transforms);
    if (!file.model) return 0;
    plan = expand(*file.model, {{"image", {input, DType::FP32}}}).json();
    text = zoo::model_toml(*file.model, input);
  } catch (const InvalidArgument&) {
    return 0;  // any other exception ends the fuzzer: a fault
  }
  const zoo::RecipeFile again = zoo::parse_recipe(text, "written");
  TR_ASSERT(expand(*again.model, {{"image", {input, DType::FP32}}}).json() == plan);
  return 0;
}

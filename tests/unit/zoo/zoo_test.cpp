// SPDX-License-Identifier: Apache-2.0
// The zoo's models have torchvision's parameters, by name and shape, and its operations:
// torchvision.json, made by make_torchvision.py, says which.
#include "renaissance/zoo/zoo.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/sha256.h"
#include "graph/arch_plan.h"
#include "renaissance/core/error.h"
#include "task/file_layout.h"

namespace tr::test {
namespace {

ArchPlan plan_of(const std::string& name) {
  const zoo::Model model = zoo::make_model(name);
  return expand(model.blueprint, {{"image", {model.input, DType::FP32}}});
}

/// "NAME [SHAPE]" of each parameter and buffer as files have them, sorted, one a line.
std::string lines_of(const ArchPlan& plan) {
  std::vector<std::string> lines;
  for (const Param& param : plan.params) {
    lines.push_back(param.name + " " + file_shape(param.spec).str());
  }
  std::sort(lines.begin(), lines.end());
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

std::string sha256_of(const std::string& text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

std::int64_t flops_of_products(const ArchPlan& plan) {
  std::int64_t flops = 0;
  for (const ArchLayer& layer : plan.layers) {
    if (layer.op == "conv" || layer.op == "fc") flops += layer.cost.flops;
  }
  return flops;
}

nlohmann::json table() {
  std::ifstream file(TR_ZOO_FOLDER "/torchvision.json");
  return nlohmann::json::parse(file);
}

TEST(Zoo, ModelsAreTorchvisions) {
  const nlohmann::json models = table().at("models");
  ASSERT_GE(models.size(), 19u);
  for (const auto& [name, want] : models.items()) {
    SCOPED_TRACE(name);
    const ArchPlan plan = plan_of(name);
    EXPECT_EQ(plan.params.size(), want.at("tensors").get<std::size_t>());
    EXPECT_EQ(plan.num_params(), want.at("parameters").get<std::int64_t>());
    EXPECT_EQ(flops_of_products(plan), want.at("flops").get<std::int64_t>());
    EXPECT_EQ(sha256_of(lines_of(plan)), want.at("names_sha256").get<std::string>())
        << "make_torchvision.py --list " << name << " gives torchvision's; ours begin\n"
        << lines_of(plan).substr(0, 1500);
  }
}

TEST(Zoo, BranchesAreDroppedWhereTorchvisionDropsThem) {
  const nlohmann::json models = table().at("models");
  for (const auto& [name, want] : models.items()) {
    SCOPED_TRACE(name);
    std::map<std::string, double> drops;
    for (const ArchLayer& layer : plan_of(name).layers) {
      const bool rows = layer.op == "dropout" && layer.attrs.str("per") == "sample";
      if (rows) drops[layer.name] = layer.attrs.f64("p");
    }
    const auto theirs = want.at("stochastic_depth").get<std::map<std::string, double>>();
    ASSERT_EQ(drops.size(), theirs.size());
    for (const auto& [layer, p] : theirs) EXPECT_NEAR(drops.at(layer), p, 1e-8) << layer;
    EXPECT_EQ(drops.size(), name == "efficientnet_b0" ? 9u : 0u);
  }
}

TEST(Zoo, TheTableTellsModelsApart) {
  const nlohmann::json models = table().at("models");
  EXPECT_NE(sha256_of(lines_of(plan_of("vgg11"))), models.at("vgg11_bn").at("names_sha256"));
  EXPECT_NE(flops_of_products(plan_of("resnet50")),
            models.at("wide_resnet50_2").at("flops").get<std::int64_t>());
}

TEST(Zoo, NetworksForSmallPicturesAreThePapers) {
  EXPECT_EQ(plan_of("cifar_resnet20").num_params(), 269'722 + 2'752)
      << "He et al. 2015, and two 1x1 projections with their norms";
  EXPECT_EQ(plan_of("cifar_resnet18").num_params(), 11'173'962);
  EXPECT_EQ(plan_of("cifar_vgg11_bn").num_params(), 9'231'114);
}

TEST(Zoo, EveryNameMakesItsModel) {
  for (const std::string& name : zoo::model_names()) {
    const ArchPlan plan = plan_of(name);
    EXPECT_EQ(plan.layers.back().types.front().shape.back(), zoo::make_model(name).num_classes)
        << name;
  }
}

TEST(Zoo, EveryRecipeSetsUpATraining) {
  const std::vector<std::string> models = zoo::model_names();
  ASSERT_EQ(zoo::recipes().size(), 3u);
  for (const zoo::Recipe& recipe : zoo::recipes()) {
    SCOPED_TRACE(recipe.name);
    EXPECT_NE(std::find(models.begin(), models.end(), recipe.model), models.end());
    Session session;
    DeepLearningTask task;
    zoo::apply_recipe(recipe.name, session, task);
    EXPECT_EQ(session.preprocessor.values().dataset_name, recipe.dataset);
    EXPECT_EQ(session.global.values().train_resolution,
              ImageSize(int(zoo::make_model(recipe.model).input[0])));
  }
  Session session;
  DeepLearningTask task;
  EXPECT_THROW(zoo::apply_recipe("cifar10-resnet19", session, task), InvalidArgument);
}

}  // namespace
}  // namespace tr::test

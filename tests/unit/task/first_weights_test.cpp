// SPDX-License-Identifier: Apache-2.0
// What a run begins with: rules of the initializer, files, configuration keys.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/compare.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "task/config.h"
#include "toy.h"

namespace tr::test {
namespace {

DeepLearningTask compiled(const Initializer& initializer) {
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data());
  task.initializer(initializer).compile(CompileInfo::NONE);
  return task;
}

TEST(FirstWeights, RulesReachLayersAndBiases) {
  const toy::Quiet quiet;
  DeepLearningTask task = compiled(Initializer()
                                       .layer("0.", init::kOrthogonal)
                                       .layer("0.bias", InitKind::CONSTANTS, 0.25f)
                                       .layer("3.weight", InitKind::CONSTANTS, -1));
  EXPECT_TRUE(same_bytes(task.fetch("0.bias"), Tensor::full({16}, 0.25)));
  EXPECT_TRUE(same_bytes(task.fetch("3.weight"), Tensor::full({4, 16}, -1)));
  EXPECT_TRUE(same_bytes(task.fetch("3.bias"), Tensor::zeros({4})));
  const Tensor q = task.fetch("0.weight");  // [16, 8]: its columns are orthonormal
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      double sum = 0;
      for (int i = 0; i < 16; ++i) sum += q.at(i * 8 + a) * q.at(i * 8 + b);
      EXPECT_NEAR(sum, a == b ? 1 : 0, 1e-6);
    }
  }
}

TEST(FirstWeights, FilesGiveTheRestOfANameOrThePartBehindAPrefix) {
  const toy::Quiet quiet;
  const TempFolder folder;
  const std::string path = folder.path("first.safetensors");
  const Tensor weight = Tensor::uniform({16, 8}, -1, 1, 3), bias = Tensor::uniform({16}, -1, 1, 4);
  save_safetensors(path, {{{"encoder.weight", weight}, {"encoder.bias", bias}}, {}});
  DeepLearningTask task = compiled(Initializer().from_file(path, "0.", "encoder."));
  EXPECT_TRUE(same_bytes(task.fetch("0.weight"), weight));
  EXPECT_TRUE(same_bytes(task.fetch("0.bias"), bias));
  DeepLearningTask other = compiled(Initializer());
  EXPECT_TRUE(same_bytes(task.fetch("3.weight"), other.fetch("3.weight"))) << "drawn as before";
}

TEST(FirstWeights, WhatDoesNotFitIsRefusedByCompile) {
  const toy::Quiet quiet;
  const TempFolder folder;
  const std::string path = folder.path("first.safetensors");
  Tensor bad = Tensor::zeros({4});
  bad.data<float>()[2] = NAN;
  save_safetensors(path, {{{"3.weight", Tensor::zeros({4, 15})}, {"3.bias", bad}}, {}});
  const auto words = [](const Initializer& initializer, const std::string& text) {
    return throws<Error>([&] { compiled(initializer); }, text);
  };
  EXPECT_TRUE(words(Initializer().layer("heat.", InitKind::ZEROS),
                    "no parameter begins with \"heat.\", expected one of 0.weight"));
  EXPECT_TRUE(words(Initializer().from_file(path, "0.", "0."), "has no \"0.weight\""));
  EXPECT_TRUE(words(Initializer().from_file(path, "3.weight", "3.weight"), "[4, 15]"));
  EXPECT_TRUE(words(Initializer().from_file(path, "3.bias", "3.bias"), "not finite"));
  EXPECT_TRUE(words(Initializer().layer("3.bias", InitKind::KAIMING_NORMAL), "has no fans"));
  EXPECT_TRUE(words(Initializer().from_file(folder.path("none"), "3."), "none"));
}

TEST(FirstWeights, KeysSetThem) {
  Config config;
  set_config(config, "init.fc", "fixed_normal:0.02");
  set_config(config, "init.fan", "fan_out");
  set_config(config, "init.layers", "head.bias=constants:-4.5, stem=file:a/b.safetensors:module.");
  const Initializer::Options& options = config.train.initializer.options();
  EXPECT_EQ(options.fc_kind, InitKind::FIXED_NORMAL);
  EXPECT_EQ(options.fc_param, 0.02f);
  EXPECT_EQ(options.fan, FanMode::FAN_OUT);
  ASSERT_EQ(options.rules.size(), 2u);
  EXPECT_EQ(options.rules[0].param, -4.5f);
  EXPECT_EQ(options.rules[1].path, "a/b.safetensors");
  EXPECT_EQ(options.rules[1].prefix_in_file, "module.");
  EXPECT_EQ(to_json(config).at("init.layers"),
            "head.bias=constants:-4.5,stem=file:a/b.safetensors:module.");
  const auto words = [&](const char* key, const char* value, const std::string& text) {
    return throws<InvalidArgument>([&] { set_config(config, key, value); }, text);
  };
  EXPECT_TRUE(words("init.fc", "fixed_normal:x", "no number behind the colon"));
  EXPECT_TRUE(words("init.fc", "kaiming_uniform:0.2", "kaiming_uniform has no parameter"));
  EXPECT_TRUE(words("init.layers", "head.=zeros:1", "zeros has no parameter"));
  EXPECT_TRUE(words("init.conv", "orthogonl", "orthogonal"));
  EXPECT_TRUE(words("init.layers", "head", "has no \"=\""));
  EXPECT_TRUE(words("init.layers", "head=file:", "names no file"));
}

}  // namespace
}  // namespace tr::test

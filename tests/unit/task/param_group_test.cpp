// SPDX-License-Identifier: Apache-2.0
// Parameter groups in tasks: what they change, what is refused, text and resume.
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "algo/param_groups.h"
#include "support/compare.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "task/config.h"
#include "task/group_keys.h"
#include "toy.h"

namespace tr {
namespace {

using test::same_bytes;
using test::throws;

DeepLearningTask task_of(const std::vector<ParamGroup>& groups, int epochs = 2) {
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), epochs);
  task.param_groups(groups).optimizer(AdamW().weight_decay(0.1));
  task.scheduler(ConstantLR().base_lr(0.01));
  return task;
}

TEST(ParamGroups, NamesMatchByBeginningAndStars) {
  EXPECT_TRUE(matches("", "0.weight"));
  EXPECT_TRUE(matches("0.", "0.weight"));
  EXPECT_FALSE(matches("0.weight", "10.weight"));
  EXPECT_TRUE(matches("*.weight", "10.weight"));
  EXPECT_TRUE(matches("blocks.*.attn.*bias", "blocks.12.attn.in_proj.bias"));
  EXPECT_FALSE(matches("blocks.*.attn.*bias", "blocks.12.mlp.bias"));
  EXPECT_TRUE(matches("*a*a", "bab.a"));
  EXPECT_FALSE(matches("*a*a", "bab"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("0*", "0"));
  EXPECT_TRUE(matches("a*a*", "aab"));
  EXPECT_FALSE(matches("a*a", "a"));
  std::string stars;  // no way of sharing the name out is tried twice
  for (int i = 0; i < 40; ++i) stars += "*a";
  EXPECT_TRUE(matches(stars, std::string(40, 'a')));
  EXPECT_FALSE(matches(stars + "b", std::string(200, 'a')));
}

TEST(ParamGroups, ARateOfZeroKeepsAPartAndOthersMove) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_of({{.match = "0.", .lr_scale = 0}});
  task.compile(CompileInfo::NONE);
  const Tensor first = task.fetch("0.weight"), last = task.fetch("3.weight");
  task.run();
  EXPECT_TRUE(same_bytes(task.fetch("0.weight"), first));
  EXPECT_FALSE(same_bytes(task.fetch("3.weight"), last));
}

// A group that says what holds anyway changes no byte; one that says something else does.
TEST(ParamGroups, ValuesAndFactorsThatAreEqualGiveEqualBytes) {
  const toy::Quiet quiet;
  const auto weights = [](const std::vector<ParamGroup>& groups) {
    return task_of(groups).compile(CompileInfo::NONE).run().weights_sha256;
  };
  const std::string none = weights({});
  EXPECT_EQ(weights({{.match = "3.", .lr_scale = 1}}), none);
  EXPECT_EQ(weights({{.kinds = ParamKinds::WEIGHTS, .weight_decay = 0.1},
                     {.kinds = ParamKinds::BIASES, .decay_scale = 0}}),
            none);
  const std::string half = weights({{.match = "0.", .lr_scale = 0.5}});
  EXPECT_NE(half, none);
  EXPECT_EQ(weights({{.match = "0.", .lr = 0.005}}), half);
  const std::string biases = weights({{.kinds = ParamKinds::BIASES, .weight_decay = 0.2}});
  EXPECT_NE(biases, none);
  EXPECT_EQ(weights({{.match = "*.bias", .decay_scale = 2}}), biases);
}

TEST(ParamGroups, AResumedRunHasTheBytesOfTheUnbrokenOne) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const std::vector<ParamGroup> groups = {{.match = "0.", .lr_scale = 0.3, .weight_decay = 0.2},
                                          {.match = "3.bias", .weight_decay = 0.05}};
  const std::string want = task_of(groups, 4).compile(CompileInfo::NONE).run().weights_sha256;
  task_of(groups).save_every(folder.path()).compile(CompileInfo::NONE).run();
  DeepLearningTask rest = task_of(groups, 4);
  rest.save_every(folder.path()).resume().compile(CompileInfo::NONE);
  EXPECT_EQ(rest.run().weights_sha256, want);
  DeepLearningTask other = task_of({{.match = "0.", .lr_scale = 0.4}}, 5);
  other.save_every(folder.path()).resume();
  EXPECT_TRUE(throws<InvalidArgument>([&] { other.compile(CompileInfo::NONE); }, "groups"));
}

TEST(ParamGroups, WhatMatchesNothingOrContradictsIsRefused) {
  const toy::Quiet quiet;
  const auto refused = [](const std::vector<ParamGroup>& groups, const std::string& words) {
    return throws<InvalidArgument>([&] { task_of(groups).compile(CompileInfo::NONE); }, words);
  };
  EXPECT_TRUE(
      refused({{.match = "body.", .lr_scale = 1}}, "\"body.\" matches; the first is \"0.weight\""));
  EXPECT_TRUE(
      refused({{.kinds = ParamKinds::NORMS, .lr_scale = 1}}, "no parameter of these kinds"));
  EXPECT_TRUE(refused({{.match = "0.", .lr_scale = 0.5}, {.match = "*.bias", .lr_scale = 0.1}},
                      "\"0.\" gives 0.bias the rate 0.5, \"*.bias\" gives it 0.1"));
  EXPECT_TRUE(refused({{.match = "0.", .weight_decay = 0}, {.match = "", .decay_scale = 1}},
                      "the weight decay 0, \"\" gives it 0.1"));
  EXPECT_TRUE(refused({{.match = "0."}}, "it sets nothing"));
  EXPECT_TRUE(refused({{.lr = 0.1, .lr_scale = 2}}, "lr and lr_scale are given"));
  EXPECT_TRUE(refused({{.weight_decay = -1}}, "weight_decay is -1, expected at least 0"));
  EXPECT_TRUE(refused({{.lr_scale = INFINITY}}, "lr_scale is inf"));
  EXPECT_TRUE(refused({{.lr = 1e38}}, "the rate of 0.weight would be inf, as fp32"));
  EXPECT_TRUE(refused({{.beta2 = 0.99999999}}, "beta2 is 0.99999999, expected 0 <= beta2 < 1, as"));
  // What is the same, or of another setting, goes together.
  EXPECT_FALSE(refused({{.match = "0.", .lr_scale = 0.5},
                        {.match = "0.b", .lr_scale = 0.5},
                        {.match = "0.b", .weight_decay = 1}},
                       ""));
}

TEST(ParamGroups, MomentaOfAGroupGoWithSgdAndAdam) {
  const toy::Quiet quiet;
  const auto made = [](const Optimizer& optimizer, const std::vector<ParamGroup>& groups) {
    DeepLearningTask task = task_of(groups);
    task.optimizer(optimizer);
    return task;
  };
  const auto weights = [&](const Optimizer& optimizer, const std::vector<ParamGroup>& groups) {
    return made(optimizer, groups).compile(CompileInfo::NONE).run().weights_sha256;
  };
  // A momentum that groups give to all parameters is the optimizer's, byte for byte.
  EXPECT_EQ(weights(SGD(), {{.momentum = 0.5}}), weights(SGD().momentum(0.5), {}));
  EXPECT_EQ(weights(SGD().momentum(0.5),
                    {{.match = "0.", .momentum = 0}, {.match = "3.", .momentum = 0}}),
            weights(SGD(), {}));
  EXPECT_NE(weights(SGD().momentum(0.5), {{.match = "0.", .momentum = 0}}),
            weights(SGD().momentum(0.5), {}));
  const std::string betas = weights(AdamW(), {{.match = "0.", .beta1 = 0.8}});
  EXPECT_NE(weights(AdamW(), {{.match = "0.", .beta1 = 0.8, .beta2 = 0.99}}), betas);
  EXPECT_NE(weights(AdamW(), {{.match = "3.", .beta1 = 0.8}}), betas);
  const auto refused = [&](const Optimizer& optimizer, const ParamGroup& group, const char* words) {
    return throws<Error>([&] { made(optimizer, {group}).compile(CompileInfo::NONE); }, words);
  };
  EXPECT_TRUE(refused(SGD(), {.beta1 = 0.5}, "sets a beta, and sgd has a momentum"));
  EXPECT_TRUE(refused(Adam(), {.momentum = 0.5}, "sets a momentum, and adam has beta1 and beta2"));
  EXPECT_TRUE(refused(Lion(), {.beta2 = 0.5}, "sets a beta, which lion has for all parameters"));
  EXPECT_TRUE(refused(Muon(), {.momentum = 0.5}, "which muon has for all parameters alone"));
  EXPECT_TRUE(refused(SGD(), {.momentum = 1}, "momentum is 1, expected 0 <= momentum < 1"));
  EXPECT_TRUE(refused(AdamW(), {.beta2 = -0.1}, "beta2 is -0.1, expected 0 <= beta2 < 1"));
  DeepLearningTask both = made(SGD().momentum(0.5), {{.match = "0.", .momentum = 0.1}});
  both.scheduler(OneCycleLR().base_lr(0.1).cycle_momentum());
  EXPECT_TRUE(throws<InvalidArgument>([&] { both.compile(CompileInfo::NONE); }, "groups set"));
  DeepLearningTask twice = made(AdamW(), {{.match = "0.", .beta1 = 0.1}, {.beta1 = 0.2}});
  EXPECT_TRUE(throws<InvalidArgument>([&] { twice.compile(CompileInfo::NONE); },
                                      "gives 0.weight the beta1 0.1, \"\" gives it 0.2"));
}

TEST(ParamGroups, SeveralObjectivesAreRefusedWithThem) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_of({{.match = "0.", .lr_scale = 0.5}});
  task.objectives({{"0.", CrossEntropyLoss(), SGD(), {}}});
  EXPECT_TRUE(throws<Unsupported>([&] { task.compile(CompileInfo::NONE); }, "param_groups"));
}

TEST(ParamGroups, LayerDecayIsTimms) {
  const std::vector<ParamGroup> groups = layer_decay(0.75, {"stem.", "blocks.0.", "head."});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].lr_scale, 0.75 * 0.75);
  EXPECT_EQ(groups[1].lr_scale, 0.75);
  EXPECT_EQ(groups[2].lr_scale, 1);
  EXPECT_TRUE(throws<InvalidArgument>([] { layer_decay(0, {"a"}); }, "factor is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { layer_decay(0.5, {}); }, "there is no prefix"));
  EXPECT_TRUE(throws<InvalidArgument>([] { layer_decay(0.5, {"a.b", "a."}); }, "\"a.\" begins"));
}

TEST(ParamGroups, TextIsReadAndWritten) {
  const std::string text =
      "features.: lr*0.1 weight_decay=0.05, *.attn.@weight+bias: lr=0.001, @norm: "
      "weight_decay*0.5, "
      "a: momentum=0.5, b: beta1=0.8 beta2=0.98";
  const std::vector<ParamGroup> groups = parse_groups(text);
  ASSERT_EQ(groups.size(), 5u);
  EXPECT_EQ(groups[3].momentum, 0.5);
  EXPECT_EQ(groups[4].beta1, 0.8);
  EXPECT_EQ(groups[4].beta2, 0.98);
  EXPECT_EQ(groups[0].match, "features.");
  EXPECT_EQ(groups[0].lr_scale, 0.1);
  EXPECT_EQ(groups[0].weight_decay, 0.05);
  EXPECT_EQ(groups[1].kinds, ParamKinds::WEIGHTS | ParamKinds::BIASES);
  EXPECT_EQ(groups[1].lr, 0.001);
  EXPECT_EQ(groups[2].match, "");
  EXPECT_EQ(groups[2].decay_scale, 0.5);
  EXPECT_EQ(groups_text(groups), text);
  EXPECT_EQ(groups_text({}), "");
  Config config;
  set_config(config, "groups", text);
  EXPECT_EQ(to_json(config).at("groups"), text);
  for (const char* wrong :
       {"features. lr*0.1", "a: lr+1", "a: momentum*0.5", "a: momentum=1", "a: lr=x",
        "a:", "a: lr=1 lr=2", "a@fc: lr=1", "a@bias+bias: lr=1", "a: lr=1,,"}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { parse_groups(wrong); }, "")) << wrong;
  }
}

TEST(ParamGroups, TheTableIsLogged) {
  const toy::Quiet quiet;
  std::string log;
  set_log_sink([&](LogLevel, std::string_view line) { log += std::string(line) + "\n"; });
  task_of({{.match = "0.", .lr_scale = 0.5}}).compile(CompileInfo::NONE);
  EXPECT_NE(log.find("parameter groups"), std::string::npos) << log;
  EXPECT_NE(log.find("x 0.5"), std::string::npos) << log;
  EXPECT_EQ(log.find("betas"), std::string::npos) << log;
  task_of({{.match = "0.", .beta1 = 0.75, .beta2 = 0.96875}}).compile(CompileInfo::NONE);
  EXPECT_NE(log.find("betas"), std::string::npos) << log;
  EXPECT_NE(log.find("0.75, 0.9688"), std::string::npos) << log;
}

}  // namespace
}  // namespace tr

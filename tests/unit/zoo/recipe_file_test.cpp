// SPDX-License-Identifier: Apache-2.0
#include "zoo/recipe_file.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "graph/arch_plan.h"
#include "renaissance.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr::zoo {
namespace {

ArchPlan plan_of(const BluePrint& model, const Shape& input) {
  return expand(model, {{"image", {input, DType::FP32}}});
}

void expect_same_plan(const ArchPlan& got, const ArchPlan& want) {
  EXPECT_EQ(got.json(), want.json());
  ASSERT_EQ(got.params.size(), want.params.size());
  for (std::size_t i = 0; i < want.params.size(); ++i) {
    const Param &a = got.params[i], &b = want.params[i];
    EXPECT_EQ(a.name, b.name);
    EXPECT_EQ(a.spec.type, b.spec.type) << b.name;
    EXPECT_EQ(a.spec.fan_in, b.spec.fan_in) << b.name;
    EXPECT_EQ(a.spec.branch_end, b.spec.branch_end) << b.name;
    EXPECT_EQ(a.spec.file.order, b.spec.file.order) << b.name;
    EXPECT_EQ(a.spec.file.shape, b.spec.file.shape) << b.name;
  }
  ASSERT_EQ(got.layers.size(), want.layers.size());
  for (std::size_t i = 0; i < want.layers.size(); ++i) {
    EXPECT_EQ(got.layers[i].inputs, want.layers[i].inputs) << want.layers[i].name;
    EXPECT_EQ(got.layers[i].params, want.layers[i].params) << want.layers[i].name;
  }
  EXPECT_EQ(got.outputs, want.outputs);
}

/// The settings of a recipe as a task would show them.
std::string settings_of(const Session& session, TrainOptions train) {
  return to_json(Config{session.global, session.preprocessor, std::move(train)}).dump(1);
}

RecipeFile recipe(const std::string& name) {
  return read_recipe(std::string(TR_RECIPES_FOLDER) + "/" + name);
}

TEST(RecipeFile, TheFirstArticlesJobIsThatOfItsProgram) {
  const RecipeFile file = recipe("mnist-mlp.toml");
  const BluePrint network =
      seq(fc(1024, true), relu(), fc(512, true), relu(), fc(256, true), relu(), fc(10, true));
  expect_same_plan(plan_of(*file.model, *file.input), plan_of(network, {28, 28, 1}));
  Session session;
  session.global.manual_seed(123).global_batch_size(200).input_resolution(28);
  session.preprocessor.dataset("mnist")
      .download(true)
      .normalization(NormMode::MNIST)
      .train_transforms(Pad(2), RandomCrop(28), RandomRotation(20), RandomScale(0.8f, 1.2f),
                        RandomErasing(0.5f));
  TrainOptions train;
  train.loss = CrossEntropyLoss().label_smoothing(0.1f);
  train.optimizer = AdamW().weight_decay(1e-4);
  train.scheduler = CosineAnnealingLR().base_lr(1e-3).warmup(5);
  train.total_epochs = 100;
  EXPECT_EQ(to_json(file.config).dump(1), settings_of(session, train));
}

TEST(RecipeFile, TheSecondArticlesJobIsThatOfItsProgram) {
  const RecipeFile file = recipe("vgg16bn-imagenet.toml");
  std::vector<BluePrint> layers;
  for (const auto& [channels, convolutions] :
       {std::pair{64, 2}, {128, 2}, {256, 3}, {512, 3}, {512, 3}}) {
    layers.push_back(repeat(cbr(channels, 3, 1, 1), convolutions));
    layers.push_back(maxpool(2, 2, 0));
  }
  const BluePrint classifier = seq(fc(4096, true), relu(), dropout(0.5f), fc(4096, true), relu(),
                                   dropout(0.5f), fc(1000, true));
  const BluePrint network =
      seq(seq(layers).named("features"), flatten(), classifier.named("classifier"));
  expect_same_plan(plan_of(*file.model, *file.input), plan_of(network, {224, 224, 3}));
  Session session;
  session.global.manual_seed(123).global_batch_size(256).input_resolution(224);
  session.preprocessor.dataset("imagenet")
      .normalization(NormMode::IMAGENET)
      .train_transforms(RandomResizedCrop(224), RandomHorizontalFlip(),
                        ColorJitter(0.2f, 0.2f, 0.2f, 0.1f), RandomErasing(0.25f))
      .val_transforms(Resize(256), CenterCrop(224));
  TrainOptions train;
  train.loss = CrossEntropyLoss().label_smoothing(0.1f);
  train.optimizer = SGD().momentum(0.9).weight_decay(1e-4).nesterov();
  train.scheduler = CosineAnnealingLR().base_lr(0.045).warmup_start_lr(1e-3).warmup(10);
  train.total_epochs = 100;
  EXPECT_EQ(to_json(file.config).dump(1), settings_of(session, train));
}

TEST(RecipeFile, EveryModelOfTheZooComesBackFromItsText) {
  for (const std::string& name : model_names()) {
    SCOPED_TRACE(name);
    const Model model = make_model(name);
    const std::string text = model_toml(model.blueprint, model.input);
    const RecipeFile file = parse_recipe(text, name + ".toml");
    ASSERT_TRUE(file.model && file.input);
    EXPECT_EQ(*file.input, model.input);
    expect_same_plan(plan_of(*file.model, model.input), plan_of(model.blueprint, model.input));
    EXPECT_EQ(model_toml(*file.model, model.input), text) << "written once more";
  }
}

TEST(RecipeFile, SharedLayersAndSeveralOutputsComeBack) {
  const Value x = input();
  const BluePrint tied = shared(seq(fc(8, true), relu()).named("tied"));
  const Value a = tied(fc(8, false).named("first \"one\"")(x));
  const Value b = tied(a);
  const BluePrint network = model({x}, {add()(a, b), fc(3, true)(b)});
  const std::string text = model_toml(network, {4, 4, 1});
  const RecipeFile file = parse_recipe(text, "tied.toml");
  expect_same_plan(plan_of(*file.model, {4, 4, 1}), plan_of(network, {4, 4, 1}));
}

TEST(RecipeFile, ShortFormsAreThoseOfTheLayerFunctions) {
  const char* const text = R"(
[model]
layers = [
  {op = "cbrp", out_channels = 4, kernel = [3, 5], padding = 2, pool_kernel = 2, pool_stride = 2},
  {residual = [{op = "cbr", out_channels = 8, kernel = 1}], shortcut = [
    {op = "conv", out_channels = 8, kernel = 1}], name = "join"},
  {op = "squeeze_excite", channels = 8, squeeze_channels = 2},
  {op = "block", style = "RESNET_3_3_DS", out_channels = 12, times = 2},
  {op = "block", style = "RESNET_1_3_1_DS", mid_channels = 4, out_channels = 12},
  {op = "mbconv", expand = 6, out_channels = 12},
  {op = "gap_fc", out_features = 3},
])";
  const BluePrint want =
      seq(cbrp(4, {3, 5}, 1, 2, 2, 2, 0), residual(seq(cbr(8, 1)), seq(conv(8, 1))).named("join"),
          squeeze_excite(8, 2), repeat(block(12, RESNET_3_3_DS), 2), block(4, 12, RESNET_1_3_1_DS),
          mbconv(6, 12), gap_fc(3, true));
  const RecipeFile file = parse_recipe(text, "forms.toml");
  expect_same_plan(plan_of(*file.model, {32, 32, 3}), plan_of(want, {32, 32, 3}));
}

TEST(RecipeFile, ShapesThatDoNotFitNameTheFilesLine) {
  const RecipeFile file = parse_recipe(
      "[model]\nlayers = [\n  {op = \"conv\", out_channels = 4, kernel = 9},\n]\n", "small.toml");
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        plan_of(*file.model, {4, 4, 1});
      },
      "built at small.toml:3"));
  const RecipeFile inside = parse_recipe(
      "[model]\nlayers = [\n  {op = \"squeeze_excite\", channels = 5, squeeze_channels = 2},\n]\n",
      "inner.toml");
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        plan_of(*inside.model, {4, 4, 1});
      },
      "built at inner.toml:3"));
}

struct Refused {
  const char* text;
  const char* words;
};

constexpr Refused kRefused[] = {
    {"seed = ", "r.toml:1:"},
    {"seed = 1\nseed = 2", "r.toml:2:"},
    {"sead = 1", "r.toml:1:1: key: unknown name \"sead\"; did you mean \"seed\"?"},
    {"\n  lose = \"mse\"", "r.toml:2:3: key: unknown name \"lose\"; did you mean \"loss\"?"},
    {"seed = -1",
     "r.toml:1:8: seed=-1: \"-1\" is out of range, expected an integer from 0 to 18446"},
    {"seed = 1979-05-27", "r.toml:1:8: seed is a date or time, expected a text, number"},
    {"global_batch_size = 1.5", "r.toml:1:21: global_batch_size=1.5"},
    {"milestones = [3, \"4,5\"]", "r.toml:1:18: milestones: \"4,5\" has a comma"},
    {"milestones = [[3]]", "r.toml:1:15: milestones is a list of lists"},
    {"[!]", "r.toml:1:2: "},
    {"[[ =]]", "r.toml:1:4: "},
    {"[model.]", "r.toml:1:8: "},
    {"model = {!a = 1}", "r.toml:1:10: "},
    {"seed = \u00e9", "r.toml:1:8: "},
    {"s\u00e9ed = 1", "r.toml:1:2: "},
    {"train_transforms = [\"Pad(2)\" \u2003]", "r.toml:1:30: "},
    {"val_transforms = [\"\"\"a \\\n \u00e9\"\"\"]", "transform: unknown name"},
    {"[modle]", "r.toml:1:2: key: unknown name \"modle\"; did you mean \"model\"?"},
    {"[dataset]\nnam = \"mnist\"", "r.toml:2:1: key: unknown name \"dataset.nam\"; did you mean"},
    {"groups = [\"0.: lr*0.1\", \"1.: moment=0.5\"]", "r.toml:1:10: groups"},
    {"groups = \"0.: momentum=1\"", "r.toml:1:10: groups"},
    {"loss = \"mse2\"", "r.toml:1:8: loss: unknown name \"mse2\"; did you mean \"mse\"?"},
    {"loss = {field = \"x\"}", "r.toml:1:8: the loss has no kind"},
    {"loss = {kind = \"mse\", feild = \"x\"}", "did you mean \"field\"?"},
    {"loss = {kind = \"mse\", output = 4294967296}",
     "output is 4294967296, expected the index of an output"},
    {"loss = \"mse\"\nlabel_smoothing = 0.1", "r.toml:2:19: label_smoothing=0.1: the loss is mse"},
    {"train_transforms = \"Pad(2)\"", "train_transforms is a text, expected a list of transforms"},
    {"train_transforms = [\n\"Pad(2)\",\n \"RandomCorp(28)\"]",
     "r.toml:3:3: transform: unknown name \"RandomCorp\"; did you mean \"RandomCrop\"?"},
    {"train_transforms = [\"Pad(2), Resize(9, BICUBC)\"]",
     "r.toml:1:40: Resize: \"BICUBC\" is no number and none of"},
    {"val_transforms = ['Resize(9, mod=SQUARE)']",
     "r.toml:1:30: Resize: parameter: unknown name \"mod\"; did you mean \"mode\"?"},
    {"val_transforms = [\n  \"Pad(2)\",\n  \"Resize(9, NEAREST)\",\n]",
     "r.toml:3:4: Resize(9, SHORT_SIDE, NEAREST, antialias=true): interpolation is NEAREST"},
    {"val_transforms = [\"\u00e9\"]", "r.toml:1:20: transform: unknown name"},
    {"val_transforms = [\"\\u00e9\"]", "r.toml:1:19: transform: unknown name"},
    {"val_transforms = [\"\"\"\nPad(x)\"\"\"]", "r.toml:1:19: Pad: \"x\" is no number"},
    {"train_transforms = [\"Pad(2)\", \"Mixup\", \"Pad(3)\"]",
     "r.toml:1:40: Mixup(1) acts on whole batches: Pad(3, fill=0, CONSTANT), which"},
    {"normalization = {mean = [0.5]}", "r.toml:1:17: normalization has no std"},
    {"normalization = {mean = [0.5], std = [0]}", "r.toml:1:17: normalization: a standard"},
    {"model = 3", "r.toml:1:9: model is an integer, expected a table"},
    {"[model]", "model has zoo and layers, or none of them; expected one"},
    {"[model]\nzoo = \"resnet51\"", "r.toml:2:7: model: unknown name \"resnet51\"; did you mean"},
    {"[model]\nlayrs = []",
     "r.toml:2:1: model: key: unknown name \"layrs\"; did you mean \"layers\"?"},
    {"[model]\nlayers = []", "r.toml:2:10: layers is empty"},
    {"[model]\nlayers = [3]", "r.toml:2:11: a layer is an integer, expected a table"},
    {"[model]\nlayers = [{name = \"a\"}]",
     "r.toml:2:11: a layer has neither op nor seq nor residual"},
    {"[model]\nlayers = [{op = \"fcc\"}]",
     "r.toml:2:17: op: unknown name \"fcc\"; did you mean \"fc\"?"},
    {"[model]\nlayers = [{op = \"BatchNorm2d\"}]",
     "r.toml:2:17: op: unknown name \"BatchNorm2d\"; PyTorch's is \"bn\" here"},
    {"[model]\nlayers = [{op = \"linear\"}]", "PyTorch's is \"fc\" here"},
    {"[model]\nlayers = [{op = \"conv2d\"}]", "PyTorch's is \"conv\" here"},
    {"[model]\nlayers = [{op = \"conv\", kernel = 3, outchannels = 3}]",
     "r.toml:2:37: conv: attribute: unknown name \"outchannels\"; did you mean \"out_channels\"?"},
    {"[model]\nlayers = [{op = \"fc\", out_features = \"many\"}]",
     "r.toml:2:38: fc: attribute 'out_features' is given as text, expected integer"},
    {"[model]\nlayers = [{op = \"cbr\", out_channels = 3}]",
     "r.toml:2:11: cbr: attribute 'kernel' is missing"},
    {"[model]\nlayers = [{op = \"cbr\", out_channels = 3, kernel = [3]}]",
     "r.toml:2:11: kernel has 1 numbers, expected 2"},
    {"[model]\nlayers = [{op = \"block\", style = \"RESNET\", out_channels = 3}]",
     "r.toml:2:11: block: style: unknown name \"RESNET\""},
    {"[model]\nlayers = [{op = \"relu\", times = 0}]", "r.toml:2:33: times is 0, expected 1 to"},
    {"[model]\nlayers = [{seq = [{op = \"relu\", times = 100}], times = 100}]",
     "r.toml:2:11: the model has more than 5000 layers"},
    {"[model]\nlayers = [{seq = [{op = \"relu\", inputs = [\"image\"]}]}]",
     "inputs stands inside seq, expected in the model's own list"},
    {"[model]\nlayers = [{op = \"relu\", name = \".a\"}]", "r.toml:2:32: name '.a' of a BluePrint"},
    {"[model]\nlayers = [{op = \"relu\", inputs = [\"imag\"]}]",
     "r.toml:2:34: layer or input above: unknown name \"imag\"; did you mean \"image\"?"},
    {"[model]\ninputs = [\"a\", \"a\"]\nlayers = [{op = \"relu\"}]", "the name \"a\" is taken"},
    {"[model]\nlayers = [{op = \"relu\", name = \"image\", inputs = [\"image\"]}]",
     "the name \"image\" is taken"},
    {"[model]\noutputs = [\"1\"]\nlayers = [{op = \"relu\"}]", "r.toml:2:11: layer or input above"},
    {"[model]\nlayers = [{op = \"relu\"}, {shares = \"9\"}]",
     "r.toml:2:36: shares names \"9\", expected a layer above"},
    {"[model]\ninput = [28, 28]\nzoo = \"mnist-mlp\"", "r.toml:2:9: input has 2 numbers"},
    {"[model]\ninputs = [\"image\"]\nzoo = \"mnist-mlp\"", "inputs belongs to a model with layers"},
};

TEST(RecipeFile, RefusesWithThePlaceAndTheNearestName) {
  for (const Refused& refused : kRefused) {
    SCOPED_TRACE(refused.text);
    EXPECT_TRUE(test::throws<InvalidArgument>([&] { parse_recipe(refused.text, "r.toml"); },
                                              refused.words));
  }
}

// A run's records hold its transforms as texts: a recipe of these is that run's chain.
TEST(RecipeFile, TransformsComeBackFromTheirTexts) {
  PreprocessorSetting own;
  own.train_transforms(Pad(4, 9, PadMode::REFLECT),
                       Resize(40, ResizeMode::SQUARE, Interpolation::BICUBIC, false),
                       RandomAffine(10, {0.1f, 0.2f}, {0.9f, 1.1f})
                           .with_fill(7)
                           .with_interpolation(Interpolation::NEAREST),
                       RandomResizedCrop(32, {0.25f, 1}, {0.5f, 2}, Interpolation::BICUBIC, false),
                       RandAugment(3, 7, 31, 128), GaussianBlur(0.1f, 1.5f, 5),
                       RandomErasing(0.25f, {0.02f, 0.2f}, {0.5f, 2}), CutMix(0.5f, 0.75f));
  std::string texts;
  for (const Transform& step : own.values().train_transforms) texts += "'" + to_string(step) + "',";
  const RecipeFile file = parse_recipe("train_transforms = [" + texts + "]", "texts.toml");
  const auto& steps = file.config.preprocessor.values().train_transforms;
  ASSERT_EQ(steps.size(), own.values().train_transforms.size());
  for (std::size_t i = 0; i < steps.size(); ++i)
    EXPECT_EQ(to_string(steps[i]), to_string(own.values().train_transforms[i]));
  EXPECT_EQ(std::get<Pad>(steps[0]).mode, PadMode::REFLECT);
  EXPECT_EQ(std::get<Resize>(steps[1]).interpolation, Interpolation::BICUBIC);
  EXPECT_FALSE(std::get<Resize>(steps[1]).antialias);
}

// What no memory holds is refused by its shape, with the layer and the file's line.
TEST(RecipeFile, LayersLargerThanAnyMemoryAreRefused) {
  const std::string many = std::to_string(std::int64_t{1} << 51);
  const std::string layers[] = {
      "{op = \"fc\", out_features = " + many + "}",
      "{op = \"conv\", out_channels = " + many + ", kernel = 3}",
      "{op = \"conv\", out_channels = 140737488355327, kernel = 2}",
      "{op = \"conv\", multiplier = " + many + ", groups = 0, kernel = 3}",
      "{op = \"channel_padding\", multiple = 9223372036854775807}"};
  for (const std::string& layer : layers) {
    SCOPED_TRACE(layer);
    const RecipeFile file = parse_recipe("[model]\nlayers = [\n  " + layer + ",\n]\n", "huge.toml");
    EXPECT_TRUE(test::throws<InvalidArgument>(
        [&] {
          plan_of(*file.model, {4096, 4096, 3});
        },
        "built at huge.toml:3"));
  }
  const RecipeFile tokens = parse_recipe(
      "[model]\nlayers = [{op = \"embedding\", num_embeddings = " + many + ", features = 8}]\n",
      "huge.toml");
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        expand(*tokens.model, {{"image", {Shape{5}, DType::INT32}}});
      },
      "more than 2^47 elements"));
  const RecipeFile prefix = parse_recipe(
      "[model]\nlayers = [{op = \"prepend_tokens\", tokens = 9223372036854775807}]\n", "huge.toml");
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        plan_of(*prefix.model, {5, 8});
      },
      "more than 2^47 elements"));
}

TEST(RecipeFile, TooFewInputsAreRefusedWhereShapesAre) {
  const RecipeFile file = parse_recipe("[model]\nlayers = [{op = \"add\"}]", "one.toml");
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        plan_of(*file.model, {4, 4, 1});
      },
      "add: 1 inputs, expected 2"));
}

TEST(RecipeFile, ALaterKeyOfTheFileWinsAndListsHaveCommas) {
  const RecipeFile file = parse_recipe(
      "workers = 3\nload_workers = 2\nmilestones = [3, 5]\nfreeze = [\"a\", \"b\"]\n"
      "train_resolution = [60, 160]\nval_resolution = [8]\n"
      "checkpoint.dir = \"d\"\n[dataset]\nname = \"csv\"\npath = \"x.csv\"",
      "keys.toml");
  const nlohmann::json json = to_json(file.config);
  EXPECT_EQ(json.at("load_workers"), 2);
  EXPECT_EQ(json.at("milestones"), "3,5");
  EXPECT_EQ(json.at("freeze"), "a,b");
  EXPECT_EQ(json.at("train_resolution"), "60,160");
  EXPECT_EQ(json.at("val_resolution"), 8);
  EXPECT_EQ(json.at("checkpoint.dir"), "d");
  EXPECT_EQ(json.at("dataset.path"), "x.csv");
  EXPECT_FALSE(file.model);
}

TEST(RecipeFile, ParameterGroupsAreThoseOfCallsAndComeBack) {
  const std::string model =
      "[model]\ninput = [4, 4, 1]\nlayers = [{op = \"fc\", out_features = 8}, {op = \"relu\"}, "
      "{op = \"fc\", out_features = 10}]\n";
  const RecipeFile file = parse_recipe(
      "optimizer = \"adamw\"\nweight_decay = 0.05\n"
      "groups = [\n  \"0.: lr*0.1 beta1=0.8 beta2=0.98\",\n  \"@bias: weight_decay=0.01\",\n]\n" +
          model,
      "groups.toml");
  const std::vector<ParamGroup>& groups = file.config.train.groups;
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].match, "0.");
  EXPECT_EQ(groups[0].lr_scale, 0.1);
  EXPECT_EQ(groups[0].beta1, 0.8);
  EXPECT_EQ(groups[0].beta2, 0.98);
  EXPECT_EQ(groups[1].kinds, ParamKinds::BIASES);
  EXPECT_EQ(groups[1].weight_decay, 0.01);
  TrainOptions train;
  train.optimizer = AdamW().weight_decay(0.05);
  train.groups = {{.match = "0.", .lr_scale = 0.1, .beta1 = 0.8, .beta2 = 0.98},
                  {.kinds = ParamKinds::BIASES, .weight_decay = 0.01}};
  const std::string settings = settings_of(Session{}, train);
  EXPECT_EQ(to_json(file.config).dump(1), settings);

  // The settings as they are saved, and the model's text, are a recipe again.
  const nlohmann::json saved = to_json(file.config);
  const std::string text = "optimizer = " + saved.at("optimizer").dump() +
                           "\nweight_decay = " + saved.at("weight_decay").dump() +
                           "\ngroups = " + saved.at("groups").dump() + "\n" +
                           model_toml(*file.model, {4, 4, 1});
  const RecipeFile again = parse_recipe(text, "again.toml");
  EXPECT_EQ(to_json(again.config).dump(1), settings);
  expect_same_plan(plan_of(*again.model, {4, 4, 1}), plan_of(*file.model, {4, 4, 1}));
}

TEST(RecipeFile, TrainsAsTheSameCallsDo) {
  const test::TempFolder folder;
  const DatasetPair digits{make_procedural_digits("train", 400),
                           make_procedural_digits("val", 100)};
  Session session;
  DeepLearningTask from_file;
  apply_recipe_file(std::string(TR_RECIPES_FOLDER) + "/mnist-mlp.toml", session, from_file);
  session.global.use_cpu().threads(1);
  session.preprocessor.dataset("").download(false);
  from_file.session(session).dataset(digits).set("total_epochs", "2");
  from_file.compile(CompileInfo::NONE);

  Session own;
  own.global.use_cpu().threads(1).manual_seed(123).global_batch_size(200).input_resolution(28);
  own.preprocessor.normalization(NormMode::MNIST)
      .train_transforms(Pad(2), RandomCrop(28), RandomRotation(20), RandomScale(0.8f, 1.2f),
                        RandomErasing(0.5f));
  DeepLearningTask from_calls;
  from_calls.session(own)
      .dataset(digits)
      .model(
          seq(fc(1024, true), relu(), fc(512, true), relu(), fc(256, true), relu(), fc(10, true)))
      .loss(CrossEntropyLoss().label_smoothing(0.1f))
      .optimizer(AdamW().weight_decay(1e-4))
      .scheduler(CosineAnnealingLR().base_lr(1e-3).warmup(5))
      .total_epochs(2)
      .compile(CompileInfo::NONE);
  EXPECT_EQ(from_file.config_json(), from_calls.config_json());
  EXPECT_EQ(from_file.run().weights_sha256, from_calls.run().weights_sha256);
}

}  // namespace
}  // namespace tr::zoo

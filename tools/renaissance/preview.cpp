// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/preview.h"
#include "command.h"
#include "core/check.h"
#include "zoo/parse_transforms.h"
#include "zoo/recipe_file.h"

namespace tr::command {

namespace {

struct PreviewArgs {
  std::optional<std::string> dataset, data;
  std::string transforms, out;
  std::string split = "train";
  std::optional<std::string> exif;
  std::optional<std::uint64_t> seed;
  PreviewOptions options;
  JsonOutput json;
};

/// What a run of a recipe would see; options of the command win.
TransformChain take_recipe(PreviewArgs& args, DatasetOptions& data) {
  const Config config = zoo::read_recipe(args.transforms).config;
  const PreprocessorSetting::Values& own = config.preprocessor.values();
  const GlobalSetting::Values& global = config.global.values();
  if (!args.dataset && !own.dataset_name.empty()) {
    args.dataset = own.dataset_name;
    if (!args.data) args.data = own.dataset_path;
  }
  if (!args.exif) args.options.exif = own.exif;
  args.options.seed = global.seed;
  data.val_fraction = own.val_fraction;
  data.color_channels = own.color_channels;
  data.read_timeout_s = own.read_timeout_s;
  const bool val = args.options.validation;
  const ImageSize size = val ? global.val_resolution : global.train_resolution;
  return {val ? own.val_transforms : own.train_transforms, own.normalization, size.height,
          size.width};
}

int run_preview(PreviewArgs args) {
  args.json.probe();
  args.options.validation = args.split == "val";
  DatasetOptions data;
  const TransformChain chain =
      zoo::is_recipe_file(args.transforms)
          ? take_recipe(args, data)
          : TransformChain{zoo::parse_transforms(args.transforms), Normalization()};
  chain.validate();
  if (args.exif)
    args.options.exif = *args.exif == "ignore" ? ExifPolicy::IGNORE : ExifPolicy::APPLY;
  if (args.seed) args.options.seed = *args.seed;
  const std::string dataset = args.dataset.value_or("procedural");
  const DatasetPair pair = open_dataset(dataset, args.data.value_or(""), data);
  const auto& set = args.options.validation ? pair.val : pair.train;
  TR_CHECK(set != nullptr, "preview: the set {} has no split {}", dataset, args.split);
  const auto drawn = nlohmann::json::parse(write_preview(*set, chain, args.out, args.options));
  print(args.json, fmt::format("{}: {} samples, {} draws of each: {}", args.out,
                               drawn.at("rows").size(), args.options.num_draws, chain.str()));
  args.json.write(drawn);
  return kOk;
}

}  // namespace

void add_preview(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<PreviewArgs>();
  CLI::App* command = app.add_subcommand(
      "preview",
      "Writes a contact sheet (PNG) of samples as a chain of transforms gives them, and what was "
      "drawn (JSON) beside it.");
  command
      ->add_option(
          "TRANSFORMS", args->transforms,
          "\"RandomResizedCrop(64, scale=[0.25, 1]), Pad(4, REFLECT), ColorJitter(hue=0.1)\""
          "; what is left out has its default. Or a recipe file, whose chain, set and seed are "
          "taken")
      ->required();
  command->add_option("--out", args->out, "the sheet")->type_name("FILE.png")->required();
  command->add_option("--dataset", args->dataset,
                      "name of the set; procedural, unless a recipe names one, needs no files");
  command->add_option("--data", args->data, "its folder")->check(not_empty());
  command->add_option("--split", args->split, "train or val")
      ->check(CLI::IsMember({"train", "val"}))
      ->capture_default_str();
  command->add_option("--first", args->options.first_sample, "first sample")
      ->transform(whole_number<std::int64_t>())
      ->capture_default_str();
  command->add_option("--samples", args->options.num_samples, "rows")
      ->transform(whole_number<int>())
      ->capture_default_str();
  command->add_option("--draws", args->options.num_draws, "epochs of each")
      ->transform(whole_number<int>())
      ->capture_default_str();
  command->add_option("--seed", args->seed, "of the run; 0, unless a recipe has one")
      ->transform(whole_number<std::uint64_t>());
  command
      ->add_option("--exif", args->exif,
                   "apply or ignore, as decode.exif of a run; apply, unless a recipe has it")
      ->check(CLI::IsMember({"apply", "ignore"}));
  args->json.add_to(*command);
  command->callback([args, &exit_code] { exit_code = run_preview(*args); });
}

}  // namespace tr::command

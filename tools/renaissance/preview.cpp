// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/preview.h"
#include "command.h"
#include "core/check.h"
#include "zoo/parse_transforms.h"

namespace tr::command {

namespace {

struct PreviewArgs {
  std::string dataset = "procedural";
  std::optional<std::string> data;
  std::string transforms, out;
  std::string split = "train";
  std::string exif = "apply";
  PreviewOptions options;
  JsonOutput json;
};

int run_preview(PreviewArgs args) {
  args.json.probe();
  const TransformChain chain{.transforms = zoo::parse_transforms(args.transforms)};
  chain.validate();
  const DatasetPair pair = open_dataset(args.dataset, args.data.value_or(""));
  args.options.validation = args.split == "val";
  args.options.exif = args.exif == "ignore" ? ExifPolicy::IGNORE : ExifPolicy::APPLY;
  const auto& set = args.options.validation ? pair.val : pair.train;
  TR_CHECK(set != nullptr, "preview: the set {} has no split {}", args.dataset, args.split);
  const std::string text = write_preview(*set, chain, args.out, args.options);
  print(args.json, fmt::format("{}: {} samples, {} draws of each: {}", args.out,
                               args.options.num_samples, args.options.num_draws, chain.str()));
  args.json.write(nlohmann::json::parse(text));
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
          "; what is left out has its default")
      ->required();
  command->add_option("--out", args->out, "the sheet")->type_name("FILE.png")->required();
  command->add_option("--dataset", args->dataset, "name of the set; procedural needs no files")
      ->capture_default_str();
  command->add_option("--data", args->data, "its folder")->check(not_empty());
  command->add_option("--split", args->split, "train or val")
      ->check(CLI::IsMember({"train", "val"}))
      ->capture_default_str();
  command->add_option("--first", args->options.first_sample, "first sample")->capture_default_str();
  command->add_option("--samples", args->options.num_samples, "rows")->capture_default_str();
  command->add_option("--draws", args->options.num_draws, "epochs of each")->capture_default_str();
  command->add_option("--seed", args->options.seed, "of the run")
      ->capture_default_str()
      ->check(whole_number());
  command->add_option("--exif", args->exif, "apply or ignore, as decode.exif of a run")
      ->check(CLI::IsMember({"apply", "ignore"}))
      ->capture_default_str();
  args->json.add_to(*command);
  command->callback([args, &exit_code] { exit_code = run_preview(*args); });
}

}  // namespace tr::command

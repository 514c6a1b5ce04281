// SPDX-License-Identifier: Apache-2.0
// data check, stats and split: what a set holds, without training on it.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <system_error>

#include "command.h"
#include "core/check.h"
#include "core/format.h"
#include "core/human.h"
#include "core/printable.h"
#include "data/check.h"

namespace tr::command {

namespace {

struct DataArgs {
  std::string name, path, target;
  double val_fraction = 0;
  std::uint64_t seed = 0;
  int color_channels = 0;
  JsonOutput json;
};

using nlohmann::json;

int run_check(const DataArgs& args) {
  args.json.probe();
  const std::vector<std::string> faults = data::check_dataset(args.name, args.path);
  for (const std::string& fault : faults) print(args.json, printable(fault));
  const std::string path = printable(args.path);
  if (faults.empty()) print(args.json, fmt::format("{} in {}: sound", args.name, path));
  json lines = json::array();
  for (const std::string& fault : faults) lines.push_back(printable(fault));
  args.json.write(
      {{"name", args.name}, {"dir", path}, {"sound", faults.empty()}, {"faults", lines}});
  return faults.empty() ? kOk : kDataFailure;
}

/// Sides of pictures in bins of powers of two: "64..127" -> pictures whose shorter side lies there.
std::map<int, std::int64_t> side_bins(const data::SplitReport& report) {
  std::map<int, std::int64_t> bins;
  for (const auto& [size, count] : report.sizes) {
    int low = 1;
    while (2 * low <= std::min(size.first, size.second)) low *= 2;
    bins[low] += count;
  }
  return bins;
}

constexpr std::size_t kMostListed = 100000;  // classes

json to_json(const data::SplitReport& report, const std::vector<std::string>& classes) {
  json sizes = json::array(), bins = json::array(), counts = json::array();
  for (const auto& [size, count] : report.sizes) {
    sizes.push_back({{"height", size.first}, {"width", size.second}, {"count", count}});
  }
  for (const auto& [low, count] : side_bins(report)) {
    bins.push_back({{"shorter_side_from", low}, {"to", 2 * low - 1}, {"count", count}});
  }
  for (std::size_t c = 0; c < report.class_counts.size(); ++c) {
    // A label of millions makes as many classes: those without a sample are not listed then.
    if (report.class_counts[c] == 0 && report.class_counts.size() > kMostListed) continue;
    json row = {{"class", c}, {"count", report.class_counts[c]}};
    if (c < classes.size()) row["name"] = printable(classes[c]);
    counts.push_back(std::move(row));
  }
  return {{"samples", report.num_samples},
          {"classes", counts},
          {"sizes", sizes},
          {"shorter_sides", bins},
          {"formats", report.formats},
          {"pixels", report.num_pixels},
          {"mean", report.mean},
          {"std", report.std},
          {"duplicates", report.duplicates},
          {"faults", report.faults},
          {"warnings", report.warnings}};
}

std::string classes_text(const data::SplitReport& report, const std::vector<std::string>& classes) {
  constexpr std::size_t kMost = 20;
  if (report.class_counts.empty()) return "";
  const auto [low, high] =
      std::minmax_element(report.class_counts.begin(), report.class_counts.end());
  std::string text = fmt::format("  {} classes with {} to {} samples each\n",
                                 report.class_counts.size(), *low, *high);
  if (report.class_counts.size() > kMost) return text;
  for (std::size_t c = 0; c < report.class_counts.size(); ++c) {
    text += fmt::format("  {:>6}  {}{}\n", report.class_counts[c], c,
                        c < classes.size() ? " " + printable(classes[c]) : "");
  }
  return text;
}

std::string to_text(const std::string& split, const data::SplitReport& report,
                    const std::vector<std::string>& classes) {
  std::string text = fmt::format("{}: {} samples\n", split, report.num_samples);
  text += classes_text(report, classes);
  if (!report.sizes.empty()) {
    text += fmt::format("  {} sizes, from {}x{} to {}x{} (height x width); shorter side",
                        report.sizes.size(), report.sizes.begin()->first.first,
                        report.sizes.begin()->first.second, report.sizes.rbegin()->first.first,
                        report.sizes.rbegin()->first.second);
    for (const auto& [low, count] : side_bins(report)) {
      text += fmt::format(" {}..{}: {}", low, 2 * low - 1, count);
    }
    text += '\n';
  }
  for (const auto& [format, count] : report.formats) {
    text += fmt::format("  {} {}\n", count, format);
  }
  if (!report.mean.empty()) {
    text += fmt::format("  mean {:.6f}  std {:.6f}  of {} pixels, values in 0..1\n",
                        fmt::join(report.mean, " "), fmt::join(report.std, " "), report.num_pixels);
  }
  for (const auto& group : report.duplicates) {
    text += fmt::format("  the same bytes: {}\n", fmt::join(group, ", "));
  }
  for (const std::string& warning : report.warnings)
    text += fmt::format("  warning: {}\n", warning);
  for (const std::string& fault : report.faults) text += fmt::format("  fault: {}\n", fault);
  text.pop_back();
  return text;
}

int run_stats(const DataArgs& args) {
  args.json.probe();
  const DatasetPair pair = open_dataset(args.name, args.path,
                                        {.seed = args.seed,
                                         .val_fraction = args.val_fraction,
                                         .color_channels = args.color_channels});
  json result = {{"name", args.name}, {"path", printable(args.path)}};
  bool sound = true;
  for (const auto& [split, set] : {std::pair{"train", pair.train}, std::pair{"val", pair.val}}) {
    if (!set) continue;
    const data::SplitReport report = data::report_split(*set);
    const std::vector<std::string> classes = set->class_names();
    print(args.json, to_text(split, report, classes));
    result[split] = to_json(report, classes);
    sound = sound && report.faults.empty();
  }
  args.json.write(result);
  return sound ? kOk : kDataFailure;
}

/// The lists of a set cannot be replaced by parts of themselves: the others would be lost.
void check_target(const DataArgs& args) {
  namespace fs = std::filesystem;
  const fs::path written = fs::path(args.target) / "train.csv";
  for (const fs::path& read : {fs::path(args.path), fs::path(args.path) / "train.csv"}) {
    std::error_code none;  // what is not there is not the same
    if (!fs::equivalent(read, written, none)) continue;
    throw_as<InvalidArgument>("--out {}: its train.csv is the list that is split",
                              printable(args.target));
  }
}

int run_split(const DataArgs& args) {
  args.json.probe();
  const data::PictureLists lists = data::list_pictures(
      args.name, args.path, {.val_fraction = args.val_fraction, .seed = args.seed});
  for (const std::string& note : lists.notes) log_message(LogLevel::WARNING, "data: " + note);
  check_target(args);
  data::write_csv_set(lists, args.target);
  const std::int64_t val = lists.val ? lists.val->size() : 0;
  print(args.json, fmt::format("{}: {} samples for training, {} for validation, {} classes",
                               printable(args.target), lists.train.size(), val, lists.num_classes));
  args.json.write({{"target", printable(args.target)},
                   {"train", lists.train.size()},
                   {"val", val},
                   {"classes", lists.num_classes},
                   {"val_fraction", args.val_fraction},
                   {"seed", args.seed}});
  return kOk;
}

/// A subcommand of `data` with what all of them take.
CLI::App* add_one(CLI::App& command, const char* name, const char* what,
                  const std::shared_ptr<DataArgs>& args) {
  CLI::App* sub = command.add_subcommand(name, what);
  sub->add_option("NAME", args->name,
                  "mnist, fashion-mnist, cifar-10, cifar-100, folder, imagenet, csv, procedural")
      ->required();
  sub->add_option("PATH", args->path, "its folder; csv: or its list")->required();
  args->json.add_to(*sub);
  return sub;
}

void add_split_options(CLI::App& sub, const std::shared_ptr<DataArgs>& args) {
  sub.add_option("--val-fraction", args->val_fraction,
                 "part of each class that validation takes; sets of pictures without a split")
      ->transform(decimal_number());
  sub.add_option("--seed", args->seed, "of that choice")->transform(whole_number<std::uint64_t>());
}

}  // namespace

void add_data(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("data", "Looks at data sets.");
  command->require_subcommand(1);
  const auto check = std::make_shared<DataArgs>();
  add_one(*command, "check", "Reads a whole set; one line a fault; exit 0 only if sound.", check)
      ->callback([check, &exit_code] { exit_code = run_check(*check); });

  const auto stats = std::make_shared<DataArgs>();
  CLI::App* sub = add_one(
      *command, "stats",
      "Classes, sizes, mean and deviation, duplicates, faults; exit 0 only if sound.", stats);
  add_split_options(*sub, stats);
  sub->add_option("--color-channels", stats->color_channels, "1 or 3, of picture files")
      ->transform(whole_number<int>());
  sub->callback([stats, &exit_code] { exit_code = run_stats(*stats); });

  const auto split = std::make_shared<DataArgs>();
  sub = add_one(*command, "split",
                "Writes a set of pictures as lists (train.csv, val.csv, classes.txt): the same "
                "lists at every run.",
                split);
  add_split_options(*sub, split);
  sub->add_option("--out", split->target, "folder for the lists")->required()->check(not_empty());
  sub->callback([split, &exit_code] { exit_code = run_split(*split); });
}

}  // namespace tr::command

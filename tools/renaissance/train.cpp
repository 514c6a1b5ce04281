// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>

#include "command.h"
#include "core/atomic_file.h"
#include "core/check.h"
#include "core/env.h"
#include "core/format.h"
#include "core/human.h"
#include "task/config.h"
#include "task/metrics_log.h"
#include "task/parse.h"
#include "task/signals.h"
#include "task/step_times.h"
#include "zoo/recipe_file.h"

namespace tr::command {

namespace {

struct TrainArgs {
  std::string recipe;
  std::optional<std::string> data, device, log, checkpoint;
  std::optional<std::string> epochs, workers, seed;  // read as strictly as by --set
  std::optional<std::string> stages, trace, graph;   // times: of how many steps, and where they go
  bool resume = false;
  std::vector<std::string> sets;
  JsonOutput json;
};

constexpr int kGraphSteps = 20;  // timed for --graph, unless --stages says how many

constexpr const char* kDataRules =
    R"(Data: --data DIR, which must hold the set; of MNIST else data/mnist of the project's
folder; else a download into it; else procedural digits drawn by the program, announced as a
warning. Keys of --set are those of docs/configuration.md (renaissance info --keys prints them).)";

std::string recipe_list() {
  std::string text;
  for (const zoo::Recipe& recipe : zoo::recipes()) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", recipe.name, recipe.summary);
  }
  return text;
}

std::vector<KeyValue> assignments(const TrainArgs& args) {
  std::vector<KeyValue> pairs;
  const auto add = [&](const char* key, const std::string& value) {
    pairs.push_back({key, value});
  };
  if (args.graph) add("timed_steps", std::to_string(kGraphSteps));
  if (args.stages) add("timed_steps", *args.stages);
  if (args.trace) add("trace_file", *args.trace);
  if (args.device) add("device", *args.device);
  if (args.epochs) add("total_epochs", *args.epochs);
  if (args.seed) add("seed", *args.seed);
  if (args.workers) add("workers", *args.workers);
  if (args.log) add("log_file", *args.log);
  if (args.checkpoint) {
    add("checkpoint.dir", *args.checkpoint);
    add("checkpoint.best", *args.checkpoint + "/best_weights.safetensors");
  }
  if (args.resume) add("resume", "true");
  for (const std::string& set : args.sets) {
    const std::size_t equals = set.find('=');
    TR_CHECK(equals != std::string::npos && equals > 0, "--set {}: expected key=value", set);
    pairs.push_back({set.substr(0, equals), set.substr(equals + 1)});
  }
  return pairs;
}

/// --set dataset.path and dataset.name say where the data are, as --data does.
bool names_data(const std::vector<KeyValue>& pairs) {
  for (const KeyValue& pair : pairs) {
    if (pair.key == "dataset.path" || pair.key == "dataset.name") return true;
  }
  return false;
}

struct AppliedRecipe {
  bool names_data = false;  // it says itself where its data are
  TrainOptions train;       // what a file says; a built-in recipe names no places
};

/// A built-in recipe by its name, or one from a file.
AppliedRecipe apply_recipe(const std::string& recipe, Session& session, DeepLearningTask& task) {
  if (!zoo::is_recipe_file(recipe)) {
    zoo::apply_recipe(recipe, session, task);
    return {};
  }
  const zoo::RecipeFile file = zoo::read_recipe(recipe);
  TR_CHECK(file.model, "{}: the recipe has no table [model]", recipe);
  file.apply(session, task);
  const PreprocessorSetting::Values& data = session.preprocessor.values();
  TR_CHECK(!data.dataset_name.empty(), "{}: the recipe has no dataset.name", recipe);
  // MNIST may be found by the rules of --help; other sets are where their files are.
  return {!data.dataset_path.empty() || data.dataset_name != "mnist", file.config.train};
}

/// What needs a place and has none, or one that something else takes, is told before data are
/// looked for, or fetched.
void check_places_of(const TrainArgs& args, const AppliedRecipe& recipe, const Session& session,
                     const std::vector<KeyValue>& pairs,
                     const std::vector<KeyValue>& from_environment) {
  Config config{session.global, session.preprocessor, recipe.train};
  apply_assignments(config, pairs);
  apply_assignments(config, from_environment);
  check_places(config.train);
  std::vector<OutputFile> files = output_files(config.train);
  if (!args.json.to_stdout()) files.push_back({"--json", args.json.target()});
  files.push_back({"--graph", args.graph.value_or("")});
  check_own_places(files);
}

/// A download that --set or TR_OVERRIDE permits is permitted to choose_data() too.
void permit_download(const std::vector<KeyValue>& pairs, Session& session) {
  for (const KeyValue& pair : pairs) {
    if (pair.key == "download") session.preprocessor.download(parse_bool(pair.value) == true);
  }
}

std::string final_table(const DeepLearningTask& task, const TrainingResult& result) {
  const auto row = [](const char* name, const std::string& value) {
    return fmt::format("  {:<14}{}\n", name, value);
  };
  std::string text = "\n";
  text += row("data", task.data_name());
  const bool validated = result.best_epoch > 0;
  const bool has_classes = std::any_of(result.history.begin(), result.history.end(),
                                       [](const EpochRecord& record) { return record.top1 >= 0; });
  if (has_classes || !validated) {
    text += row("best top-1", validated ? fmt::format("{:.2f} %", 100 * result.best_top1)
                                        : "none: nothing was validated");
  }
  if (validated) text += row("best epoch", std::to_string(result.best_epoch));
  text += row("images/s", format_count(result.images_per_s));
  text += row("feed", result.feed);
  const DeviceMemory memory = task.memory();
  text += row("device memory",
              fmt::format("{} (arena {}, data {})", format_bytes(memory.total_bytes),
                          format_bytes(memory.arena_bytes), format_bytes(memory.data_bytes)));
  text += row("time", format_duration(result.total_s));
  text += row("weights", "sha256 " + result.weights_sha256.substr(0, 16));
  text += row("log", result.log_path.empty() ? "none (--log FILE)" : result.log_path);
  text += row("checkpoint",
              result.checkpoint_path.empty() ? "none (--checkpoint DIR)" : result.checkpoint_path);
  if (result.cancelled) {
    text += row("ended", result.checkpoint_path.empty()
                             ? "before its last epoch; without --checkpoint nothing is kept"
                             : "before its last epoch; --resume goes on");
  }
  return text;
}

nlohmann::json result_json(const DeepLearningTask& task, const TrainingResult& result) {
  nlohmann::json epochs = nlohmann::json::array();
  for (const EpochRecord& record : result.history)
    epochs.push_back(nlohmann::json::parse(epoch_json(record)));
  return {{"data", task.data_name()},
          {"best_top1", result.best_top1},
          {"best_top5", result.best_top5},
          {"best_epoch", result.best_epoch},
          {"epochs", std::move(epochs)},
          {"images_per_s", result.images_per_s},
          {"feed", result.feed},
          {"compile_ms", task.compile_ms()},
          {"total_s", result.total_s},
          {"peak_bytes", result.peak_bytes},
          {"data_bytes", task.memory().data_bytes},
          {"total_bytes", task.memory().total_bytes},
          {"weights_sha256", result.weights_sha256},
          {"tuning_sha256", result.tuning_sha256},
          {"cancelled", result.cancelled},
          {"log", result.log_path},
          {"checkpoint", result.checkpoint_path},
          {"config", nlohmann::json::parse(task.config_json())}};
}

/// @throws DataError  the file cannot be written: asked before the work, not after it.
void probe_file(const std::string& path) { const AtomicFile probe(path); }

int run_train(const TrainArgs& args) {
  args.json.probe();
  Session session;
  DeepLearningTask task;
  const std::vector<KeyValue> pairs = assignments(args);
  const AppliedRecipe recipe = apply_recipe(args.recipe, session, task);
  TR_CHECK(!args.data || !names_data(pairs),
           "--data {} and --set dataset.name or dataset.path both say where the data are, expected "
           "one of them",
           *args.data);
  for (const KeyValue& pair : pairs) task.set(pair.key, pair.value);
  const auto from_environment =
      parse_assignments(read_env("TR_OVERRIDE").value_or(""), "TR_OVERRIDE");
  permit_download(pairs, session);
  permit_download(from_environment, session);
  check_places_of(args, recipe, session, pairs, from_environment);
  const bool data_are_set = recipe.names_data || names_data(pairs) || names_data(from_environment);
  if (args.data || !data_are_set)
    choose_data(session, session.preprocessor.values().dataset_name, args.data);
  if (args.graph) probe_file(*args.graph);
  task.session(session).compile();
  const SignalGuard guard(true);  // a run without checkpoints too ends at a step, with its table
  const TrainingResult result = task.run();
  const std::vector<VariantTimes> times = task.step_times();
  print(args.json, final_table(task, result) + (args.stages ? "\n" + to_text(times) : ""));
  nlohmann::json json = result_json(task, result);
  if (args.stages) json["stages"] = to_json(times);
  args.json.write(json);
  if (args.graph) {
    const bool dot = args.graph->ends_with(".dot") || args.graph->ends_with(".gv");
    write_file_atomically(*args.graph, task.graph(dot ? GraphFormat::DOT : GraphFormat::JSON));
  }
  return result.cancelled && SignalGuard::received() != 0 ? 128 + SignalGuard::received()
                                                          : int(kOk);
}

void add_times(CLI::App& command, TrainArgs& args) {
  command
      .add_option("--stages", args.stages,
                  "run the nodes of the first N steps one by one and print the time of each stage "
                  "and op; N is 100 unless given")
      ->type_name("[N]")
      ->expected(0, 1)
      ->default_str("100")
      ->take_last();
  command
      .add_option("--trace", args.trace,
                  "write a trace for chrome://tracing or Perfetto: the host, and the nodes of the "
                  "timed steps (20, or those of --stages)")
      ->type_name("FILE.json")
      ->check(not_empty());
  command
      .add_option("--graph", args.graph,
                  "write the compiled steps with the microseconds of their nodes: graphviz if it "
                  "ends in .dot or .gv, else JSON")
      ->type_name("FILE")
      ->check(not_empty());
}

}  // namespace

void add_train(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<TrainArgs>();
  CLI::App* command = app.add_subcommand(
      "train", "Trains a recipe, built in or from a file, and prints what came out.");
  command->footer(kDataRules);
  command
      ->add_option("RECIPE", args->recipe,
                   recipe_list() + "; or a file FILE.toml (docs/recipes.md)")
      ->required();
  command->add_option("--data", args->data, "folder of the data set")
      ->type_name("DIR")
      ->check(not_empty());
  command->add_option("--device", args->device,
                      "cpu, cuda or cuda:I; without it all GPUs, else the CPU");
  command
      ->add_option("--epochs", args->epochs,
                   "passes over the training set, in place of the recipe's own")
      ->type_name("INT")
      ->take_last();
  command->add_option("--seed", args->seed, "of every draw (default 0)")->type_name("UINT");
  command
      ->add_option("--workers", args->workers,
                   "threads of the data pipeline; results do not depend on it")
      ->type_name("INT");
  command->add_option("--log", args->log, "metrics as JSON lines; --set log_every=1 adds each step")
      ->type_name("FILE.jsonl")
      ->check(not_empty());
  command
      ->add_option("--checkpoint", args->checkpoint,
                   "folder for checkpoints and best_weights.safetensors")
      ->type_name("DIR")
      ->check(not_empty());
  add_times(*command, *args);
  command->add_flag("--resume", args->resume,
                    "continue from the newest checkpoint of --checkpoint");
  command->add_option("--set", args->sets, "any configuration key; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)  // else it takes the positionals behind it
      ->take_all();
  args->json.add_to(*command);
  command->callback([args, &exit_code] { exit_code = run_train(*args); });
}

}  // namespace tr::command

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "algo/param_groups.h"
#include "backend/executor.h"
#include "command.h"
#include "core/atomic_file.h"
#include "core/check.h"
#include "core/format.h"
#include "core/human.h"
#include "core/log.h"
#include "graph/compiler.h"
#include "graph/plan_report.h"
#include "graph/precision_plan.h"
#include "lr_plot.h"
#include "task/config.h"
#include "task/engine_tuning.h"
#include "task/graph_options.h"
#include "task/parse.h"
#include "task/step_times.h"
#include "zoo/recipe_file.h"

namespace tr::command {

namespace {

struct PlanArgs {
  std::string model;
  std::int64_t batch = 1;
  std::string batch_text, budget_text = "0", recompute_text = "0";
  std::string dtype = "fp32";
  std::string precision;  // rules, as the key of that name
  std::string device = "cpu";
  std::int64_t budget = 0;
  std::int64_t recompute = 0;
  bool engines = false;
  bool toml = false;
  std::string search_text = "0";
  double search_seconds = 0;
  std::vector<std::string> graph;  // format, file
  std::string lr_file;             // empty: no plot
  std::string steps_text = "100";  // of an epoch, in the plot
  std::vector<std::string> sets;
  JsonOutput json;

  DeviceKind kind() const { return device == "cpu" ? DeviceKind::CPU : DeviceKind::CUDA; }
};

std::string model_list() { return fmt::format("{}", fmt::join(zoo::model_names(), ", ")); }

/// What is planned: a model with its input, and how it is trained.
struct Planned {
  zoo::Model model;
  Config config;

  ResolvedGroups groups_of(const ArchPlan& arch) const {
    const TrainOptions& train = config.train;
    return resolve_groups(arch, train.groups, train.scheduler.base_lr, train.optimizer);
  }
};

/// What of a recipe is not in the plan.
void tell_unplanned(const Planned& what, const PlanArgs& args) {
  const auto tell = [&](bool differs, std::string_view key, std::string_view how) {
    if (differs) log_warning("plan: {} of {} is left out: {}", key, args.model, how);
  };
  const GlobalSetting::Values& global = what.config.global.values();
  tell(global.low_dtype && args.dtype != name_of(*global.low_dtype), "amp",
       "--dtype says what is planned");
  tell(global.accumulate_steps > 1 || global.accumulate_auto, "accumulate_steps",
       "--batch is planned as one micro-batch");
  tell(global.cpu_ranks > 1, "cpu_ranks", "one rank is planned");
  const TrainOptions& train = what.config.train;
  tell(plan_freezes(train.freeze, train.total_epochs).changes(), "freeze",
       "a step that trains all of it is planned");
}

/// The image models with SGD and momentum, the article's network with AdamW, a recipe as it says.
Planned planned(const std::string& name) {
  if (!zoo::is_recipe_file(name)) {
    Planned what{zoo::make_model(name), {}};
    what.config.train.optimizer = name == "mnist-mlp"
                                      ? Optimizer(AdamW().weight_decay(1e-4))
                                      : Optimizer(SGD().momentum(0.9).weight_decay(1e-4));
    return what;
  }
  const zoo::RecipeFile file = zoo::read_recipe(name);
  TR_CHECK(file.model, "{}: the recipe has no table [model]", name);
  TR_CHECK(file.input, "{}: a plan needs the key input = [height, width, channels] in [model]",
           name);
  return {{name, *file.model, *file.input}, file.config};
}

/// Some op of the model has no kernel in this build: what workspace it will take is not known yet.
bool lacks_kernels(const zoo::Model& model, const CompileRequest& request,
                   const KernelOracle& kernels) {
  try {
    check_kernels_exist(expand(model.blueprint, request.sample_fields), kernels);
    return false;
  } catch (const Unsupported&) {
    return true;
  }
}

/// Which engines run the nodes that have a choice.
class Engines {
 public:
  /// With --search-seconds, where the device is there, as a training measures them.
  explicit Engines(const PlanArgs& args) : kind_(args.kind()) {
    const DeviceBackend* backend = find_backend(kind_);
    if (kind_ == DeviceKind::CPU) return;
    const bool there = backend != nullptr && !backend->devices().empty();
    if (!there) why_ = backend == nullptr ? "this build has no CUDA backend" : backend->why_none();
    if (there)
      tuning_ = std::make_unique<EngineTuning>(TuningOptions{.search_seconds = args.search_seconds},
                                               kind_, 0);
  }
  EngineSearch* search() { return tuning_ ? tuning_->search() : nullptr; }
  TuningTable& table() { return table_; }
  void finish() {
    if (tuning_) tuning_->finish();
  }

  std::string text() const {
    std::string text = fmt::format("\nengines{}", why_.empty() ? "" : ", by rank: " + why_);
    for (const auto& [node, engine] : table_.entries()) {
      // What stands behind # is for the library alone.
      text += fmt::format("\n  {}\n    {}, {}", node, engine.substr(0, engine.find('#')),
                          how(table_.us_of(node)));
    }
    return text;
  }
  nlohmann::json json() const {
    nlohmann::json all = nlohmann::json::array();
    for (const auto& [node, engine] : table_.entries()) {
      const double us = table_.us_of(node);
      all.push_back({{"node", node},
                     {"engine", engine},
                     {"us", us > 0 ? nlohmann::json(us) : nlohmann::json(nullptr)}});
    }
    return all;
  }

 private:
  static std::string how(double us) {
    return us > 0 ? fmt::format("measured: {:.2f} us", us) : std::string("by rank");
  }

  DeviceKind kind_;
  std::string why_;  // nothing is measured
  std::unique_ptr<EngineTuning> tuning_;
  TuningTable table_;
};

/// As a training of it is told, but for what the command says itself.
GraphOptions graph_options_of(const PlanArgs& args, const Planned& what,
                              const ResolvedGroups& groups) {
  Config config = what.config;
  if (args.dtype == "fp32") {
    config.global.amp(false);
  } else {
    config.global.amp(dtype_from_name(args.dtype));
  }
  set_config(config, "precision", args.precision);
  FreezePlan freezes = plan_freezes(config.train.freeze, config.train.total_epochs);
  if (freezes.changes()) freezes = {};
  return graph_options(config, BatchPlan{}, freezes, groups);
}

/// A training, a validation and a prediction step of `batch` samples.
CompileResult compile_for(const PlanArgs& args, const Planned& what, std::int64_t batch,
                          TuningTable& tuning, EngineSearch* search) {
  const zoo::Model& model = what.model;
  const TrainOptions& train = what.config.train;
  CompileRequest request;
  request.model = model.blueprint;
  request.sample_fields = {{"image", {model.input, DType::FP32}},
                           {"label", {Shape{}, DType::INT32}}};
  request.loss = loss_spec(train.loss);
  const ResolvedGroups groups = what.groups_of(expand(model.blueprint, request.sample_fields));
  request.optimizer = optimizer_spec(train.optimizer, train.scheduler, 0, groups.momenta);
  request.graph = graph_options_of(args, what, groups);
  request.memory.recompute_bytes = args.recompute > 0 ? args.recompute : train.memory_budget;
  for (const Mode mode : {Mode::TRAIN, Mode::EVAL, Mode::PREDICT}) {
    VariantKey key{.mode = mode, .batch = batch};
    key.name = fmt::format("{}_base", name_of(mode));
    key.ema = train.ema_decay > 0 && mode != Mode::TRAIN;
    key.fields["image"] = {model.input.prepend(batch),
                           request.graph.low_dtype.value_or(DType::FP32)};
    key.fields["label"] = {Shape{batch}, DType::INT32};
    request.variants.push_back(std::move(key));
  }
  const auto kernels = make_kernel_oracle(args.kind(), tuning, {}, search);
  if (lacks_kernels(model, request, *kernels)) {
    static bool told = false;  // the largest batch is found by planning many
    if (!std::exchange(told, true)) {
      log_warning(
          "plan: this build has no {} kernel for an op of {}: workspaces are assumed (32 MiB a "
          "convolution), and only fusions that every backend has are planned",
          args.device, args.model);
    }
    return compile(request, PlanningOracle(args.kind()));
  }
  return compile(request, *kernels);
}

std::int64_t bytes(const char* option, const std::string& text) {
  const auto parsed = parse_bytes(text);
  TR_CHECK(parsed, "{} is \"{}\", expected bytes such as 17179869184 or 16GiB", option, text);
  return *parsed;
}

std::int64_t integer(const char* option, const std::string& text) {
  const auto value = parse_number<std::int64_t>(text);
  TR_CHECK(value, "{} is \"{}\", expected an integer below 2^63", option, text);
  return *value;
}

/// --graph dot|json [FILE]; without FILE to standard output, where nothing else goes then.
void write_graph(const PlanArgs& args, const CompileResult& compiled) {
  const GraphFormat format = args.graph.front() == "dot" ? GraphFormat::DOT : GraphFormat::JSON;
  const std::string text = write_graphs(shown_graphs(compiled), format);
  if (args.graph.size() > 1) {
    write_file_atomically(args.graph[1], text);
  } else {
    std::fputs(text.c_str(), stdout);
  }
}

/// Refuses what --graph cannot do, before the work.
void check_graph(const PlanArgs& args) {
  if (args.graph.empty()) return;
  const std::string& format = args.graph.front();
  TR_CHECK(format == "dot" || format == "json",
           "--graph {}: the format is unknown, expected dot or json", format);
  if (args.graph.size() > 1) {
    TR_CHECK(!args.graph[1].empty(), "--graph {}: the file's name is empty", format);
    const AtomicFile probe(args.graph[1]);
    return;
  }
  TR_CHECK(!args.json.to_stdout(), "--graph {} and --json - both go to standard output", format);
}

/// --lr FILE: the schedule of the recipe MODEL, without one of the defaults, with what --set says.
void write_lr(const PlanArgs& args) {
  const bool csv = args.lr_file.ends_with(".csv");
  TR_CHECK(csv || args.lr_file.ends_with(".svg"), "--lr {}: expected a file .svg or .csv",
           args.lr_file);
  const std::int64_t steps = integer("--steps-per-epoch", args.steps_text);
  constexpr std::int64_t kMostSteps = 1 << 20;
  TR_CHECK(steps >= 1 && steps <= kMostSteps, "--steps-per-epoch is {}, expected 1 to {}", steps,
           kMostSteps);
  Session session;
  DeepLearningTask task;
  const auto recipes = zoo::recipes();
  const bool recipe = std::any_of(recipes.begin(), recipes.end(),
                                  [&](const zoo::Recipe& r) { return r.name == args.model; });
  const bool file = zoo::is_recipe_file(args.model);
  TR_CHECK(recipe || file || args.model.empty(),
           "--lr: MODEL is {}, expected a recipe by name, FILE.toml, or none (--set alone)",
           args.model);
  if (recipe) zoo::apply_recipe(args.model, session, task);
  if (file) zoo::apply_recipe_file(args.model, session, task);
  for (const std::string& set : args.sets) {
    const std::size_t equals = set.find('=');
    TR_CHECK(equals != std::string::npos && equals > 0, "--set {}: expected key=value", set);
    task.set(set.substr(0, equals), set.substr(equals + 1));
  }
  const std::vector<double> rates = task.learning_rates(steps);
  const std::string title = args.model.empty() ? "learning rate" : "learning rate, " + args.model;
  write_file_atomically(args.lr_file, csv ? lr_csv(rates, steps) : lr_svg(rates, steps, title));
}

int run_plan(PlanArgs args) {
  args.json.probe();
  check_graph(args);
  if (!args.lr_file.empty()) {
    write_lr(args);
    if (args.batch_text.empty()) return kOk;
  }
  TR_CHECK(!args.model.empty(), "MODEL is missing, expected one of {}", model_list());
  TR_CHECK(!args.lr_file.empty() || args.sets.empty(),
           "--set is given without --lr: the plan reads no keys");
  const Planned model = planned(args.model);
  if (args.toml) {
    std::fputs(zoo::model_toml(model.model.blueprint, model.model.input).c_str(), stdout);
    return kOk;
  }
  TR_CHECK(!args.batch_text.empty(), "--batch is missing, expected the samples of a step");
  args.batch = integer("--batch", args.batch_text);
  args.budget = bytes("--budget", args.budget_text);
  const BatchLimit limit =
      expand(model.model.blueprint,
             {{"image", {model.model.input, DType::FP32}}, {"label", {Shape{}, DType::INT32}}})
          .largest_batch();
  TR_CHECK(args.batch >= 1, "--batch is {}, expected at least 1", args.batch);
  TR_CHECK(args.batch <= limit.samples, "--batch is {}, expected at most {}: {}", args.batch,
           limit.samples, limit.reason);
  constexpr std::int64_t kLargestBudget = std::int64_t{1} << 46;  // half of what can be addressed
  TR_CHECK(args.budget <= kLargestBudget, "--budget is {}, expected bytes, at most 2^46",
           args.budget);
  args.recompute = bytes("--recompute", args.recompute_text);
  const auto seconds = parse_number<double>(args.search_text);
  TR_CHECK(seconds && *seconds >= 0, "--search-seconds is \"{}\", expected 0 or more",
           args.search_text);
  args.search_seconds = *seconds;
  TR_CHECK(args.budget == 0 || args.recompute == 0,
           "--budget and --recompute are given, expected one of them");
  tell_unplanned(model, args);
  Engines engines(args);
  const CompileResult compiled =
      compile_for(args, model, args.batch, engines.table(), engines.search());
  engines.finish();
  const PlanReport report = report_plan(compiled.lowered, compiled.arch, compiled.memory);
  nlohmann::json json = nlohmann::json::parse(report.json());
  json["model"] = args.model;
  json["batch"] = args.batch;
  json["dtype"] = args.dtype;
  json["device"] = args.device;
  json["layers"] = nlohmann::json::parse(compiled.arch.json());
  json["num_params"] = compiled.arch.num_params();
  json["flops"] = compiled.arch.flops();
  std::string text =
      fmt::format("{}, batch {}, {}\n{}", args.model, args.batch, args.dtype, report.text());
  if (args.engines) {
    text += engines.text();
    json["engines"] = engines.json();
  }
  const std::string groups = model.groups_of(compiled.arch).text;
  if (!groups.empty()) text += "\nparameter groups\n" + groups;
  if (args.dtype != "fp32") {
    const GraphOptions options = graph_options_of(args, model, {});
    text += "\nprecision\n" + precision_text(compiled.arch, options);
    json["precision"] = nlohmann::json::parse(precision_json(compiled.arch, options));
  }
  json["largest_batch"] = nullptr;
  if (args.budget > 0) {
    const std::int64_t largest = largest_batch(args.budget, [&](std::int64_t batch) {
      // Engines by rank need as much room as any: nothing is measured for a guess.
      TuningTable by_rank;
      return batch == args.batch
                 ? report.peak_bytes
                 : compile_for(args, model, batch, by_rank, nullptr).memory.peak_bytes();
    });
    json["budget_bytes"] = args.budget;
    json["largest_batch"] = largest;
    text += largest > 0
                ? fmt::format("\nlargest batch within {}: {}", format_bytes(args.budget), largest)
                : fmt::format("\nwithin {} not even a batch of one sample fits",
                              format_bytes(args.budget));
  }
  if (!args.graph.empty()) write_graph(args, compiled);
  if (args.graph.size() != 1) print(args.json, text);
  args.json.write(json);
  return kOk;
}

}  // namespace

void add_plan(CLI::App& app, int& exit_code) {
  auto args = std::make_shared<PlanArgs>();
  CLI::App* command = app.add_subcommand(
      "plan", "Prints what a training step of a model needs in memory; needs no device.");
  command->add_option("MODEL", args->model, model_list() + "; or a recipe FILE.toml");
  command
      ->add_option("--batch", args->batch_text, "samples of a step; not needed with --toml or --lr")
      ->type_name("INT");
  command->add_option("--dtype", args->dtype, "fp32, fp16 or bf16")
      ->check(CLI::IsMember({"fp32", "fp16", "bf16"}))
      ->capture_default_str();
  command->add_option("--precision", args->precision,
                      "LAYER=fp32 or LAYER=low, comma between them; with --dtype fp16 or bf16");
  command->add_option("--device", args->device, "cpu or cuda")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command
      ->add_option("--budget", args->budget_text,
                   "bytes; then the largest batch that fits is found")
      ->type_name("BYTES");
  command
      ->add_option("--recompute", args->recompute_text,
                   "bytes of the arena, held by running nodes of the forward pass again")
      ->type_name("BYTES");
  command->add_flag("--toml", args->toml,
                    "print the model alone, as the table [model] of a recipe");
  command->add_flag("--engines", args->engines,
                    "print which engine runs each node that has a choice");
  command
      ->add_option("--search-seconds", args->search_text,
                   "time to measure engines in, where the GPU is there; 0: by rank")
      ->type_name("S");
  command
      ->add_option("--graph", args->graph,
                   "dot or json, and a file: the nodes of the step with stream, bytes, workspace "
                   "and edges; without a file to standard output, alone")
      ->type_name("dot|json [FILE]")
      ->expected(1, 2);
  command
      ->add_option("--lr", args->lr_file,
                   "the learning rate of every step of the recipe MODEL, as a picture (.svg) or a "
                   "table (.csv)")
      ->type_name("FILE")
      ->check(not_empty());
  command->add_option("--steps-per-epoch", args->steps_text, "steps of an epoch, for --lr")
      ->type_name("INT")
      ->capture_default_str();
  command->add_option("--set", args->sets, "key=value of docs/configuration.md, for --lr")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->allow_extra_args(false)  // else it takes the positionals behind it
      ->take_all();
  args->json.add_to(*command);
  command->callback([args, &exit_code] { exit_code = run_plan(*args); });
}

}  // namespace tr::command

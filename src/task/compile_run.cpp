// SPDX-License-Identifier: Apache-2.0
// From a request to everything that steps need: the model is checked first, then data, then all is
// compiled.
#include <algorithm>
#include <limits>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "algo/schedule.h"
#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/host_memory.h"
#include "core/human.h"
#include "core/log.h"
#include "data/sampler.h"
#include "graph/precision_plan.h"
#include "renaissance/data/datasets.h"
#include "task/compiled_run.h"
#include "task/engine_tuning.h"
#include "task/graph_options.h"
#include "task/held_data.h"
#include "task/memory_check.h"
#include "task/mixing.h"
#include "task/raw_images.h"
#include "task/sample_check.h"

namespace tr {

namespace {

using Fields = std::map<std::string, TensorType>;

constexpr int kDeviceSlots = 12;  // of the loader

DType image_dtype(const Config& config) {
  return config.global.values().low_dtype.value_or(DType::FP32);
}

TransformChain chain_of(const Config& config, bool train) {
  const PreprocessorSetting::Values& data = config.preprocessor.values();
  const GlobalSetting::Values& global = config.global.values();
  const ImageSize size = train ? global.train_resolution : global.val_resolution;
  return {train ? data.train_transforms : data.val_transforms, data.normalization, size.height,
          size.width};
}

/// [H, W, C] of an image as the configuration alone tells it: by the resolution, or of picture
/// files by the transforms, which make their sizes one.
std::optional<Shape> declared_image(const Config& config, const DatasetTraits& traits) {
  const int asked = config.preprocessor.values().color_channels;
  const int known = traits.in_files ? (asked > 0 ? asked : 3) : traits.channels;
  const int channels = known > 0 ? known : asked;
  if (channels == 0) return std::nullopt;
  TR_CHECK(asked == 0 || asked == channels, "color_channels is {}, expected {} (the images of {})",
           asked, channels, traits.name);
  const ImageSize size = config.global.values().train_resolution;
  if (size.height > 0) return Shape{size.height, size.width, channels};
  for (const bool train : {true, false}) {
    if (!traits.in_files) break;
    try {
      return chain_of(config, train).output_shape({0, 0, channels});
    } catch (const InvalidArgument&) {  // told where the data are open
    }
  }
  return std::nullopt;
}

Fields fields_of_image(const Shape& image) {
  return {{"image", {image, DType::FP32}}, {"label", {Shape{}, DType::INT32}}};
}

/// Types of one sample as far as the configuration alone tells them; empty if it does not.
Fields declared_fields(const Config& config) {
  const std::string& name = config.preprocessor.values().dataset_name;
  if (name.empty()) return {};
  const std::optional<Shape> image = declared_image(config, dataset_traits(name));
  if (!image) return {};
  return fields_of_image(*image);
}

/// The same to predict alone. @throws InvalidArgument  nothing tells it.
Fields fields_without_data(const Fields& declared, const RunRequest& request) {
  if (!declared.empty()) return declared;
  TR_CHECK(request.image,
           "there are no data, and nothing tells the shape of an image: expected input in a "
           "recipe's [model], train_resolution and val_resolution, or image_shape()");
  return fields_of_image(*request.image);
}

/// The same from a set that is open: images as the chain leaves them, other fields as they are.
Fields fields_of(const Dataset& set, const TransformChain& chain) {
  Fields fields;
  for (const Field& field : set.fields()) {
    TensorType type = field.type;
    if (field.name == "image" && type.dtype == DType::UINT8) {
      type = {chain.output_shape(type.shape), DType::FP32};
    } else if (field.name == "image") {
      const Normalization& norm = chain.normalization;
      TR_CHECK(chain.transforms.empty() && norm.mode == NormMode::NO_NORM && norm.mean.empty(),
               "the field \"image\" of {} is {} and is taken as it is, expected uint8 pixels for "
               "{}",
               set.name(), type, chain.str());
    }
    fields[field.name] = type;
  }
  return fields;
}

/// The same as the loader feeds them: floating images in the low dtype of amp.
Fields fed(Fields fields, const Config& config) {
  const auto image = fields.find("image");
  if (image != fields.end() && is_floating(image->second.dtype))
    image->second.dtype = image_dtype(config);
  return fields;
}

/// The first objective's loss is what validation reports; top-1 of it means nothing while others
/// train too.
void add_objectives(const TrainOptions& train, CompileRequest& request) {
  const std::vector<Objective>& objectives = train.objectives;
  int term = 0;
  for (const Objective& objective : objectives) {
    const Scheduler& scheduler = objective.scheduler ? *objective.scheduler : train.scheduler;
    const int group = int(request.objectives.size());
    request.objectives.push_back({objective.trains, loss_spec(objective.loss, term),
                                  optimizer_spec(objective.optimizer, scheduler, group)});
    term += int(objective.loss.terms.size());
  }
  if (objectives.empty()) return;
  request.loss = request.objectives.front().loss;
  request.loss.classification = false;
}

void check_objectives(const ArchPlan& arch, const std::vector<Objective>& objectives) {
  if (objectives.empty()) return;
  for (const Param& param : arch.params) {
    if (param.spec.kind == ParamKind::BUFFER) {
      throw_as<Unsupported>(
          "objectives: several in a task do not go with batch norm's running statistics (\"{}\")",
          param.name);
    }
  }
  for (const Objective& objective : objectives) {
    const bool any = std::any_of(arch.params.begin(), arch.params.end(), [&](const Param& param) {
      return param.name.starts_with(objective.trains);
    });
    TR_CHECK(any, "objective: no parameter's name starts with \"{}\"; the first is \"{}\"",
             objective.trains, arch.params.empty() ? "" : arch.params.front().name);
  }
}

void check_frozen_names(const ArchPlan& arch, const std::vector<Freeze>& rules) {
  for (const Freeze& rule : rules) {
    const bool any = std::any_of(arch.params.begin(), arch.params.end(), [&](const Param& param) {
      return param.name.starts_with(rule.prefix);
    });
    TR_CHECK(any, "freeze: no parameter's name starts with \"{}\"; the first is \"{}\"",
             rule.prefix, arch.params.empty() ? "" : arch.params.front().name);
  }
}

void check_not_matrices(const ArchPlan& arch, const Optimizer& optimizer) {
  if (!moves_matrices(optimizer.kind)) return;
  for (const std::string& prefix : optimizer.not_matrices) {
    const bool any = std::any_of(arch.params.begin(), arch.params.end(), [&](const Param& param) {
      return param.name.starts_with(prefix);
    });
    TR_CHECK(any, "not_matrices: no parameter's name starts with \"{}\"; the first is \"{}\"",
             prefix, arch.params.empty() ? "" : arch.params.front().name);
  }
}

ResolvedGroups groups_of(const ArchPlan& arch, const TrainOptions& train) {
  return resolve_groups(arch, train.groups, train.scheduler.base_lr, train.optimizer);
}

/// Refuses the model before any file is opened: shapes, kernels, frozen names, rules of precision,
/// groups.
ArchPlan check_model(const RunRequest& request, const Fields& fields, const KernelOracle& oracle) {
  ArchPlan arch = expand(request.model, fields);
  check_kernels_exist(arch, oracle);
  check_frozen_names(arch, request.config.train.freeze);
  check_not_matrices(arch, request.config.train.optimizer);
  check_objectives(arch, request.config.train.objectives);
  plan_precision(arch, graph_options(request.config, BatchPlan{}, FreezePlan{}));
  groups_of(arch, request.config.train);
  return arch;
}

DatasetPair open_data(const Config& config) {
  const PreprocessorSetting::Values& data = config.preprocessor.values();
  TR_CHECK(!data.dataset_name.empty(),
           "no data: call PREPROCESSOR_SETTING.dataset(name, path) or the task's dataset(...)");
  return open_dataset(data.dataset_name, data.dataset_path,
                      {.download = data.download,
                       .val_fraction = data.val_fraction,
                       .color_channels = data.color_channels,
                       .read_timeout_s = data.read_timeout_s});
}

VariantTable variants_of(const CompiledRun& run, const BatchPlan& batches) {
  return {batches, run.sizes, run.fields, run.variant_options()};
}

void set_batches(CompileRequest& request, const CompiledRun& run, const BatchPlan& batches) {
  request.graph = graph_options(run.config, batches, run.freezes, run.groups);
  request.graph.raw_images = run.raw_images;
  request.variants = variants_of(run, batches).keys();
}

/// Bytes of a rank's arena with other batches; more than there is where memory_budget refuses them.
/// Engines by rank need as much room as any: nothing is measured for a guess.
std::int64_t peak_of(CompileRequest request, const CompiledRun& run, const BatchPlan& batches,
                     const KernelLicence& licence) {
  set_batches(request, run, batches);
  TuningTable by_rank;
  const auto oracle = make_kernel_oracle(run.device.kind, by_rank, licence);
  try {
    return compile(request, *oracle).memory.peak_bytes();
  } catch (const OutOfMemory&) {
    return std::numeric_limits<std::int64_t>::max();
  }
}

/// One model takes the images of both splits: a size that differs must suit it.
void check_both_splits(const RunRequest& request, const CompiledRun& run, const ArchPlan& arch,
                       const Fields& train) {
  if (!run.data.train || !run.data.val) return;
  const Fields val = fields_of(*run.data.val, run.val_chain);
  const auto image = train.find("image"), other = val.find("image");
  if (image == train.end() || other == val.end()) return;
  if (image->second.shape == other->second.shape) return;
  const auto refuse = [&](const std::string& reason) {
    throw_as<InvalidArgument>(
        "training's images come out of the transforms as {}, validation's as {}, and the model "
        "does not take both: {}",
        image->second.shape, other->second.shape, reason);
  };
  std::vector<Param> params;
  try {
    params = expand(request.model, val).params;
  } catch (const InvalidArgument& error) {
    refuse(error.what());
  }
  for (std::size_t p = 0; p < params.size(); ++p) {
    const TensorType &have = arch.params[p].spec.type, &need = params[p].spec.type;
    if (have != need)
      refuse(fmt::format("{} is {} for training, {} for validation", params[p].name, have, need));
  }
}

/// The model was sound for two samples: what is wrong now may be that an epoch ends with one.
CompileResult compile_variants(const CompileRequest& request, const CompiledRun& run,
                               const KernelOracle& oracle) {
  try {
    return compile(request, oracle);
  } catch (const InvalidArgument& error) {
    const auto& keys = run.variants.keys();
    const bool single = std::any_of(keys.begin(), keys.end(), [](const VariantKey& key) {
      return key.mode == Mode::TRAIN && key.batch == 1;
    });
    if (!single || run.batches.local == 1) throw;
    throw_as<InvalidArgument>(
        "{}\n  an epoch of {} samples in batches of {} ends with a batch of 1 sample on a rank: "
        "drop_last=true leaves it out, another batch size avoids it",
        error.what(), run.sizes.train, run.batches.global);
  }
}

/// accumulate_steps=auto: cuts the local batch into as few parts as fit, and records their number.
void choose_accumulation(CompiledRun& run, const CompileRequest& request,
                         const MemoryBudget& budget, const KernelLicence& licence) {
  const int parts = fitting_cut(run.batches, budget.bytes, [&](const BatchPlan& other) {
    return peak_of(request, run, other, licence);
  });
  const std::int64_t whole = run.batches.local;
  // Where nothing fits, the smallest parts are compiled: the refusal is theirs.
  run.batches = cut(run.batches, parts > 0 ? parts : possible_cuts(run.batches).back());
  run.config.global.accumulate_steps(run.batches.accumulate_steps)
      .global_batch_size(run.batches.global)
      .local_batch_size(run.batches.local);
  if (parts == 1) {
    log_info("accumulate_steps: auto takes 1, the local batch of {} fits", whole);
  } else {
    log_info("accumulate_steps: auto takes {}, micro-batches of {} of the local batch of {}; {}",
             run.batches.accumulate_steps, run.batches.local, whole, budget.reason);
  }
}

/// CPVS, where the processed samples take a quarter of the host's memory at most: each rank keeps
/// those it may need.
bool decide_keep_processed(const CompiledRun& run) {
  if (!run.config.preprocessor.values().cpvs || !run.data.val) return false;
  constexpr std::int64_t kMostOfMemory = 4;
  std::int64_t sample_bytes = 0;
  for (const auto& [field, type] : run.fields.eval) sample_bytes += bytes_of(type);
  const std::int64_t bytes = sample_bytes * run.sizes.val * run.batches.world_size;
  const std::int64_t most = host_memory_bytes() / kMostOfMemory;
  if (bytes <= most) return true;
  log_info("the processed validation set is not kept: it has {}, a quarter of the memory is {}",
           format_bytes(bytes), format_bytes(most));
  return false;
}

/// @throws Unsupported  the data must stay on the device and cannot.
bool decide_data_on_device(const CompiledRun& run, const MemoryBudget& budget) {
  const DataPlace place = run.config.preprocessor.values().place;
  if (place == DataPlace::HOST || (!run.data.train && !run.data.val)) return false;
  const std::string reason = why_not_on_device(run, budget.bytes);
  if (reason.empty()) return true;
  const bool on_host = run.device.kind != DeviceKind::CPU && !run.raw_images;
  if (run.config.preprocessor.values().normalize_on == DataPlace::DEVICE && on_host) {
    throw_as<Unsupported>(
        "normalize_on is device, and the data were expected to stay there, but {}; expected "
        "data_place=host",
        reason);
  }
  if (place == DataPlace::DEVICE) {
    throw_as<Unsupported>("data_place is device, but the data cannot stay there: {}", reason);
  }
  if (run.device.kind != DeviceKind::CPU) log_info("the loader feeds the device: {}", reason);
  return false;
}

/// What watches a metric must be able to see it.
void check_metrics(const CompiledRun& run) {
  if (!run.data.train) return;
  const auto check = [&](const char* who, const std::string& metric) {
    const bool validated = metric != "train_loss" && metric != "train_top1";
    const bool classes = metric != "train_loss" && metric != "val_loss";
    TR_CHECK(metric != "macro_f1" || run.config.train.confusion_matrix,
             "{}: it watches macro_f1, which needs confusion_matrix", who);
    TR_CHECK(!validated || run.data.val, "{}: it watches {}, but the data have no validation set",
             who, metric);
    TR_CHECK(!classes || run.classification,
             "{}: it watches {}, but the loss {} is not one of classes", who, metric,
             run.config.train.loss.name());
  };
  const TrainOptions& train = run.config.train;
  if (!train.early_stop.metric.empty()) check("early_stop", train.early_stop.metric);
  TR_CHECK(!train.confusion_matrix || (run.data.val && run.classification),
           "confusion_matrix: expected a validation set and a loss of classes (the loss is {})",
           train.loss.name());
  if (train.scheduler.kind == Scheduler::Kind::PLATEAU)
    check("scheduler plateau", train.scheduler.plateau.metric);
}

void announce(const CompiledRun& run) {
  if (!run.device.announcement.empty()) log_info("{}", run.device.announcement);
  for (const std::string& note : ineffective_options(run.config, run.device.kind)) {
    log_info("no effect here: {}", note);
  }
  const TrainOptions& train = run.config.train;
  if (run.data.train && !run.data.val)
    log_info("validation is off: the data have no validation split");
  if (!run.groups.text.empty()) log_info("parameter groups\n{}", run.groups.text);
  if (!train.precision.empty()) {
    log_info(
        "precision by layer\n{}",
        precision_text(run.compiled.arch, graph_options(run.config, run.batches, run.freezes)));
  }
  if (run.mixed_classes > 0) {
    log_info(
        "{}: labels are mixed with the images; training's top-1 and top-5 count the heavier "
        "label of each sample",
        run.train_chain.str());
  }
  const std::string notice = schedule_notice(train.scheduler, train.total_epochs);
  if (!notice.empty()) log_info("{}", notice);
}

}  // namespace

data::LoaderConfig CompiledRun::loader_config(int rank) const {
  const PreprocessorSetting::Values& settings = config.preprocessor.values();
  data::LoaderConfig loader;
  const std::int64_t eval_batch = batches.local * batches.world_size;
  loader.train = {.dataset = data.train,
                  .transforms = train_chain,
                  .batch_size = batches.local,
                  .global_batch = batches.global,
                  .shuffle = settings.shuffle_train,
                  .drop_last = settings.drop_last,
                  .mixed_classes = mixed_classes};
  loader.val = {.dataset = data.val,
                .transforms = val_chain,
                .batch_size = batches.local,
                .global_batch = eval_batch,
                .cache_processed = keep_processed_val};
  loader.image_dtype = image_dtype(config);
  loader.raw_images = raw_images.has_value();
  // Some batches are on their way to a device while others are filled.
  if (device.kind != DeviceKind::CPU) loader.num_slots = kDeviceSlots;
  loader.seed = config.global.values().seed;
  const auto of_rank = [&](int threads) { return std::max(1, threads / batches.world_size); };
  if (settings.preprocess_workers > 0) loader.num_workers = of_rank(settings.preprocess_workers);
  if (settings.load_workers > 0) loader.num_readers = of_rank(settings.load_workers);
  loader.bind_threads = settings.cpu_binding;
  loader.rank = rank;
  loader.world_size = batches.world_size;
  loader.full_memory = sets_in_memory;
  loader.decode = {.exif = settings.exif,
                   .decode_crop_only = settings.decode_crop_only,
                   .dct_scaling = settings.dct_scaling,
                   .fast_dct = settings.fast_dct,
                   .remember_rows = settings.remember_rows};
  loader.bad_samples = bad_samples;
  return loader;
}

std::vector<data::StreamPhase> plan_phases(const TrainOptions& options, bool has_val) {
  std::vector<data::StreamPhase> phases;
  for (int e = 1; e <= options.total_epochs; ++e) {
    phases.push_back({data::Split::TRAIN, e - 1});
    const int since = e - options.validate_offset;
    const bool due = since >= 0 && since % options.validate_interval == 0;
    if (has_val && (due || e == options.total_epochs)) phases.push_back({data::Split::VAL, e - 1});
  }
  return phases;
}

CompiledRun compile_run(const RunRequest& request) {
  CompiledRun run;
  run.config = request.config;
  run.tuning = request.tuning;
  validate(run.config);
  if (run.config.preprocessor.values().fully)
    run.sets_in_memory = std::make_shared<data::SetsInMemory>();
  TR_CHECK(request.model.node(), "the task has no model: call model(...) first");
  run.device = resolve_device(run.config.global.values().device);
  check_ranks(run.config.global.values().cpu_ranks, run.device);
  // What was chosen is what the run was made with: a resume may name it.
  if (run.device.kind == DeviceKind::CPU) run.config.global.use_cpu();
  const bool tf32 = run.config.global.values().tf32 && run.device.kind == DeviceKind::CUDA;
  const GlobalSetting::Values& global = run.config.global.values();
  EngineTuning engines({.search_seconds = global.search_seconds, .cache = global.tuning_cache},
                       run.device.kind, run.device.gpus.empty() ? 0 : run.device.gpus.front());
  const KernelLicence licence{.tf32 = tf32,
                              .unrepeatable = !global.deterministic,
                              .keep_gradients = run.config.train.keep_gradients};
  const auto oracle = make_kernel_oracle(run.device.kind, run.tuning, licence, engines.search());
  const Fields declared = declared_fields(run.config);
  if (!request.has_data && !declared.empty()) check_model(request, declared, *oracle);

  const Stopwatch opening;
  run.data = request.has_data ? request.data : open_data(run.config);
  run.open_ms = opening.ms();
  if (!request.train) run.data.train = nullptr;
  TR_CHECK(!request.train || run.data.train, "the data have no training set");
  run.train_chain = chain_of(run.config, true);
  run.val_chain = chain_of(run.config, false);
  Fields fields = declared;
  const Dataset* any = run.data.train ? run.data.train.get() : run.data.val.get();
  if (any) {
    run.data_name = any->name();
    fields = fields_of(*any, run.data.train ? run.train_chain : run.val_chain);
    run.fields.predict =
        fed(run.data.val ? fields_of(*run.data.val, run.val_chain) : fields, run.config);
  } else {
    fields = fields_without_data(declared, request);
    run.fields.predict = fed(fields, run.config);
  }
  const ArchPlan arch = check_model(request, fields, *oracle);
  check_both_splits(request, run, arch, fields);
  run.groups = groups_of(arch, run.config.train);
  LossSpec loss = loss_spec(run.config.train.loss);
  if (run.data.train) {
    run.mixed_classes = mix_labels(run.train_chain, run.config.train.loss, arch, fields, loss);
  }
  run.fields.train = fed(fields, run.config);
  run.fields.eval = run.fields.predict;

  run.batches = plan_batches(run.config.global.values(), run.config.global.values().cpu_ranks);
  run.sizes = {run.data.train ? run.data.train->num_samples() : 0,
               run.data.val ? run.data.val->num_samples() : 0,
               run.config.preprocessor.values().drop_last};
  run.raw_images = decide_raw_images(run);
  run.freezes = plan_freezes(run.config.train.freeze, run.config.train.total_epochs);

  CompileRequest compile_request;
  compile_request.model = request.model;
  compile_request.sample_fields = fields;
  compile_request.loss = std::move(loss);
  compile_request.optimizer =
      optimizer_spec(run.config.train.optimizer, run.config.train.scheduler, 0, run.groups.momenta);
  add_objectives(run.config.train, compile_request);
  compile_request.memory.recompute_bytes = run.config.train.memory_budget;
  const MemoryBudget budget = memory_budget(run.config, run.device);
  if (global.accumulate_auto) choose_accumulation(run, compile_request, budget, licence);
  check_batches(run.batches, global, arch);
  set_batches(compile_request, run, run.batches);
  run.variants = variants_of(run, run.batches);
  run.classification = compile_request.loss.classification;
  run.compiled = compile_variants(compile_request, run, *oracle);
  engines.finish();
  const PreprocessorSetting::Values& data = run.config.preprocessor.values();
  run.bad_samples = std::make_shared<data::BadSamples>(data.bad_samples, data.bad_sample_limit);
  check_samples(run);
  check_metrics(run);

  const auto steps_of = [](std::int64_t samples, std::int64_t batch, bool drop) {
    return drop ? samples / batch : (samples + batch - 1) / batch;
  };
  run.train_steps = steps_of(run.sizes.train, run.batches.global, run.sizes.drop_last);
  run.val_steps = steps_of(run.sizes.val, run.batches.local * run.batches.world_size, false);
  if (run.data.train) {
    check_rates(run.config.train.scheduler, run.train_steps, run.config.train.total_epochs);
    for (const Objective& objective : run.config.train.objectives) {
      if (objective.scheduler)
        check_rates(*objective.scheduler, run.train_steps, run.config.train.total_epochs);
    }
  }
  run.keep_processed_val = decide_keep_processed(run);
  run.data_on_device = decide_data_on_device(run, budget);
  check_memory(run, budget, run.data_on_device ? held_bytes(run) : 0, [&](const BatchPlan& other) {
    return peak_of(compile_request, run, other, licence);
  });
  if (run.data.train) run.phases = plan_phases(run.config.train, run.data.val != nullptr);
  announce(run);
  return run;
}

}  // namespace tr

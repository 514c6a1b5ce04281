// SPDX-License-Identifier: Apache-2.0
#include "correction/golden_run.h"

#include <algorithm>

#include "renaissance/core/log.h"
#include "renaissance/task/progress.h"
#include "support/temp_folder.h"

namespace tr::test {
namespace {

/// Entries "PREFIX.NAME" under their bare names.
std::vector<NamedTensor> entries(const SafetensorsFile& file, const std::string& prefix) {
  std::vector<NamedTensor> found;
  for (const NamedTensor& entry : file.tensors) {
    if (entry.name.starts_with(prefix)) {
      found.push_back({entry.name.substr(prefix.size()), entry.tensor});
    }
  }
  return found;
}

Scheduler schedule_of(const RunOptions& options) {
  if (!options.cosine) return ConstantLR().base_lr(options.lr).warmup(options.warmup);
  return CosineAnnealingLR().base_lr(options.lr).eta_min(0).warmup(options.warmup);
}

}  // namespace

void silence() {
  set_progress_sink({});
  set_log_sink([](LogLevel, std::string_view) {});
}

std::shared_ptr<const Dataset> dataset_of(const SafetensorsFile& file) {
  const std::vector<NamedTensor> fields = entries(file, "field.");
  int classes = 0;
  for (const NamedTensor& field : fields) {
    if (field.name == "label") classes = 5;
  }
  return make_tensor_dataset(fields, classes);
}

Session session_of(const RunOptions& options) {
  Session session;
  session.global.threads(options.threads)
      .cpu_ranks(options.ranks)
      .accumulate_steps(options.micro_batches)
      .local_batch_size(options.batch);
  if (kRunDevice == DeviceKind::CPU) {
    session.global.use_cpu();
  } else {
    session.global.use_gpu("0").search_seconds(0);
  }
  if (!options.amp.empty()) session.global.amp(dtype_from_name(options.amp));
  session.preprocessor.shuffle_train(false).preprocess_workers(options.workers);
  return session;
}

void set_up(DeepLearningTask& task, const GoldenTask& what, const RunOptions& options,
            const std::string& weights_path) {
  silence();
  save_safetensors(weights_path, {entries(what.file, "initial."), {}});
  task.session(session_of(options))
      .dataset({dataset_of(what.file), nullptr})
      .model(what.model)
      .loss(what.loss)
      .optimizer(what.optimizer)
      .param_groups(options.groups)
      .scheduler(schedule_of(options))
      .total_epochs(options.epochs)
      .load_weights(weights_path);
}

GoldenRun train(const SafetensorsFile& file, const BluePrint& model, const Loss& loss,
                const Optimizer& optimizer, const RunOptions& options) {
  const TempFolder folder;
  GoldenRun run;
  std::vector<float> losses;
  Callbacks callbacks;
  callbacks.on_step = [&](DeepLearningTask&, std::int64_t step, double mean, double) {
    losses.resize(std::max(losses.size(), std::size_t(step)));
    losses[std::size_t(step) - 1] = float(mean);
  };
  DeepLearningTask task;
  set_up(task, {file, model, loss, optimizer}, options, folder.path("initial.safetensors"));
  task.callbacks(std::move(callbacks));
  if (options.clip_norm > 0) task.grad_clip(options.clip_norm, ClipKind::NORM);
  if (options.clip_value > 0) task.grad_clip(options.clip_value, ClipKind::VALUE);
  if (options.ema_decay > 0) task.use_ema(options.ema_decay);
  task.compile(CompileInfo::NONE);
  run.result = task.run();
  run.losses = Tensor::from({std::int64_t(losses.size())}, losses);
  for (const NamedTensor& entry : entries(file, "final.")) {
    run.weights.push_back({entry.name, task.fetch(entry.name)});
    if (options.ema_decay > 0) run.ema.push_back({entry.name, task.fetch("ema/" + entry.name)});
  }
  return run;
}

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "renaissance/algo/initializer.h"
#include "renaissance/algo/loss.h"
#include "renaissance/algo/matrix_optimizers.h"  // IWYU pragma: export
#include "renaissance/algo/optimizer.h"
#include "renaissance/algo/param_group.h"
#include "renaissance/algo/scheduler.h"
#include "renaissance/core/export.h"
#include "renaissance/core/types.h"
#include "renaissance/data/dataset.h"
#include "renaissance/graph/blueprint.h"
#include "renaissance/task/control.h"
#include "renaissance/task/result.h"
#include "renaissance/task/setting.h"
#include "renaissance/task/step_times.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

class DeepLearningTask;

/// Functions that a run calls between steps; they may call fetch(), scale_lr(), cancel(),
/// save_weights() of the task.
struct Callbacks {
  /// After each optimizer step: its 1-based number over the whole run, mean loss of its batch, its
  /// lr. A step waits for it, and loss is measured at each step as long as it is set.
  std::function<void(DeepLearningTask&, std::int64_t step, double loss, double lr)> on_step;
  /// After each epoch, its validation included.
  std::function<void(DeepLearningTask&, const EpochRecord&)> on_epoch;
};

enum class ClipKind : std::uint8_t { NORM, VALUE };
enum class WeightKind : std::uint8_t { CURRENT, EMA };

/// What one op of the compiled step takes.
struct OpTime {
  std::string op;      // "003 fc 2": its number, the op, the layer
  double seconds = 0;  // on a GPU as a node of the step's graph
};

/// Trains, evaluates and applies one model. Setters are legal before compile(), which snapshots the
/// session, applies TR_OVERRIDE, checks everything and takes all memory; run() and the rest are
/// legal after it. docs/configuration.md lists every option with its key. Of a task that was moved
/// from every call throws InvalidArgument; it may be destroyed, or be assigned another one.
class TR_API DeepLearningTask {
 public:
  DeepLearningTask();
  ~DeepLearningTask();
  /// @throws InvalidArgument  a task moves, or is replaced, while it runs: in one of its callbacks.
  DeepLearningTask(DeepLearningTask&& other);             // NOLINT(*-noexcept-move-*): it throws
  DeepLearningTask& operator=(DeepLearningTask&& other);  // NOLINT(*-noexcept-move-*): it throws

  DeepLearningTask& model(const BluePrint& model);
  DeepLearningTask& loss(const Loss& loss);
  DeepLearningTask& optimizer(const Optimizer& optimizer);
  /// Rates of parts of the model, in place of former groups. @throws InvalidArgument  a group is
  /// not valid; at compile(): one matches nothing, or two contradict each other. @throws
  /// Unsupported at compile(): with objectives().
  DeepLearningTask& param_groups(const std::vector<ParamGroup>& groups);
  /// Several losses and optimizers in turn, as a GAN has them, instead of loss() and optimizer().
  /// Validation reports the first one's loss, training their sum. Parameters that none of them
  /// trains stand still. @throws InvalidArgument  an objective is not valid; at compile(): two
  /// train the same parameter, or one trains none. @throws Unsupported at compile(): with fp16,
  /// accumulation, several ranks, or batch norm.
  DeepLearningTask& objectives(const std::vector<Objective>& objectives);
  DeepLearningTask& scheduler(const Scheduler& scheduler);
  DeepLearningTask& initializer(const Initializer& initializer);
  /// @throws InvalidArgument  n < 1.
  DeepLearningTask& total_epochs(int n);
  /// Validates after epochs e (1-based) with e >= offset and (e - offset) divisible by interval,
  /// and after the last one. @throws InvalidArgument  interval < 1 or offset < 0.
  DeepLearningTask& validate_every(int interval, int offset = 0);
  /// Ends the run once top-1 (a fraction) reaches the threshold. @throws InvalidArgument  outside
  /// (0, 1].
  DeepLearningTask& early_stop_by_top1(double threshold);
  /// Ends the run when a metric gets no better. @throws InvalidArgument  an unknown metric,
  /// patience < 1 or min_delta < 0; at compile(): no epoch has the metric.
  DeepLearningTask& early_stop(const EarlyStop& stop);
  /// Columns of the epoch table.
  DeepLearningTask& metrics(Metric columns);
  /// The second accuracy, "top5", counts a sample whose label is among the k largest scores.
  /// @throws InvalidArgument  k < 1.
  DeepLearningTask& top_k(int k);
  /// Validation counts predictions by class: EvalResult::confusion, EpochRecord::macro_f1.
  DeepLearningTask& confusion_matrix(bool on = true);
  /// Scales the gradient to a global norm of at most `limit`, or clamps each element to [-limit,
  /// limit]; acts on unscaled, reduced gradients. @throws InvalidArgument  limit <= 0.
  DeepLearningTask& grad_clip(float limit, ClipKind kind = ClipKind::NORM);
  /// Averages weights, e = decay * e + (1 - decay) * w per update; validation then uses the
  /// average.
  /// @throws InvalidArgument  decay outside (0, 1).
  DeepLearningTask& use_ema(float decay = 0.999f);
  /// Keeps the weights of the best epoch as `path` (safetensors).
  DeepLearningTask& save_best(const std::string& path);
  /// Writes a full checkpoint into `folder` every `epochs` epochs and at the end, and on SIGTERM
  /// and SIGINT; the newest `keep_last` and the best one stay. @throws InvalidArgument  a number
  /// < 1.
  DeepLearningTask& save_every(const std::string& folder, int epochs = 1, int keep_last = 2);
  /// Continues from the newest sound checkpoint of save_every's folder (or of `folder`): damaged
  /// ones are passed over, announced; it is an error if all are, or if one cannot be read. In a
  /// folder without any the run starts afresh, announced. On a finished run, run() returns that
  /// run's result. @throws InvalidArgument at compile(): a setting that decides what is computed,
  /// the model or the number of training samples is another one.
  DeepLearningTask& resume(const std::string& folder = "");
  /// Weights that training starts from. Strict: names and shapes must match exactly, unless
  /// `strict` is off (then what matches is loaded, and the rest is listed).
  DeepLearningTask& load_weights(const std::string& path, bool strict = true);
  /// Parameters whose name starts with the prefix are not trained in epochs first_epoch ..
  /// last_epoch (1-based; 0: to the end). May be called again, for further ones.
  /// @throws InvalidArgument  first_epoch < 1 or last_epoch before it; at compile(): no parameter's
  /// name starts so.
  DeepLearningTask& freeze(const std::string& prefix, int first_epoch = 1, int last_epoch = 0);
  /// Holds the arena of a rank within `bytes`: nodes of the forward pass run again in the backward
  /// pass, the cheapest for their bytes first, instead of keeping what they made. Results have the
  /// same bytes; a step takes longer. CompileInfo::MEMORY_PLAN shows what runs again.
  /// @throws InvalidArgument  bytes < 1. OutOfMemory at compile(): the budget cannot be reached
  /// (the smallest that can is named).
  DeepLearningTask& memory_budget(std::int64_t bytes);
  /// The layer of that name, or all whose names begin with it and a dot, or all ("") compute in
  /// fp32 or in amp's dtype, whatever their ops do by definition (docs/numerics.md). The last call
  /// that matches a layer holds. @throws InvalidArgument  at compile(): no such layer; LOW without
  /// amp or for a layer whose result is fp32 by definition.
  DeepLearningTask& precision(const std::string& layer, LayerDType dtype);
  /// JSON lines: one a step every `every_steps` (0: none), one an epoch.
  DeepLearningTask& log_file(const std::string& path, int every_steps = 0);
  DeepLearningTask& callbacks(Callbacks callbacks);
  /// Settings of this task alone, instead of the default session's.
  DeepLearningTask& session(const Session& session);
  /// Data from memory or of the user's own Dataset class, instead of a named set.
  DeepLearningTask& dataset(const DatasetPair& data);
  /// Of a task that is compiled without data, dataset({}), to predict: [H, W, C] of an image as the
  /// model takes it, where the settings (resolution, set, transforms) do not tell it.
  DeepLearningTask& image_shape(const Shape& shape);
  /// One `key=value` of docs/configuration.md; wins over setters and settings, loses to
  /// TR_OVERRIDE.
  /// @throws InvalidArgument  an unknown key (the message gives the nearest one) or a value that
  /// cannot be read.
  DeepLearningTask& set(const std::string& key, const std::string& value);

  /// Checks the model first (shapes, kernels), then data and transforms, then compiles every
  /// variant and takes all memory. `info` says what of the result is logged.
  /// @throws InvalidArgument, Unsupported, DataError, OutOfMemory, DeviceError
  DeepLearningTask& compile(CompileInfo info = CompileInfo::ARCH_PLAN);

  /// Trains to the last epoch. May be called again only after cancel() or a signal: it goes on.
  /// @throws DataError        a sample cannot be read, or has NaN or an infinity (both named).
  /// @throws InvalidArgument  without a loss scale (amp fp16), the first step whose gradient is not
  /// finite; with one, 20 in a row at scale 1. Names the layer; the weights are those before it.
  TrainingResult run();
  /// Loss and accuracy on the validation set, of the averaged weights where EMA is on.
  /// @throws DataError  as run().
  EvalResult evaluate();
  /// The model's outputs for a batch of samples: [n, ...] as the network sees them (floating,
  /// normalised), any n.
  Tensor predict(const Tensor& batch);
  /// predict() for UINT8 images [n, H, W, C]: through the validation transforms first.
  Tensor predict_images(const Tensor& images);
  /// predict() for picture files (JPEG, PNG), read and transformed as those of a validation set.
  /// @throws DataError  a file cannot be read or is no sound picture; whatever bad_sample_policy
  /// is.
  Tensor predict_pictures(const std::vector<std::string>& paths);
  /// Copy of a tensor by name: a parameter ("0.weight", in file layout), "ema/0.weight",
  /// "loss_scale", "counters", or any tensor of the training step, which then runs up to it once
  /// more on the last batch.
  Tensor fetch(const std::string& name);
  /// Every learning rate from the next step on is the schedule's times `factor` and times the
  /// factors of earlier calls. For callbacks: on_epoch, and on_step of a single rank; a checkpoint
  /// holds the product. @throws InvalidArgument  negative or not finite, or in on_step of several
  /// ranks.
  void scale_lr(double factor);
  /// Writes the weights as safetensors under PyTorch's names and layouts.
  void save_weights(const std::string& path, WeightKind kind = WeightKind::CURRENT) const;
  /// Ends run() at the next step boundary; callable from any thread, at any time. Where none is
  /// under way it ends the next one before its first step. It ends one run: the one after goes on.
  void cancel();

  /// The schedule's learning rate of every step, were an epoch that many steps (at least 1); legal
  /// before compile() too. What metrics and scale_lr() make of it is not in it.
  std::vector<double> learning_rates(std::int64_t steps_per_epoch) const;

  Phase phase() const;
  /// Effective configuration as JSON, keys as in docs/configuration.md; after compile().
  std::string config_json() const;
  /// Milliseconds that compile() took, without those to open the data set.
  double compile_ms() const;
  /// The set that is used: "mnist", "procedural", "memory" ...; after compile().
  std::string data_name() const;
  /// What is not finite in the training step that ran last, over its ranks and micro-batches: a
  /// sample of the data with its number, or else the first parameter or layer with its place; empty
  /// if all is finite. Runs the step's nodes again.
  std::string find_nan();
  /// Time of each op of a training step, in the order of the step, measured now on zeros. Weights
  /// and all other state stay as they are.
  std::vector<OpTime> profile();
  /// Times of the first `timed_steps` steps of run(), by variant; empty if none was timed.
  std::vector<VariantTimes> step_times() const;
  /// The compiled steps of all variants: nodes with op, layer, stream, bytes and edges; with
  /// microseconds where steps were timed.
  std::string graph(GraphFormat format) const;
  /// Memory that compile() took.
  DeviceMemory memory() const;

  struct Impl;

 private:
  Impl& impl() const;  // @throws InvalidArgument  the task was moved from
  void check_movable() const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tr

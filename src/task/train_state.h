// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "algo/plateau.h"
#include "renaissance/task/result.h"
#include "renaissance/tensor/safetensors.h"
#include "task/rank.h"

namespace tr {

/// Where a run stands, beside its tensors: what a checkpoint's JSON holds.
struct TrainState {
  std::int64_t phase = 0;         // index of the run's phases
  std::int64_t step = 0;          // next step within it
  std::int64_t total_steps = 0;   // optimizer steps done in the whole run
  EpochRecord epoch;              // the one under way
  Totals epoch_totals;            // its sums so far
  double train_seconds = 0;       // training phases of the epoch so far
  std::int64_t train_images = 0;  // of the whole run
  double all_train_seconds = 0;
  std::vector<EpochRecord> history;
  double best_top1 = 0, best_top5 = 0;
  double best_loss = 0;  // of validation, where there is no accuracy
  int best_epoch = -1;
  bool finished = false;       // last epoch or early stop
  bool stopped_early = false;  // by a metric: more epochs do not go on
  double lr_factor = 1;        // of every rate, by the user
  PlateauState plateau;
  WatchState early_stop;
  /// Weights and buffers of the best epoch, where they are to be restored (EarlyStop).
  std::vector<NamedTensor> best_model;

  std::string to_json(const CompiledRun& run, const std::string& model_digest) const;
};

/// What state_from_json() reads back.
struct SavedState {
  TrainState state;            // phase is not set: the list of phases may have grown
  bool in_validation = false;  // training of epoch history.size() + 1 is done
  TuningTable tuning;
  std::string model_digest;
  std::string config;                                 // JSON
  std::int64_t train_samples = -1, val_samples = -1;  // of the set; -1: an older file, not known
};

/// @throws DataError  not such a text.
SavedState state_from_json(const std::string& text, const std::string& source);

/// One line for each configuration key that decides what is computed and differs from the saved
/// one.
std::vector<std::string> numeric_differences(const std::string& saved_config, const Config& now);

/// Digest of the model's names, ops, attributes and shapes.
std::string model_digest(const ArchPlan& plan);

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algo/param_groups.h"
#include "backend/tuning_table.h"
#include "data/loader.h"
#include "graph/compiler.h"
#include "task/batch_plan.h"
#include "task/config.h"
#include "task/device.h"
#include "task/freeze_plan.h"

namespace tr {

/// What a task is made from, before anything is decided.
struct RunRequest {
  Config config;
  BluePrint model = BluePrint(nullptr);
  DatasetPair data;  // empty: the named set of the configuration
  bool has_data = false;
  std::optional<Shape> image;  // [H, W, C] without data, where the configuration does not tell it
  bool train = true;           // false: only to evaluate and predict
  TuningTable tuning;          // measured choices of the run that is continued
};

/// Everything that compile() decides; constant afterwards, shared by all ranks.
struct CompiledRun {
  Config config;
  ResolvedDevice device;
  DatasetPair data;
  std::string data_name;
  TransformChain train_chain, val_chain;
  ModeFields fields;
  BatchPlan batches;
  SplitSizes sizes;
  VariantTable variants{BatchPlan{}, SplitSizes{}, {}, {}};
  TuningTable tuning;
  FreezePlan freezes;
  ResolvedGroups groups;
  bool classification = false;
  CompileResult compiled;
  std::vector<data::StreamPhase> phases;  // the whole run, in order
  std::int64_t train_steps = 0;           // optimizer steps of one epoch
  std::int64_t val_steps = 0;
  bool data_on_device = false;          // the sets stay in the device's memory
  std::optional<RawImages> raw_images;  // the graphs normalise images of training and validation
  int mixed_classes = 0;                // width of "soft_label"; 0: batches are not mixed
  bool keep_processed_val = false;      // CPVS: the processed validation set stays in memory
  std::shared_ptr<data::BadSamples> bad_samples;       // of all loaders of this run
  std::shared_ptr<data::SetsInMemory> sets_in_memory;  // likewise; null unless fully_mode
  double open_ms = 0;  // time to open the named set, which is no part of compiling

  VariantOptions variant_options() const { return {ema(), int(freezes.states.size())}; }
  bool ema() const { return config.train.ema_decay > 0; }
  /// Loader of one rank over this run's data.
  data::LoaderConfig loader_config(int rank) const;
};

/// Checks and compiles, the model first, then data and transforms.
/// @throws InvalidArgument, Unsupported, DataError, OutOfMemory
CompiledRun compile_run(const RunRequest& request);

/// Passes over the splits: every epoch's training, and its validation where one is due.
std::vector<data::StreamPhase> plan_phases(const TrainOptions& options, bool has_val);

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "renaissance/task/class_report.h"

namespace tr {

/// What one epoch gave. Accuracies are fractions in [0, 1]; -1: not measured in this epoch.
struct EpochRecord {
  int epoch = 0;            // 1-based
  double train_loss = 0;    // mean over the samples of the steps that were not skipped
  bool validated = false;   // the epoch ended with a validation; else val_loss means nothing
  double val_loss = 0;      // of the averaged weights where EMA is on; may have any sign
  double top1 = -1;         // validation, likewise
  double top5 = -1;         // of the top_k places, 5 unless set
  double macro_f1 = -1;     // validation, with confusion_matrix: mean of the classes' F1
  double lr = 0;            // of the epoch's last step
  double images_per_s = 0;  // training samples over the training phase's time
  double data_wait_ms = 0;  // time in which a step waited for its batch, whole epoch
  /// Of the host's threads meanwhile, summed over them; 0 where the data stay on the device.
  double read_ms = 0, decode_ms = 0, transform_ms = 0, normalise_ms = 0, mix_ms = 0;
  /// What held training up: "compute bound", or "input bound: decode 78 %", the stage that the
  /// threads spent most of their time in.
  std::string feed;
  double train_top1 = -1;
  std::int64_t skipped_steps = 0;  // a gradient was not finite
  std::int64_t bad_samples = 0;    // different ones that could not be read since the run began
};

/// What run() returns.
struct TrainingResult {
  double best_top1 = 0;
  double best_top5 = 0;  // of the same epoch
  int best_epoch = -1;   // 1-based; -1: nothing was validated
  std::vector<EpochRecord> history;
  double images_per_s = 0;      // over the training phases of all epochs of this run
  std::string feed;             // EpochRecord::feed over all of them
  double total_s = 0;           // of this call
  std::int64_t peak_bytes = 0;  // the arenas of all ranks
  std::string weights_sha256;
  std::string tuning_sha256;
  bool cancelled = false;       // cancel() or a signal ended it before its last epoch
  std::string log_path;         // empty: no file
  std::string checkpoint_path;  // the last one written; empty: none
};

/// What a compiled task takes of its device's memory (on the CPU: of the machine's), over all
/// ranks. The device's context, code and captured graphs are not counted.
struct DeviceMemory {
  std::int64_t arena_bytes = 0;  // weights, gradients, state, activations, workspaces: as planned
  std::int64_t data_bytes = 0;   // data sets that stay on the device
  std::int64_t total_bytes = 0;
};

/// What evaluate() returns.
struct EvalResult {
  double loss = 0;
  double top1 = -1;  // -1: the loss is not one of classes
  double top5 = -1;  // of the top_k places, 5 unless set
  std::int64_t num_samples = 0;
  ConfusionMatrix confusion;  // empty without confusion_matrix; class_report() makes scores of it
};

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "renaissance/task/deep_learning_task.h"
#include "support/device.h"
#include "support/golden.h"

namespace tr::test {

/// Where this program's runs compute.
constexpr DeviceKind kRunDevice = DeviceKind::TR_TEST_DEVICE;

/// Tests of runs on that device, or a skip with the reason.
using RunTest = DeviceTest<kRunDevice>;

struct RunOptions {
  double lr = 0.1;
  int micro_batches = 1;
  int epochs = 1;
  float clip_norm = 0;
  float clip_value = 0;
  float ema_decay = 0;
  bool cosine = false;  // else constant
  int warmup = 0;       // epochs
  int workers = 1;
  int threads = 1;
  int ranks = 1;           // micro_batches is of each rank
  std::int64_t batch = 7;  // of a micro-batch
  std::string amp;         // "", "fp16" or "bf16"
  std::vector<ParamGroup> groups;
};

/// What a run left behind.
struct GoldenRun {
  Tensor losses;                     // [steps], FP32
  std::vector<NamedTensor> weights;  // by the names of PyTorch's state_dict
  std::vector<NamedTensor> ema;
  TrainingResult result;
};

/// Switches progress and log off.
void silence();

/// The fields "field.NAME" of a golden file as a data set in their order.
std::shared_ptr<const Dataset> dataset_of(const SafetensorsFile& file);

/// A session without shuffle for these options, on kRunDevice. A GPU's engines are taken by rank:
/// two runs that must have equal bytes then have equal engines.
Session session_of(const RunOptions& options);

/// A task on the file's fields that begins with the weights "initial.NAME", which are written to
/// `weights_path`. Nothing is compiled yet.
struct GoldenTask {
  const SafetensorsFile& file;
  const BluePrint& model;
  const Loss& loss;
  const Optimizer& optimizer;
};
void set_up(DeepLearningTask& task, const GoldenTask& what, const RunOptions& options,
            const std::string& weights_path);

/// Trains `model` from the weights "initial.NAME" on the file's fields.
GoldenRun train(const SafetensorsFile& file, const BluePrint& model, const Loss& loss,
                const Optimizer& optimizer, const RunOptions& options);

}  // namespace tr::test

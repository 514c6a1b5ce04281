// SPDX-License-Identifier: Apache-2.0
#include "support/small_run.h"

#include <algorithm>
#include <cstring>

#include "graph/arch_plan.h"
#include "renaissance/data/datasets.h"

namespace tr::test {

namespace {

constexpr std::int64_t kSamples = 14;

std::shared_ptr<const Dataset> set_of(bool bytes, std::uint64_t seed) {
  Tensor x = Tensor::uniform({kSamples, 8, 8, 3}, bytes ? 0 : -1, bytes ? 255 : 1, seed);
  if (bytes) {
    Tensor pixels({kSamples, 8, 8, 3}, DType::UINT8);
    for (std::int64_t i = 0; i < x.num_elements(); ++i)
      pixels.data<std::uint8_t>()[i] = std::uint8_t(x.data<float>()[i]);
    x = pixels;
  }
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < kSamples; ++i) labels.push_back(std::int32_t(i * 7 % 4));
  return make_tensor_dataset(
      {{"image", x},
       {"label", Tensor::from({kSamples}, std::span<const std::int32_t>(labels))},
       {"target", Tensor::uniform({kSamples, 4}, 0, 1, seed + 1)}},
      4);
}

}  // namespace

DatasetPair small_set() { return {set_of(false, 1), set_of(false, 3)}; }
DatasetPair small_pictures() { return {set_of(true, 1), set_of(true, 3)}; }

bool reaches_outside(std::string_view key) {
  for (const std::string_view prefix : {"checkpoint.", "dataset."}) {
    if (key.starts_with(prefix)) return true;
  }
  constexpr std::string_view kKeys[] = {
      "download", "load_weights", "log_file",           "trace_file",  "tuning_cache",
      "resume",   "device",       "init.layers",        "cpu_ranks",   "threads",
      "workers",  "load_workers", "preprocess_workers", "cpu_binding", "read_timeout"};
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

bool is_small(const BluePrint& model) {
  const ArchPlan plan = expand(model, {{"image", {Shape{8, 8, 3}, DType::FP32}},
                                       {"label", {Shape{}, DType::INT32}},
                                       {"target", {Shape{4}, DType::FP32}}});
  std::int64_t bytes = 0;
  for (const ArchLayer& layer : plan.layers) bytes += layer.cost.bytes;
  return plan.num_params() < 200'000 && plan.flops() < 5'000'000 && bytes < 5'000'000;
}

void run_steps(DeepLearningTask& task, int steps) {
  task.set("device", "cpu").set("threads", "1").set("workers", "1");
  task.callbacks({.on_step =
                      [steps](DeepLearningTask& t, std::int64_t step, double, double) {
                        if (step >= steps) t.cancel();
                      },
                  .on_epoch = {}});
  task.compile(CompileInfo::NONE);
  task.run();
  task.evaluate();
}

}  // namespace tr::test

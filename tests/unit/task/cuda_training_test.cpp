// SPDX-License-Identifier: Apache-2.0
// Whole trainings on a GPU: the same bytes however the steps are launched and fed, resumed or not,
// and the CPU's results but for rounding.
#include <gtest/gtest.h>

#include <cmath>

#include "backend/device_backend.h"
#include "support/device.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tr {
namespace {

using CudaTraining = test::DeviceTest<DeviceKind::CUDA>;

constexpr int kSide = 13;  // no multiple of anything
constexpr std::int64_t kTrain = 730, kVal = 135;

/// Pictures whose label is the quarter that is brightest.
std::shared_ptr<const Dataset> pictures(std::int64_t n, std::uint64_t seed) {
  const Tensor noise = Tensor::uniform({n, kSide, kSide, 1}, 0, 200, seed);
  Tensor images({n, kSide, kSide, 1}, DType::UINT8);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < n; ++i) {
    const int label = int((i * 7 + std::int64_t(seed)) % 4);
    labels.push_back(label);
    for (int p = 0; p < kSide * kSide; ++p) {
      const bool right = p % kSide > kSide / 2, low = p / kSide > kSide / 2;
      const int quarter = (low ? 2 : 0) + (right ? 1 : 0);
      const float value = noise.data<float>()[i * kSide * kSide + p] + (quarter == label ? 50 : 0);
      images.data<std::uint8_t>()[i * kSide * kSide + p] = std::uint8_t(value);
    }
  }
  return make_tensor_dataset(
      {{"image", images}, {"label", Tensor::from({n}, std::span<const std::int32_t>(labels))}}, 4);
}

struct Choices {
  bool gpu = true;
  std::string amp = "fp16", place = "device";
  std::string clip = "0";
  int epochs = 3;
};

/// One for all trainings of this program: two that measure may choose engines that add in other
/// orders.
std::string tuning_cache() {
  static const test::TempFolder folder;
  return folder.path("tuning.json");
}

DeepLearningTask task_of(const Choices& choices) {
  Session session;
  session.global.manual_seed(3).global_batch_size(48);
  if (choices.gpu) {
    session.global.use_gpu("0");
  } else {
    session.global.use_cpu();
  }
  session.preprocessor.normalization({0.4f}, {0.3f})
      .train_transforms(Pad(1), RandomCrop(kSide), RandomRotation(10), RandomErasing(0.3f));
  DeepLearningTask task;
  task.model(seq(flatten(), fc(40, true), relu(), dropout(0.1f), fc(24, true), silu(), fc(4, true)))
      .loss(CrossEntropyLoss().label_smoothing(0.05f))
      .optimizer(AdamW().weight_decay(1e-3))
      .scheduler(CosineAnnealingLR().base_lr(3e-3))
      .total_epochs(choices.epochs)
      .session(session)
      .dataset({pictures(kTrain, 1), pictures(kVal, 2)})
      .set("amp", choices.amp)
      .set("grad_clip_norm", choices.clip);
  if (choices.gpu) task.set("data_place", choices.place).set("tuning_cache", tuning_cache());
  return task;
}

TrainingResult run(DeepLearningTask& task) {
  const toy::Quiet quiet;
  task.compile(CompileInfo::NONE);
  return task.run();
}
TrainingResult run(const Choices& choices) {
  DeepLearningTask task = task_of(choices);
  return run(task);
}

TEST_F(CudaTraining, LearnsAndRepeatsItself) {
  for (const char* amp : {"off", "fp16", "bf16"}) {
    SCOPED_TRACE(amp);
    const Choices choices{.amp = amp, .epochs = 8};
    const TrainingResult first = run(choices);
    EXPECT_GT(first.best_top1, 0.8);
    EXPECT_EQ(run(choices).weights_sha256, first.weights_sha256);
  }
}

struct OptimizerRow {
  Optimizer optimizer;
  double lr;
};
std::vector<OptimizerRow> optimizers() {
  return {{SGD().momentum(0.9).nesterov().weight_decay(1e-4), 0.02},
          {Adam(), 3e-3},
          {Lion().weight_decay(1e-2), 1e-3},
          {RMSprop().momentum(0.5).centered(), 1e-3},
          {Adagrad(), 0.02},
          {LARS().momentum(0.9).trust_coefficient(0.02).weight_decay(1e-4), 0.3},
          {LAMB().weight_decay(1e-2), 0.01},
          {Muon().weight_decay(1e-2).adam_rate(0.2), 0.02},
          {Shampoo().weight_decay(1e-2).precondition_every(3).block_size(32).ridge(1e-2), 0.01},
          {SOAP().weight_decay(1e-2).precondition_every(3).ridge(1e-2), 0.01}};
}

// Clipping, averages, a frozen layer and a dynamic loss scale beside each of them.
TEST_F(CudaTraining, EveryOptimizerLearnsRepeatsItselfAndLeavesWhatIsFrozen) {
  for (const OptimizerRow& row : optimizers()) {
    for (const std::string amp : {"off", "fp16", "bf16"}) {
      SCOPED_TRACE(std::string(name_of(row.optimizer.kind)) + " " + amp);
      const auto train = [&](bool gpu, const std::string& precision) {
        DeepLearningTask task = task_of({.gpu = gpu, .amp = precision, .clip = "5", .epochs = 6});
        task.optimizer(row.optimizer).scheduler(ConstantLR().base_lr(row.lr));
        task.use_ema(0.9f).freeze("1.bias").set("loss_scale_growth", "50");
        const TrainingResult result = run(task);
        const Tensor frozen = task.fetch("1.bias");
        for (const float v : frozen.values<float>()) EXPECT_EQ(v, 0);
        return result;
      };
      const TrainingResult first = train(true, amp);
      EXPECT_GT(first.best_top1, 0.6);
      EXPECT_EQ(train(true, amp).weights_sha256, first.weights_sha256);
      if (amp != "off") continue;
      const TrainingResult cpu = train(false, amp);
      EXPECT_NEAR(first.history.front().train_loss, cpu.history.front().train_loss, 0.02);
    }
  }
}

TEST_F(CudaTraining, ASecondCompileMeasuresNothingAndGivesTheSameBytes) {
  const test::TempFolder folder;
  std::vector<std::string> hashes;
  std::vector<std::size_t> measured;
  for (int i = 0; i < 2; ++i) {
    DeepLearningTask task = task_of({});
    // Gradients of their own, so that fc_dweight is a node that has a choice.
    task.set("tuning_cache", folder.path("cache.json")).set("keep_gradients", "true");
    std::string logged;
    const LogSink former =
        set_log_sink([&](LogLevel, std::string_view text) { logged += std::string(text) + "\n"; });
    task.compile(CompileInfo::NONE);
    set_log_sink(former);
    measured.push_back(logged.find("nodes measured in"));
    const toy::Quiet quiet;
    const TrainingResult result = task.run();
    hashes.push_back(result.weights_sha256 + " " + result.tuning_sha256);
  }
  EXPECT_NE(measured[0], std::string::npos) << "the first compile measures";
  EXPECT_EQ(measured[1], std::string::npos) << "the second does not";
  EXPECT_EQ(hashes[0], hashes[1]);
}

TEST_F(CudaTraining, HostAndDeviceFeedTheSameBytes) {
  for (const char* amp : {"off", "fp16"}) {
    SCOPED_TRACE(amp);
    const TrainingResult held = run({.amp = amp, .place = "device"});
    for (const char* normalize_on : {"host", "device", "auto"}) {
      SCOPED_TRACE(normalize_on);
      DeepLearningTask task = task_of({.amp = amp, .place = "host"});
      task.set("normalize_on", normalize_on);
      const TrainingResult fed = run(task);
      EXPECT_EQ(held.weights_sha256, fed.weights_sha256);
      for (std::size_t e = 0; e < held.history.size(); ++e) {
        EXPECT_EQ(held.history[e].train_loss, fed.history[e].train_loss);
        EXPECT_EQ(held.history[e].val_loss, fed.history[e].val_loss);
        EXPECT_EQ(held.history[e].top1, fed.history[e].top1);
      }
    }
  }
}

// Batches come into two zones in turn, whatever reads them: 16 and 3 steps a pass, each with a
// smaller last batch, and between them evaluations, predictions and single nodes.
TEST_F(CudaTraining, HostFeedKeepsItsZonesApart) {
  for (const char* micro : {"48", "16"}) {
    SCOPED_TRACE(micro);
    const auto task = [&](const char* place, const char* normalize_on = "host") {
      DeepLearningTask made = task_of({.place = place});
      made.set("local_batch_size", micro)
          .set("normalize_on", normalize_on)
          .set("accumulate_steps", micro == std::string("48") ? "1" : "3");
      return made;
    };
    DeepLearningTask held = task("device");
    const TrainingResult want = run(held);
    for (const char* normalize_on : {"host", "device"}) {
      DeepLearningTask fed = task("host", normalize_on);
      const Tensor batch = Tensor::uniform({5, kSide, kSide, 1}, -1, 1, 7);
      fed.callbacks({.on_step =
                         [&](DeepLearningTask& t, std::int64_t step, double, double) {
                           if (step % 5 == 0) t.predict(batch);
                           if (step % 7 == 0) t.evaluate();
                           if (step % 11 == 0) t.fetch("1.weight");
                         },
                     .on_epoch = {}});
      EXPECT_EQ(run(fed).weights_sha256, want.weights_sha256);
    }
    DeepLearningTask quiet = task("host");
    const TrainingResult got = run(quiet);
    EXPECT_EQ(got.weights_sha256, want.weights_sha256);
    EXPECT_EQ(got.history.back().val_loss, want.history.back().val_loss);
    // The printed arena holds both zones: feeding from the host takes no more than the other.
    EXPECT_EQ(got.peak_bytes, want.peak_bytes);
  }
}

// Mixed batches come from the loader: the CPU's losses but for rounding, and the same bytes again.
TEST_F(CudaTraining, LearnsFromMixedBatches) {
  const auto mixed = [](bool gpu) {
    Session session;
    session.global.manual_seed(3).global_batch_size(48);
    if (gpu) {
      session.global.use_gpu("0");
    } else {
      session.global.use_cpu();
    }
    session.preprocessor.normalization({0.4f}, {0.3f})
        .train_transforms(RandomErasing(0.3f), Mixup(0.4f), CutMix(1, 0.5f));
    DeepLearningTask task = task_of({.gpu = gpu, .amp = "off", .place = "auto"});
    task.session(session).set("amp", "off");
    return run(task);
  };
  const TrainingResult gpu = mixed(true), cpu = mixed(false);
  EXPECT_EQ(mixed(true).weights_sha256, gpu.weights_sha256);
  for (std::size_t e = 0; e < gpu.history.size(); ++e) {
    EXPECT_NEAR(gpu.history[e].train_loss, cpu.history[e].train_loss, 2e-3);
    EXPECT_NEAR(gpu.history[e].val_loss, cpu.history[e].val_loss, 4e-3);
  }
}

TEST_F(CudaTraining, SingleLaunchesGiveTheBytesOfMany) {
  const TrainingResult many = run(Choices{});
  DeepLearningTask single = task_of({});
  std::int64_t steps = 0;
  single.callbacks({.on_step =
                        [&](DeepLearningTask&, std::int64_t, double loss, double) {
                          EXPECT_TRUE(std::isfinite(loss));
                          ++steps;
                        },
                    .on_epoch = {}});
  EXPECT_EQ(run(single).weights_sha256, many.weights_sha256);
  EXPECT_EQ(steps, 3 * 16);
}

TEST_F(CudaTraining, EqualsTheCpuButForRounding) {
  for (const char* clip : {"0", "0.5"}) {
    SCOPED_TRACE(clip);
    const TrainingResult gpu = run({.amp = "off", .clip = clip});
    const TrainingResult cpu = run({.gpu = false, .amp = "off", .clip = clip});
    for (std::size_t e = 0; e < gpu.history.size(); ++e) {
      EXPECT_NEAR(gpu.history[e].train_loss, cpu.history[e].train_loss, 2e-3);
      EXPECT_NEAR(gpu.history[e].val_loss, cpu.history[e].val_loss, 4e-3);
    }
  }
}

TEST_F(CudaTraining, TheFusedUpdateIsTheUnfusedOne) {
  const TrainingResult fused = run(Choices{});
  DeepLearningTask kept = task_of({});
  kept.set("keep_gradients", "true");
  const TrainingResult plain = run(kept);
  for (std::size_t e = 0; e < fused.history.size(); ++e)
    EXPECT_NEAR(fused.history[e].train_loss, plain.history[e].train_loss, 4e-3);
  EXPECT_EQ(kept.fetch("1.weight.grad").shape(), (Shape{40, kSide * kSide}));
}

// Results of 32 MiB leave relu's bits behind as the gate of their gradients (share_relu_mask); of
// half the batch at a time they are smaller, and their values are the gate.
TEST_F(CudaTraining, AGateOfBitsTrainsAsAGateOfValues) {
  const auto train = [](const char* micro, const char* parts, bool singly) {
    Session session;
    session.global.manual_seed(3).use_gpu("0").global_batch_size(4096);
    session.preprocessor.normalization({0.4f}, {0.3f});
    DeepLearningTask task = task_of({});
    task.session(session)
        .model(seq(flatten(), fc(4096, true), relu(), fc(4096, false), relu(), fc(4, true)))
        .optimizer(SGD().momentum(0.9))
        .scheduler(ConstantLR().base_lr(0.02))
        .dataset({pictures(3 * 4096, 1), pictures(kVal, 2)})
        .set("amp", "fp16")
        .set("tuning_cache", tuning_cache())
        .set("local_batch_size", micro)
        .set("accumulate_steps", parts);
    if (singly) task.callbacks({.on_step = [](auto&&...) {}, .on_epoch = {}});
    const test::LogCapture log;
    task.compile(CompileInfo::TRAIN_GRAPH);
    EXPECT_EQ(log.count("fc_marked") > 0, parts == std::string("1")) << log.text();
    return task.run();
  };
  const TrainingResult bits = train("4096", "1", false), values = train("2048", "2", false);
  EXPECT_EQ(train("4096", "1", true).weights_sha256, bits.weights_sha256);
  for (std::size_t e = 0; e < bits.history.size(); ++e) {
    EXPECT_NEAR(bits.history[e].train_loss, values.history[e].train_loss, 4e-3);
    EXPECT_NEAR(bits.history[e].val_loss, values.history[e].val_loss, 8e-3);
  }
  EXPECT_LT(bits.history.back().train_loss, 1.3) << "it learns";
}

TEST_F(CudaTraining, FetchRefusesGradientsThatAreNotWritten) {
  DeepLearningTask task = task_of({});
  run(task);
  EXPECT_EQ(task.fetch("1.weight").shape(), (Shape{40, kSide * kSide}));
  try {
    task.fetch("1.weight.grad");
    FAIL() << "no error";
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("keep_gradients"), std::string::npos) << error.what();
  }
}

TEST_F(CudaTraining, ResumesToTheBytesOfTheUnbrokenRun) {
  const TrainingResult want = run(Choices{});
  const test::TempFolder folder;
  const auto checkpointed = [&] {
    DeepLearningTask task = task_of({});
    task.save_every(folder.path(), 1, 2).resume();
    return task;
  };
  {
    DeepLearningTask task = checkpointed();
    task.callbacks({.on_step =
                        [](DeepLearningTask& t, std::int64_t step, double, double) {
                          if (step == 21) t.cancel();
                        },
                    .on_epoch = {}});
    EXPECT_TRUE(run(task).cancelled);
  }
  DeepLearningTask task = checkpointed();
  EXPECT_EQ(run(task).weights_sha256, want.weights_sha256);
}

/// Makes a cache say that our slowest kernel runs every product that has an epilogue.
void prefer_simt(const std::string& path) {
  const std::string environment = find_backend(DeviceKind::CUDA)->tuning_environment(0);
  TuningTable table = TuningTable::load_cache(path, environment);
  ASSERT_FALSE(table.empty());
  for (const auto& [key, engine] : std::map(table.entries())) {
    if (key.starts_with("cuda fc {activation: relu")) table.set(key, "cuda.fc.simt separate", 1);
  }
  table.save_cache(path, environment);
}

TEST_F(CudaTraining, ACheckpointsEnginesWinOverTheCache) {
  const test::TempFolder folder;
  const auto task_with = [&](bool checkpointed, int epochs) {
    DeepLearningTask task = task_of({.epochs = epochs});
    task.set("tuning_cache", folder.path("cache.json"));
    if (checkpointed) task.save_every(folder.path("run"), 1, 2).resume();
    return task;
  };
  DeepLearningTask first = task_with(true, 2);
  first.callbacks({.on_step =
                       [](DeepLearningTask& t, std::int64_t step, double, double) {
                         if (step == 5) t.cancel();
                       },
                   .on_epoch = {}});
  const TrainingResult begun = run(first);
  EXPECT_TRUE(begun.cancelled);
  prefer_simt(folder.path("cache.json"));
  DeepLearningTask fresh = task_with(false, 2), resumed = task_with(true, 2);
  EXPECT_NE(run(fresh).tuning_sha256, begun.tuning_sha256) << "the cache decides elsewhere";
  EXPECT_EQ(run(resumed).tuning_sha256, begun.tuning_sha256);
}

TEST_F(CudaTraining, AnOverflowIsSkippedAndTheScaleFalls) {
  DeepLearningTask task = task_of({});
  task.set("loss_scale", "1e9");
  const TrainingResult result = run(task);
  EXPECT_GT(result.history[0].skipped_steps, 0);
  EXPECT_LT(result.history[0].skipped_steps, 16);
  EXPECT_TRUE(std::isfinite(result.history.back().val_loss));
  EXPECT_LT(task.fetch("loss_scale").values<float>()[0], 1e9f);
}

TEST_F(CudaTraining, EvaluatesAndPredictsWithItsWeights) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_of({.amp = "off"});
  const TrainingResult result = run(task);
  const EvalResult eval = task.evaluate();
  EXPECT_EQ(eval.top1, result.history.back().top1);
  const Tensor batch = Tensor::uniform({7, kSide, kSide, 1}, -1, 1, 5);
  const Tensor gpu = task.predict(batch);
  const test::TempFolder folder;
  const std::string weights = folder.path() + "/w.safetensors";
  task.save_weights(weights);
  DeepLearningTask cpu = task_of({.gpu = false, .amp = "off"});
  cpu.load_weights(weights).compile(CompileInfo::NONE);
  const Tensor want = cpu.predict(batch);
  ASSERT_EQ(gpu.type(), want.type());
  for (std::int64_t i = 0; i < gpu.num_elements(); ++i)
    EXPECT_NEAR(gpu.data<float>()[i], want.data<float>()[i], 1e-4f);
}

TEST_F(CudaTraining, ProfileNamesEveryOpAndChangesNothing) {
  DeepLearningTask task = task_of({.epochs = 1});
  {
    const toy::Quiet quiet;
    task.compile(CompileInfo::NONE);
  }
  const std::vector<OpTime> ops = task.profile();
  EXPECT_GT(ops.size(), 5u);
  for (const OpTime& op : ops) EXPECT_GT(op.seconds, 0) << op.op;
  const toy::Quiet quiet;
  EXPECT_EQ(task.run().weights_sha256, run({.epochs = 1}).weights_sha256);
}

/// More tiles than blocks that a device holds at once, and layers that are no multiple of a tile: a
/// block of fc_update makes several tiles, some of which only part of its threads own.
TEST_F(CudaTraining, ManyTilesOfTheFusedUpdateAreThoseOfSeparateKernels) {
  const auto weights = [](bool keep, const std::string& amp) {
    Session session;
    session.global.manual_seed(3).global_batch_size(48).use_gpu("0");
    session.preprocessor.normalization({0.4f}, {0.3f});
    DeepLearningTask task;
    task.model(seq(flatten(), fc(2056, true), relu(), fc(2056, true), relu(), fc(10, true)))
        .loss(CrossEntropyLoss())
        .optimizer(AdamW().weight_decay(1e-3))
        .scheduler(ConstantLR().base_lr(1e-3))
        .total_epochs(1)
        .session(session)
        .dataset({pictures(48 * 4, 1), pictures(48, 2)})
        .set("amp", amp)
        .set("keep_gradients", keep ? "true" : "false");
    const toy::Quiet quiet;
    task.compile(CompileInfo::NONE);
    task.run();
    return std::vector<Tensor>{task.fetch("1.weight"), task.fetch("3.weight"),
                               task.fetch("5.weight"), task.fetch("5.bias")};
  };
  for (const char* amp : {"fp16", "bf16"}) {
    const std::vector<Tensor> fused = weights(false, amp), apart = weights(true, amp);
    for (std::size_t i = 0; i < fused.size(); ++i) {
      double worst = 0;
      for (std::int64_t j = 0; j < fused[i].num_elements(); ++j) {
        worst = std::max(worst,
                         std::abs(double(fused[i].data<float>()[j]) - apart[i].data<float>()[j]));
      }
      // Four steps of at most 1e-3 each way; weights of another tile differ by their spread, 0.05.
      EXPECT_LE(worst, 8.1e-3) << amp << ", tensor " << i;
    }
  }
}

}  // namespace
}  // namespace tr

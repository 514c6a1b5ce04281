// SPDX-License-Identifier: Apache-2.0
// The last pass of images by a node of the graph instead of the loader's threads: the same bytes.
#include <gtest/gtest.h>

#include "backend/device_backend.h"
#include "support/log_capture.h"
#include "support/raw_batches.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "task/compiled_run.h"
#include "task/raw_images.h"
#include "toy.h"

namespace tr {
namespace {

using test::throws;

TEST(RawImages, TheNodeGivesTheBytesOfTheLoader) { test::expect_same_last_pass({}); }

TEST(RawImages, OfAnotherSeedAreOthers) {
  data::LoaderConfig config = test::last_pass_config(3, 0, DType::FP32);
  const std::string want = test::images_hash(config);
  config.raw_images = true;
  config.seed = 12;
  EXPECT_NE(test::images_hash(config), want);
}

DatasetPair digits() {
  return {make_procedural_digits("train", 430, 1), make_procedural_digits("val", 110, 1)};
}

Session session_of(std::vector<Transform> steps) {
  Session session = toy::make_session(24, 2);
  session.preprocessor.normalization(NormMode::MNIST).set_train_transforms(std::move(steps));
  return session;
}

DeepLearningTask task_of(const std::vector<std::pair<const char*, const char*>>& sets,
                         std::vector<Transform> steps = {
                             Pad(2), RandomCrop(28), RandomHorizontalFlip(), RandomErasing(0.3f)}) {
  DeepLearningTask task = toy::make_task(session_of(std::move(steps)), digits(), 2);
  task.model(seq(flatten(), fc(32, true), relu(), fc(10, true)));
  for (const auto& [key, value] : sets) task.set(key, value);
  return task;
}

TEST(RawImages, TrainingGivesTheSameWeightsEitherWay) {
  const toy::Quiet quiet;
  for (const char* amp : {"off", "bf16"}) {
    for (const char* accumulate : {"1", "3"}) {
      std::vector<TrainingResult> results;
      for (const char* place : {"host", "device", "auto"}) {
        DeepLearningTask task =
            task_of({{"normalize_on", place}, {"amp", amp}, {"accumulate_steps", accumulate}});
        task.compile(CompileInfo::NONE);
        EXPECT_EQ(task.graph(GraphFormat::JSON).find("normalize_image") != std::string::npos,
                  std::string(place) == "device");
        results.push_back(task.run());
        EXPECT_EQ(results.back().weights_sha256, results.front().weights_sha256) << place;
        EXPECT_EQ(results.back().best_top1, results.front().best_top1);
        Tensor one({1, 28, 28, 1}, DType::UINT8);
        std::memset(one.raw(), 99, one.num_bytes());
        EXPECT_EQ(task.predict_images(one).shape(), (Shape{1, 10}));
      }
    }
  }
}

TEST(RawImages, RefusesWhatTheGraphCannotDo) {
  const toy::Quiet quiet;
  const auto refused = [](DeepLearningTask task, const char* why) {
    return throws<Unsupported>([&] { task.compile(CompileInfo::NONE); }, why);
  };
  EXPECT_TRUE(refused(task_of({{"normalize_on", "device"}}, {Mixup()}), "Mixup(1), Normalize"));
  DeepLearningTask floats = toy::make_task(toy::make_session(), toy::make_data());
  EXPECT_TRUE(refused(std::move(floats.set("normalize_on", "device")), "no field \"image\""));
  DeepLearningTask automatic = task_of({}, {Mixup()});
  EXPECT_NO_THROW(automatic.compile(CompileInfo::NONE));
}

/// A device whose copies and nodes take given times.
class FakeDevice {
 public:
  FakeDevice(double us_per_mb, double node_us)
      : registration_(
            {.kind = DeviceKind::CUDA,
             .built_for = "nothing",
             .devices =
                 [] {
                   return std::vector<DeviceInfo>{{0, "toy", "sm_0", 1, 1}};
                 },
             .why_none = {},
             .libraries = {},
             .free_memory = [](int) { return std::int64_t(1) << 40; },
             .copy_us = [us_per_mb](
                            int, std::int64_t bytes) { return us_per_mb * double(bytes) * 1e-6; },
             .make_executor = {},
             .make_bench = [node_us](int) { return std::make_unique<Bench>(node_us); },
             .tuning_environment = {}}) {}

 private:
  struct Timed final : TimedEngine {
    explicit Timed(double us) : us(us) {}
    double sample_us() override { return us; }
    double us;
  };
  struct Bench final : EngineBench {
    explicit Bench(double us) : us(us) {}
    void begin(const KernelQuery& query) override {
      EXPECT_EQ(query.in[0], (TensorType{{24, 28, 28, 1}, DType::UINT8}));
      EXPECT_EQ(query.out[0], (TensorType{{24, 28, 28, 1}, DType::FP32}));
    }
    std::unique_ptr<TimedEngine> prepare(const Engine&, const KernelQuery&) override {
      return std::make_unique<Timed>(us);
    }
    double us;
  };
  DeviceBackendRegistration registration_;
};

/// A run as compile_run() has it when it asks.
CompiledRun run_of(DataPlace normalize_on, std::vector<Transform> steps = {Resize(28)}) {
  CompiledRun run;
  Session session = session_of(std::move(steps));
  session.preprocessor.normalize_on(normalize_on).data_place(DataPlace::HOST);
  run.config = {session.global, session.preprocessor, {}};
  run.device = {.kind = DeviceKind::CUDA, .gpus = {0}, .announcement = {}};
  run.data = digits();
  run.train_chain = {session.preprocessor.values().train_transforms, NormMode::MNIST};
  run.val_chain = {{}, NormMode::MNIST};
  run.batches = {.local = 24, .global = 24};
  const ModeFields::Fields fields = {{"image", {{28, 28, 1}, DType::FP32}},
                                     {"label", {Shape{}, DType::INT32}}};
  run.fields = {fields, fields, fields};
  return run;
}

TEST(RawImages, TheFasterPlaceIsTakenAndKept) {
  if (kernels_of("normalize_image", DeviceKind::CUDA).empty()) {
    GTEST_SKIP() << "built without CUDA";  // no node there to be measured
  }
  const test::LogCapture log;
  const TensorType pixels{{28, 28, 1}, DType::UINT8};
  TuningTable table;
  for (const bool slow_node : {false, true}) {
    const FakeDevice device(1000, slow_node ? 1e6 : 1);  // 75 us a batch of floats, 19 of pixels
    CompiledRun run = run_of(DataPlace::AUTO);
    const auto raw = decide_raw_images(run);
    EXPECT_EQ(raw.has_value(), !slow_node) << log.text();
    ASSERT_EQ(run.tuning.entries().size(), 1u);
    EXPECT_EQ(run.tuning.entries().begin()->second, slow_node ? "host" : "device");
    if (!slow_node) {
      table = run.tuning;
      EXPECT_EQ(run.fields.train.at("image_pixels"), pixels);
      EXPECT_FALSE(run.fields.train.contains("image"));
      EXPECT_EQ(run.fields.eval.at("image_tail"), (TensorType{Shape{8}, DType::INT32}));
      EXPECT_EQ(run.fields.predict.at("image").dtype, DType::FP32);
      EXPECT_EQ(raw->mean, std::vector<float>{0.1307f});
    }
    // The choice of a former run is kept, and a forced one is not measured.
    run = run_of(DataPlace::AUTO);
    run.tuning = table;
    EXPECT_TRUE(decide_raw_images(run).has_value());
    run = run_of(DataPlace::DEVICE);
    EXPECT_TRUE(decide_raw_images(run).has_value());
    EXPECT_TRUE(run.tuning.empty());
    run = run_of(DataPlace::HOST);
    EXPECT_FALSE(decide_raw_images(run).has_value());
    run = run_of(DataPlace::AUTO, {Mixup()});
    EXPECT_FALSE(decide_raw_images(run).has_value());
    EXPECT_TRUE(run.tuning.empty());
  }
}

}  // namespace
}  // namespace tr

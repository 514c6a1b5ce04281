// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "graph/op_def.h"
#include "support/allocation_counter.h"
#include "support/compare.h"
#include "support/log_capture.h"
#include "support/near.h"
#include "support/temp_folder.h"
#include "toy.h"

namespace tr {
namespace {

template <typename E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another exception: ") + error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The whole of a run with some keys set.
TrainingResult run_with(const std::vector<std::pair<const char*, const char*>>& sets,
                        int epochs = 2, const Session& session = toy::make_session()) {
  DeepLearningTask task = toy::make_task(session, toy::make_data(), epochs);
  for (const auto& [key, value] : sets) task.set(key, value);
  task.compile(CompileInfo::NONE);
  return task.run();
}

TEST(Training, LearnsAndReports) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(2000), 8);
  task.compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  EXPECT_GT(result.best_top1, 0.85);
  ASSERT_EQ(result.history.size(), 8u);
  EXPECT_LT(result.history.back().train_loss, 0.6 * result.history.front().train_loss);
  EXPECT_EQ(result.history[2].epoch, 3);
  EXPECT_GE(result.best_epoch, 1);
  EXPECT_EQ(result.best_top1, result.history[std::size_t(result.best_epoch - 1)].top1);
  EXPECT_EQ(result.weights_sha256.size(), 64u);
  EXPECT_GT(result.peak_bytes, 0);
  const EvalResult again = task.evaluate();
  EXPECT_EQ(again.num_samples, 75);
  EXPECT_EQ(again.loss, result.history.back().val_loss);
  EXPECT_EQ(again.top1, result.history.back().top1);
}

TEST(Training, SameSeedSameBytes) {
  const toy::Quiet quiet;
  const std::string want = run_with({}).weights_sha256;
  EXPECT_EQ(run_with({{"workers", "2"}}).weights_sha256, want);
  EXPECT_EQ(run_with({{"workers", "4"}}).weights_sha256, want);
  EXPECT_EQ(run_with({{"threads", "2"}}).weights_sha256, want);
  EXPECT_NE(run_with({{"seed", "8"}}).weights_sha256, want);
}

TEST(Training, RanksEqualAccumulatedMicroBatches) {
  const toy::Quiet quiet;
  const TrainingResult micro = run_with({{"accumulate_steps", "2"}});
  const TrainingResult ranks = run_with({{"cpu_ranks", "2"}});
  EXPECT_EQ(micro.weights_sha256, ranks.weights_sha256);
  ASSERT_EQ(micro.history.size(), ranks.history.size());
  for (std::size_t i = 0; i < micro.history.size(); ++i) {
    EXPECT_EQ(micro.history[i].train_loss, ranks.history[i].train_loss);
    EXPECT_TRUE(test::is_near(micro.history[i].val_loss, ranks.history[i].val_loss,
                              test::run_tolerance(22, false)));
    EXPECT_EQ(micro.history[i].top1, ranks.history[i].top1);
  }
}

TEST(Training, ShortTailsLeaveSomeMicroBatchesEmpty) {
  const toy::Quiet
      quiet;  // 204 samples in steps of 20: the last one has 4, its micro-batches 4, 0, 0, 0
  const auto run = [](const char* accumulate, const char* ranks) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(204), 2);
    task.model(seq(fc(16, true), relu(), fc(4, true)));
    task.set("accumulate_steps", accumulate).set("cpu_ranks", ranks).compile(CompileInfo::NONE);
    return task.run();
  };
  const TrainingResult whole = run("1", "1"), parts = run("4", "1"), ranks = run("1", "4");
  for (std::size_t i = 0; i < whole.history.size(); ++i) {
    EXPECT_TRUE(test::is_near(parts.history[i].train_loss, whole.history[i].train_loss,
                              test::run_tolerance(22, true)));
    EXPECT_TRUE(test::is_near(ranks.history[i].train_loss, whole.history[i].train_loss,
                              test::run_tolerance(22, true)));
    EXPECT_EQ(parts.history[i].skipped_steps, 0);
  }
}

TEST(Training, AStepMayHaveMoreMicroBatchesThanTheTablesHaveRowsOtherwise) {
  const toy::Quiet quiet;
  const auto run = [](const char* accumulate) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(1100), 1);
    task.model(seq(fc(16, true), relu(), dropout(0.25f), fc(4, true)));
    task.set("global_batch_size", "1100").set("accumulate_steps", accumulate);
    task.compile(CompileInfo::NONE);
    return task.run().history.back();
  };
  const EpochRecord whole = run("1"), parts = run("1100");
  EXPECT_TRUE(test::is_near(parts.train_loss, whole.train_loss, test::run_tolerance(1, false)));
  EXPECT_EQ(parts.train_top1, whole.train_top1);
}

TEST(Training, AStepAllocatesNothing) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(2000), 2);
  std::int64_t before = 0, steps = 0, allocations = 0;
  task.callbacks({.on_step =
                      [&](DeepLearningTask&, std::int64_t step, double, double) {
                        const std::int64_t now = test::allocation_count();
                        const bool first_of_epoch = step % 100 == 1;
                        if (step > 1 && !first_of_epoch) allocations += now - before, ++steps;
                        before = test::allocation_count();
                      },
                  .on_epoch = {}});
  task.compile(CompileInfo::NONE);
  task.run();
  EXPECT_EQ(steps, 198);
  EXPECT_EQ(allocations, 0);
}

TEST(Training, EmaIsWhatIsValidatedAndSaved) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 3);
  task.use_ema(0.5f).save_best(folder.path("best.safetensors")).compile(CompileInfo::NONE);
  task.run();
  EXPECT_FALSE(test::is_close(task.fetch("0.weight"), task.fetch("ema/0.weight"),
                              test::tolerance(DType::FP32)));
  task.save_weights(folder.path("ema.safetensors"), WeightKind::EMA);
  DeepLearningTask other = toy::make_task(toy::make_session(), toy::make_data(), 1);
  other.load_weights(folder.path("ema.safetensors")).compile(CompileInfo::NONE);
  EXPECT_EQ(other.evaluate().loss, task.evaluate().loss);
  EXPECT_TRUE(std::filesystem::exists(folder.path("best.safetensors")));
}

TEST(Training, LogsEveryStep) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 2);
  std::vector<double> losses;
  task.log_file(folder.path("log.jsonl"), 1)
      .callbacks({.on_step = [&](DeepLearningTask&, std::int64_t, double loss,
                                 double) { losses.push_back(loss); },
                  .on_epoch = {}});
  task.compile(CompileInfo::NONE);
  task.run();
  std::ifstream file(folder.path("log.jsonl"));
  std::size_t steps = 0, epochs = 0;
  for (std::string line; std::getline(file, line);) {
    const auto object = nlohmann::json::parse(line);
    if (object.at("event") == "step") {
      EXPECT_EQ(object.at("loss").get<double>(), losses.at(steps));
      EXPECT_GT(object.at("lr").get<double>(), 0);
      ++steps;
    }
    epochs += object.at("event") == "epoch";
  }
  EXPECT_EQ(steps, 22u);
  EXPECT_EQ(epochs, 2u);
}

TEST(Training, ProgressComesThroughTheSink) {
  const LogSink log = set_log_sink([](LogLevel, std::string_view) {});
  std::vector<std::string> rows;
  ProgressSink former = set_progress_sink([&](const ProgressEvent& event) {
    if (event.kind == ProgressEvent::Kind::EPOCH) rows.push_back(event.text);
  });
  run_with({}, 2);
  set_progress_sink(std::move(former));
  set_log_sink(log);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_TRUE(contains(rows[0], "train loss") && contains(rows[0], "1/2")) << rows[0];
  EXPECT_TRUE(contains(rows[1], "2/2"));
}

// A sink that takes its own place away, or another's, while it is called: the run goes on.
TEST(Training, ASinkMayReplaceItself) {
  const toy::Quiet quiet;
  std::vector<std::string> first, second;
  set_progress_sink([&](const ProgressEvent& event) {
    if (event.kind != ProgressEvent::Kind::EPOCH) return;
    std::vector<std::string>& rows = first;  // what is captured may not vanish under the call
    set_progress_sink([&](const ProgressEvent& later) {
      if (later.kind == ProgressEvent::Kind::EPOCH) second.push_back(later.text);
    });
    rows.push_back(event.text);
  });
  EXPECT_EQ(run_with({}, 3).history.size(), 3u);
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_TRUE(contains(first[0], "1/3"));
  EXPECT_TRUE(contains(second[1], "3/3"));
}

TEST(Training, ASinkThatThrowsAtATickEndsTicksAndNotTheRun) {
  const test::LogCapture log;
  int ticks = 0;
  ProgressSink former = set_progress_sink([&](const ProgressEvent& event) {
    if (event.kind != ProgressEvent::Kind::TICK) return;
    ++ticks;
    throw std::runtime_error("the window is gone");
  });
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 2);
  Callbacks slow;
  slow.on_epoch = [](DeepLearningTask& t, const EpochRecord&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { t.callbacks({}); }), "while run()"));
  };
  task.callbacks(slow).compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  set_progress_sink(std::move(former));
  EXPECT_EQ(result.history.size(), 2u);
  EXPECT_EQ(ticks, 1);
  EXPECT_EQ(log.count("the sink threw at a tick"), 1) << log.text();
}

TEST(Training, EarlyStopAndValidationIntervals) {
  const toy::Quiet quiet;
  const TrainingResult stopped = run_with({{"early_stop_top1", "0.01"}}, 5);
  EXPECT_EQ(stopped.history.size(), 1u);
  const TrainingResult sparse = run_with({{"validate_every", "2"}}, 5);
  ASSERT_EQ(sparse.history.size(), 5u);
  EXPECT_LT(sparse.history[0].top1, 0) << "not validated";
  EXPECT_GE(sparse.history[1].top1, 0);
  EXPECT_LT(sparse.history[2].top1, 0);
  EXPECT_GE(sparse.history[4].top1, 0) << "the last epoch always is";
}

TEST(Weights, GoOutAndInByPyTorchNames) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  task.save_weights(folder.path("w.safetensors"));
  const SafetensorsFile file = load_safetensors(folder.path("w.safetensors"));
  EXPECT_EQ(file.at("0.weight").shape(), Shape({16, 8}));
  EXPECT_EQ(file.at("3.bias").shape(), Shape({4}));
  EXPECT_EQ(file.tensors.size(), 4u);

  SafetensorsFile wrong = file;
  wrong.tensors[0].name = "stranger";
  save_safetensors(folder.path("wrong.safetensors"), wrong);
  DeepLearningTask strict = toy::make_task(toy::make_session(), toy::make_data(), 1);
  strict.load_weights(folder.path("wrong.safetensors"));
  const std::string message =
      message_of<InvalidArgument>([&] { strict.compile(CompileInfo::NONE); });
  EXPECT_TRUE(contains(message, "missing") && contains(message, "stranger")) << message;
  DeepLearningTask lenient = toy::make_task(toy::make_session(), toy::make_data(), 1);
  lenient.load_weights(folder.path("wrong.safetensors"), false).compile(CompileInfo::NONE);
}

TEST(Weights, FirstFcAfterAnImageIsPermutedInFiles) {
  const toy::Quiet quiet;
  const Tensor images = Tensor::uniform({12, 2, 3, 4}, 0, 1, 1);
  const std::vector<std::int32_t> labels(12, 1);
  const auto set = make_tensor_dataset(
      {{"image", images}, {"label", Tensor::from({12}, std::span<const std::int32_t>(labels))}}, 3);
  DeepLearningTask task;
  task.model(seq(flatten(), fc(3, true)))
      .session(toy::make_session(4))
      .dataset({set, set})
      .compile(CompileInfo::NONE);
  const Tensor file = task.fetch("1.weight");  // [3, C * H * W]
  const Tensor y = task.predict(images);
  const Tensor bias = task.fetch("1.bias");
  for (int n = 0; n < 12; ++n) {
    for (int o = 0; o < 3; ++o) {
      double sum = bias.at(o);
      for (int c = 0; c < 4; ++c) {
        for (int h = 0; h < 2; ++h) {
          for (int w = 0; w < 3; ++w) {
            sum += images.at(((n * 2 + h) * 3 + w) * 4 + c) * file.at(o * 24 + (c * 2 + h) * 3 + w);
          }
        }
      }
      EXPECT_TRUE(test::is_near(y.at(n * 3 + o), sum, test::tolerance(DType::FP32, 24)));
    }
  }
}

TEST(Weights, FrozenOnesStay) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.freeze("0.").compile(CompileInfo::NONE);
  const Tensor frozen = task.fetch("0.weight"), trained = task.fetch("3.weight");
  task.run();
  EXPECT_TRUE(is_close(task.fetch("0.weight"), frozen, 0, 0));
  EXPECT_FALSE(test::is_close(task.fetch("3.weight"), trained, test::run_tolerance(11, true)));
  EXPECT_EQ(task.fetch("3.weight.grad").shape(), trained.shape());
  EXPECT_THROW(task.fetch("0.weight.grad"), InvalidArgument) << "none is made: no part of the norm";
  DeepLearningTask typo = toy::make_task(toy::make_session(), toy::make_data(), 1);
  typo.freeze("first.");
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { typo.compile(CompileInfo::NONE); }), "first."));
}

TEST(Inspection, PredictTakesAnyNumberOfSamples) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.compile(CompileInfo::NONE);
  task.run();
  const Tensor x = Tensor::uniform({47, 8}, -1, 1, 9);
  const Tensor all = task.predict(x);
  EXPECT_EQ(all.shape(), Shape({47, 4}));
  Tensor one({1, 8}, DType::FP32);
  std::memcpy(one.raw(), x.data<float>() + 46 * 8, 32);
  const Tensor last = task.predict(one);
  for (int c = 0; c < 4; ++c) EXPECT_EQ(last.at(c), all.at(46 * 4 + c));
  EXPECT_THROW(task.predict(Tensor::zeros({3, 9})), InvalidArgument);
}

TEST(Inspection, FetchFindsTensorsByName) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.compile(CompileInfo::NONE);
  task.run();
  EXPECT_EQ(task.fetch("counters").at(1), 11) << "steps of one epoch";
  EXPECT_EQ(task.fetch("0.weight.grad").shape(), Shape({16, 8}));
  EXPECT_EQ(task.fetch("counters").at(1), 11) << "running again changed nothing";
  EXPECT_THROW(task.fetch("no such tensor"), InvalidArgument);
}

TEST(BadInput, WrongWeightsAreNamedByLayer) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.compile(CompileInfo::NONE);
  task.save_weights(folder.path("w.safetensors"));
  SafetensorsFile file = load_safetensors(folder.path("w.safetensors"));
  for (NamedTensor& t : file.tensors) {
    if (t.name == "3.weight") t.tensor.data<float>()[0] = std::numeric_limits<float>::infinity();
  }
  save_safetensors(folder.path("w.safetensors"), file);
  for (const bool strict : {true, false}) {
    DeepLearningTask broken = toy::make_task(toy::make_session(), toy::make_data(), 1);
    broken.load_weights(folder.path("w.safetensors"), strict);
    const std::string message = message_of<DataError>([&] { broken.compile(CompileInfo::NONE); });
    EXPECT_TRUE(contains(message, "3.weight") && contains(message, "1 of 64")) << message;
  }
}

TEST(Inspection, PredictGivesAnOutputThatLayersReadToo) {
  const toy::Quiet quiet;
  const Value x = input();
  const Value hidden = fc(4, true)(x);
  const BluePrint both = model({x}, {hidden, fc(4, true)(relu()(hidden))});
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  task.model(both).compile(CompileInfo::NONE);
  task.run();
  const Tensor batch = Tensor::normal({3, 8}, 0, 1, 5);
  const Tensor got = task.predict(batch);
  const Tensor weight = task.fetch("0.weight"), bias = task.fetch("0.bias");
  for (int i = 0; i < 12; ++i) {
    double want = bias.at(i % 4);
    for (int k = 0; k < 8; ++k) want += weight.at(i % 4 * 8 + k) * batch.at(i / 4 * 8 + k);
    EXPECT_TRUE(test::is_near(got.at(i), want, test::tolerance(DType::FP32, 8, 4)))
        << "neither clipped in place nor fused with the relu";
  }
}

TEST(Inspection, PredictGivesViewsAndInputs) {
  const toy::Quiet quiet;
  const Tensor batch = Tensor::normal({3, 8}, 0, 1, 5);
  const Value x = input();
  for (const BluePrint& viewed : {seq(flatten()), model({x}, {x}), seq(relu(), flatten()),
                                  seq(flatten(), identity(), flatten())}) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
    task.model(viewed).compile(CompileInfo::NONE);
    const Tensor got = task.predict(batch);
    ASSERT_EQ(got.shape(), Shape({3, 8}));
    for (int i = 0; i < 24; ++i) {
      const double clipped = std::max(0.0, batch.at(i));
      EXPECT_TRUE(got.at(i) == batch.at(i) || got.at(i) == clipped) << i;
    }
  }
}

TEST(Inspection, EvaluateWaitsForTheOtherRanks) {
  const toy::Quiet quiet;
  Session session = toy::make_session();
  session.global.cpu_ranks(2);
  DeepLearningTask task = toy::make_task(session, toy::make_data(), 1);
  std::string message;
  std::int64_t in_epoch = 0;
  task.callbacks({.on_step =
                      [&](DeepLearningTask& t, std::int64_t step, double, double) {
                        if (step == 2) message = message_of<InvalidArgument>([&] { t.evaluate(); });
                      },
                  .on_epoch = [&](DeepLearningTask& t,
                                  const EpochRecord&) { in_epoch = t.evaluate().num_samples; }});
  task.compile(CompileInfo::NONE).run();
  EXPECT_TRUE(contains(message, "on_step of 2 ranks")) << message;
  EXPECT_EQ(in_epoch, 75);
}

TEST(Inspection, EvaluationLeavesTheFilesOfATrainingAlone) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask training = toy::make_task(toy::make_session(), toy::make_data(), 1);
  training.save_every(folder.path("run")).compile(CompileInfo::NONE);
  const std::string checkpoint = training.run().checkpoint_path;
  DeepLearningTask evaluation =
      toy::make_task(toy::make_session(), {nullptr, toy::make_data().val}, 1);
  evaluation.save_every(folder.path("run")).log_file(folder.path("log"));
  evaluation.compile(CompileInfo::NONE).evaluate();
  EXPECT_TRUE(std::filesystem::exists(checkpoint)) << "it was not moved to former-1";
  EXPECT_FALSE(std::filesystem::exists(folder.path("log")));
}

TEST(BadInput, IsToldBeforeAnyStep) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const auto compile_error = [&](const std::function<void(DeepLearningTask&)>& change) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
    try {
      change(task);
      task.compile(CompileInfo::NONE);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("nothing was thrown");
  };
  using Task = DeepLearningTask;
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.total_epochs(0); }), "total_epochs is 0"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.set("base_lr", "-1"); }), "base_lr"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.set("global_batch_size", "0"); }),
                       "global_batch_size"));
  EXPECT_TRUE(contains(
      compile_error([](Task& t) { t.set("drop_last", "true").set("global_batch_size", "500"); }),
      "drop_last"));
  EXPECT_TRUE(
      contains(compile_error([](Task& t) { t.set("accumulate_steps", "3"); }), "multiple of 3"));
  EXPECT_TRUE(
      contains(compile_error([](Task& t) { t.set("local_batch_size", "7"); }), "local_batch_size"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.set("device", "cuda:0"); }), "device=cpu"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.set("load_weights", "/no/such/file"); }),
                       "/no/such/file"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.log_file("/no/such/folder/log"); }),
                       "/no/such/folder"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.save_best("/no/such/folder/w"); }),
                       "/no/such/folder"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.loss(MSELoss()); }), "target"));
  EXPECT_TRUE(contains(compile_error([](Task& t) { t.model(seq(fc(3, true))); }), "3 outputs"));
  std::ofstream(folder.path("file")) << "x";
  EXPECT_TRUE(contains(compile_error([&](Task& t) { t.save_every(folder.path("file")); }), "file"));
  EXPECT_TRUE(contains(
      compile_error([](Task& t) {
        const std::vector<std::int32_t> labels = {0, 9};
        t.dataset({make_tensor_dataset(
                       {{"image", Tensor::zeros({2, 8})},
                        {"label", Tensor::from({2}, std::span<const std::int32_t>(labels))}}),
                   nullptr});
      }),
      "label of sample 1"));
  EXPECT_TRUE(contains(compile_error([](Task& t) {
                         Session session = toy::make_session();
                         session.preprocessor.dataset("mnist", "/no/such/folder");
                         session.global.input_resolution(28);
                         DeepLearningTask named;
                         named.model(toy::make_model()).session(session).compile(CompileInfo::NONE);
                         (void)t;
                       }),
                       "/no/such/folder"));
}

// An op that no device has a kernel of.
const OpRegistration kWithoutKernel{{.name = "task_test_without_kernel",
                                     .inputs = {"x"},
                                     .outputs = {"y"},
                                     .infer = [](const Attrs&, std::span<const TensorType> in) {
                                       return std::vector<TensorType>{in[0]};
                                     }}};

TEST(BadInput, MissingKernelComesBeforeMissingData) {
  const toy::Quiet quiet;
  Session session = toy::make_session();
  session.preprocessor.dataset("imagenet", "/no/such/folder");
  session.global.input_resolution(32);
  DeepLearningTask task;
  task.model(seq(layer("task_test_without_kernel", {}), fc(1000, true))).session(session);
  const std::string message = message_of<Unsupported>([&] { task.compile(CompileInfo::NONE); });
  EXPECT_TRUE(contains(message, "without_kernel") &&
              contains(message, "deep_learning_task_test.cpp"))
      << message;
}

TEST(Amp, SkipsOverflowsAndHalvesTheScale) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(2000), 2);
  task.set("amp", "fp16").set("loss_scale", "1e30").compile(CompileInfo::NONE);
  const TrainingResult result = task.run();
  EXPECT_GT(result.history[0].skipped_steps, 10);
  EXPECT_EQ(result.history[1].skipped_steps, 0);
  EXPECT_LT(task.fetch("loss_scale").item(), 1e30);
  EXPECT_EQ(task.fetch("counters").at(2), 200 - result.history[0].skipped_steps) << "updates";
  EXPECT_TRUE(std::isfinite(result.history[0].train_loss));
}

TEST(Tasks, OnesThatWereMovedFromSayIt) {
  const toy::Quiet quiet;
  DeepLearningTask from = toy::make_task(toy::make_session(), toy::make_data(), 1);
  DeepLearningTask task = std::move(from);
  const std::vector<std::function<void()>> calls{[&] { from.model(toy::make_model()); },
                                                 [&] { from.total_epochs(1); },
                                                 [&] { from.set("seed", "1"); },
                                                 [&] { from.callbacks({}); },
                                                 [&] { from.compile(); },
                                                 [&] { from.run(); },
                                                 [&] { from.cancel(); },
                                                 [&] { (void)from.phase(); },
                                                 [&] { (void)from.compile_ms(); },
                                                 [&] { (void)from.learning_rates(1); },
                                                 [&] { (void)from.config_json(); },
                                                 [&] { from.save_weights("weights"); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_TRUE(contains(message_of<InvalidArgument>(calls[i]), "that was moved from")) << i;
  }
  from = std::move(task);
  EXPECT_EQ(from.compile(CompileInfo::NONE).run().history.size(), 1u);
}

TEST(Tasks, SeveralLiveInOneProcess) {
  const toy::Quiet quiet;
  const std::string alone = run_with({}).weights_sha256;
  DeepLearningTask a = toy::make_task(toy::make_session(), toy::make_data(), 2);
  DeepLearningTask b = toy::make_task(toy::make_session(30), toy::make_data(), 1);
  a.compile(CompileInfo::NONE);
  b.compile(CompileInfo::NONE);
  b.run();
  EXPECT_EQ(a.run().weights_sha256, alone);
}

}  // namespace
}  // namespace tr

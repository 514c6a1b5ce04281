// SPDX-License-Identifier: Apache-2.0
// A run that is interrupted and continued has the bytes of the unbroken one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "core/input_file.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "task/checkpoint.h"
#include "toy.h"

namespace tr {
namespace {

constexpr int kEpochs = 4;  // of 11 steps: 210 samples in batches of 20, the last one of 10

DeepLearningTask checkpointed(const std::string& folder, int workers) {
  DeepLearningTask task = toy::make_task(toy::make_session(20, workers), toy::make_data(), kEpochs);
  task.use_ema(0.9f).save_every(folder, 1, 2).resume();
  return task;
}

TrainingResult unbroken() {
  const test::TempFolder folder;
  DeepLearningTask task = checkpointed(folder.path(), 1);
  task.compile(CompileInfo::NONE);
  return task.run();
}

void expect_same_run(const TrainingResult& got, const TrainingResult& want) {
  EXPECT_EQ(got.weights_sha256, want.weights_sha256);
  EXPECT_EQ(got.best_epoch, want.best_epoch);
  EXPECT_EQ(got.best_top1, want.best_top1);
  ASSERT_EQ(got.history.size(), want.history.size());
  for (std::size_t i = 0; i < got.history.size(); ++i) {
    EXPECT_EQ(got.history[i].train_loss, want.history[i].train_loss) << "epoch " << i + 1;
    EXPECT_EQ(got.history[i].val_loss, want.history[i].val_loss) << "epoch " << i + 1;
    EXPECT_EQ(got.history[i].top1, want.history[i].top1);
    EXPECT_EQ(got.history[i].lr, want.history[i].lr);
  }
}

TEST(Resume, GivesTheBytesOfTheUnbrokenRun) {
  const toy::Quiet quiet;
  const TrainingResult want = unbroken();
  std::mt19937 random(1);
  for (int trial = 0; trial < 10; ++trial) {
    const std::int64_t stop_at = 1 + std::int64_t(random() % 43);
    SCOPED_TRACE("stopped after step " + std::to_string(stop_at));
    const test::TempFolder folder;
    {
      DeepLearningTask task = checkpointed(folder.path(), 1 + trial % 3);
      task.callbacks({.on_step =
                          [&](DeepLearningTask& t, std::int64_t step, double, double) {
                            if (step == stop_at) t.cancel();
                          },
                      .on_epoch = {}});
      task.compile(CompileInfo::NONE);
      EXPECT_TRUE(task.run().cancelled);
    }
    DeepLearningTask task = checkpointed(folder.path(), 1 + (trial + 1) % 3);
    task.compile(CompileInfo::NONE);
    expect_same_run(task.run(), want);
  }
}

TEST(Resume, ContinuesInTheSameTaskAfterCancel) {
  const toy::Quiet quiet;
  const TrainingResult want = unbroken();
  const test::TempFolder folder;
  DeepLearningTask task = checkpointed(folder.path(), 2);
  task.callbacks({.on_step =
                      [](DeepLearningTask& t, std::int64_t step, double, double) {
                        if (step % 7 == 0) t.cancel();
                      },
                  .on_epoch = {}});
  task.compile(CompileInfo::NONE);
  TrainingResult result = task.run();
  int runs = 1;
  while (result.cancelled && ++runs < 20) result = task.run();
  EXPECT_GT(runs, 3);
  expect_same_run(result, want);
}

TEST(Resume, ACancelBeforeTheRunEndsItBeforeItsFirstStep) {
  const toy::Quiet quiet;
  const TrainingResult want = unbroken();
  for (const bool compiled : {false, true}) {
    const test::TempFolder folder;
    DeepLearningTask task = checkpointed(folder.path(), 2);
    if (!compiled) task.cancel();
    task.compile(CompileInfo::NONE);
    if (compiled) std::thread([&] { task.cancel(); }).join();
    const TrainingResult stopped = task.run();
    EXPECT_TRUE(stopped.cancelled);
    EXPECT_TRUE(stopped.history.empty());
    EXPECT_NE(stopped.checkpoint_path.find("0000000000"), std::string::npos)
        << stopped.checkpoint_path;
    EXPECT_EQ(task.fetch("counters").at(1), 0) << "steps";
    if (compiled) {  // the wish is used up: the same task goes on
      expect_same_run(task.run(), want);
    } else {
      DeepLearningTask rest = checkpointed(folder.path(), 2);
      rest.compile(CompileInfo::NONE);
      expect_same_run(rest.run(), want);
    }
  }
}

TEST(Resume, ACancelAfterTheLastStepIsForNoOtherRun) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask task = checkpointed(folder.path(), 1);
  task.callbacks({.on_step = {}, .on_epoch = [](DeepLearningTask& t, const EpochRecord& record) {
                    if (record.epoch == 4) t.cancel();
                  }});
  task.compile(CompileInfo::NONE);
  EXPECT_FALSE(task.run().cancelled) << "nothing was left to end";
  task.cancel();
  EXPECT_FALSE(task.run().cancelled) << "a finished run gives its result";
}

TEST(Resume, SurvivesKillAtRandomMoments) {
  const toy::Quiet quiet;
  const TrainingResult want = unbroken();
  const test::TempFolder folder;
  std::mt19937 random(2);
  for (int trial = 0; trial < 6; ++trial) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      DeepLearningTask task = checkpointed(folder.path(), 2);
      task.set("checkpoint.every_steps", "1");
      task.callbacks(
          {.on_step = [](DeepLearningTask&, std::int64_t, double, double) { ::usleep(3000); },
           .on_epoch = {}});
      task.compile(CompileInfo::NONE);
      task.run();
      ::_exit(0);
    }
    // The first kill waits for a checkpoint, so that later ones have something to continue from.
    for (int look = 0; look < 15000 && !CheckpointFolder::newest(folder.path()); ++look)
      ::usleep(2000);
    ::usleep(useconds_t(random() % 120000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  ASSERT_TRUE(CheckpointFolder::newest(folder.path()));
  DeepLearningTask task = checkpointed(folder.path(), 1);
  task.set("checkpoint.every_steps", "1");
  task.compile(CompileInfo::NONE);
  expect_same_run(task.run(), want);
}

TEST(Resume, FinishedRunsGiveTheirResult) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask first = checkpointed(folder.path(), 1);
  first.compile(CompileInfo::NONE);
  const TrainingResult want = first.run();
  DeepLearningTask again = checkpointed(folder.path(), 1);
  int steps = 0;
  again.callbacks({.on_step = [&](DeepLearningTask&, std::int64_t, double, double) { ++steps; },
                   .on_epoch = {}});
  again.compile(CompileInfo::NONE);
  expect_same_run(again.run(), want);
  EXPECT_EQ(steps, 0);
}

TEST(Resume, RefusesOtherSettingsAndModels) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask first = checkpointed(folder.path(), 1);
  first.compile(CompileInfo::NONE);
  first.run();
  DeepLearningTask other = checkpointed(folder.path(), 1);
  other.set("weight_decay", "0.5");
  try {
    other.compile(CompileInfo::NONE);
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("weight_decay was"), std::string::npos)
        << error.what();
  }
  DeepLearningTask model = checkpointed(folder.path(), 1);
  model.model(seq(fc(12, true), relu(), fc(4, true)));
  EXPECT_THROW(model.compile(CompileInfo::NONE), InvalidArgument);
}

TEST(Resume, RefusesAnotherSet) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask first = checkpointed(folder.path(), 1);
  first.compile(CompileInfo::NONE).run();
  for (const std::int64_t samples : {60, 211, 1000}) {  // fewer steps an epoch, as many, more
    DeepLearningTask other = checkpointed(folder.path(), 1);
    other.dataset(toy::make_data(samples)).total_epochs(kEpochs + 1);
    EXPECT_TRUE(test::throws<InvalidArgument>(
        [&] { other.compile(CompileInfo::NONE); },
        "made with 210 training samples, this set has " + std::to_string(samples)));
  }
}

TEST(Resume, OneRunWritesToAFolder) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask first = checkpointed(folder.path(), 1);
  std::string message;
  first.callbacks({.on_step =
                       [&](DeepLearningTask&, std::int64_t step, double, double) {
                         if (step != 20) return;
                         DeepLearningTask second = checkpointed(folder.path(), 1);
                         try {
                           second.compile(CompileInfo::NONE);
                         } catch (const DataError& error) {
                           message = error.what();
                         }
                       },
                   .on_epoch = {}});
  first.compile(CompileInfo::NONE);
  expect_same_run(first.run(), unbroken());
  EXPECT_NE(message.find("another run is writing there"), std::string::npos) << message;
}

TEST(Resume, IntervalsAndTheNameOfTheDeviceMayChange) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  Session unset = toy::make_session();
  unset.global = GlobalSetting().manual_seed(7).global_batch_size(20).threads(1);
  DeepLearningTask first = toy::make_task(unset, toy::make_data(), 2);
  first.save_every(folder.path()).compile(CompileInfo::NONE);
  first.run();
  DeepLearningTask second = toy::make_task(toy::make_session(), toy::make_data(), 4);
  second.save_every(folder.path()).resume().validate_every(4).compile(CompileInfo::NONE);
  const TrainingResult result = second.run();
  ASSERT_EQ(result.history.size(), 4u);
  EXPECT_LT(result.history[2].top1, 0) << "not validated";
  EXPECT_GE(result.history[3].top1, 0);
}

TEST(Resume, AGoalThatWasNotReachedDoesNotEndALongerRun) {
  const toy::Quiet quiet;
  const auto run_to = [](const std::string& folder, int epochs, const char* goal) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), epochs);
    task.scheduler(ConstantLR().base_lr(0.01)).save_every(folder).resume();
    task.set("early_stop_top1", goal).compile(CompileInfo::NONE);
    return task.run();
  };
  const test::TempFolder folder, whole, reached;
  EXPECT_EQ(run_to(folder.path(), 2, "1").history.size(), 2u);
  expect_same_run(run_to(folder.path(), 4, "1"), run_to(whole.path(), 4, "1"));
  EXPECT_EQ(run_to(reached.path(), 2, "0.01").history.size(), 1u);
  EXPECT_EQ(run_to(reached.path(), 4, "0.01").history.size(), 1u) << "it has been reached";
}

// It ends with the best epoch's weights; a longer one goes on from the last epoch's.
TEST(Resume, ALongerRunGoesOnFromTheLastEpochNotFromTheBest) {
  const toy::Quiet quiet;
  const auto run_to = [](const std::string& folder, int epochs) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), epochs);
    task.scheduler(ConstantLR().base_lr(0.01)).save_every(folder).resume();
    task.early_stop({.metric = "val_loss", .mode = Plateau::Mode::MAX, .restore_best = true})
        .compile(CompileInfo::NONE);
    return task.run();
  };
  const test::TempFolder folder, whole;
  const TrainingResult want = run_to(whole.path(), 4), ended = run_to(folder.path(), 2);
  EXPECT_EQ(ended.weights_sha256, want.weights_sha256) << "the first epoch's: the loss falls";
  expect_same_run(run_to(folder.path(), 2), ended);
  expect_same_run(run_to(folder.path(), 4), want);
}

// What a run began with is in its checkpoint; the file may lie elsewhere by now, or nowhere.
TEST(Resume, TheFileThatARunBeganWithMayBeGone) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask first = toy::make_task(toy::make_session(), toy::make_data(), 1);
  first.compile(CompileInfo::NONE).save_weights(folder.path("w.safetensors"));
  const auto continued = [&](const std::string& weights, int epochs) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), epochs);
    task.scheduler(ConstantLR().base_lr(0.01)).load_weights(weights);
    task.save_every(folder.path("run")).resume().compile(CompileInfo::NONE);
    return task.run();
  };
  continued(folder.path("w.safetensors"), 1);
  EXPECT_EQ(continued(folder.path("no/such/file"), 2).history.size(), 2u);
  EXPECT_EQ(continued("", 3).history.size(), 3u);
}

TEST(Resume, TheBestIsMarkedByTheNextRunWhereAKilledOneDidNot) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const auto run_once = [&] {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
    task.save_every(folder.path()).resume().compile(CompileInfo::NONE);
    return task.run();
  };
  const TrainingResult result = run_once();
  std::filesystem::remove(folder.path("best.safetensors"));
  run_once();
  ASSERT_TRUE(std::filesystem::exists(folder.path("best.safetensors")));
  EXPECT_EQ(read_text(folder.path("best.safetensors")), read_text(result.checkpoint_path));
}

TEST(Resume, HalfALineOfAKilledRunHidesNoRecord) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const std::string log = folder.path("log.jsonl");
  const auto run_to = [&](int epochs) {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), epochs);
    task.scheduler(ConstantLR().base_lr(0.01)).save_every(folder.path()).resume();
    task.log_file(log).compile(CompileInfo::NONE).run();
  };
  run_to(1);
  const std::string first = read_text(log);
  std::filesystem::resize_file(log, first.size() - 9);
  run_to(2);
  const std::string all = read_text(log);
  ASSERT_TRUE(all.starts_with(first.substr(0, first.size() - 9) + "\n{\"event\":\"config\""));
  run_to(3);
  EXPECT_TRUE(read_text(log).starts_with(all + "{\"event\":\"config\"")) << "whole lines stay";
}

// By their steps the first one's checkpoints would count as newer, and the second's be removed.
TEST(Resume, ARunBetweenCompileAndRunIsSetAside) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  DeepLearningTask second = toy::make_task(toy::make_session(), toy::make_data(), 1);
  second.save_every(folder.path()).compile(CompileInfo::NONE);
  DeepLearningTask first = toy::make_task(toy::make_session(), toy::make_data(), 3);
  first.save_every(folder.path()).compile(CompileInfo::NONE).run();
  const TrainingResult result = second.run();
  EXPECT_TRUE(std::filesystem::exists(result.checkpoint_path)) << result.checkpoint_path;
  EXPECT_EQ(CheckpointFolder::newest(folder.path())->path, result.checkpoint_path);
  EXPECT_EQ(CheckpointFolder::newest(folder.path("former-1"))->step, 33);
}

TEST(Resume, AStateThatMeansNothingIsNamedByItsFile) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const auto make = [&] {
    DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 2);
    task.save_every(folder.path()).resume();
    return task;
  };
  make().compile(CompileInfo::NONE).run();
  const auto sound = CheckpointFolder::newest(folder.path());
  const std::tuple<const char*, const char*, const char*> wrong[] = {
      {"config", "[]", "its state cannot be read: its configuration is array, expected an object"},
      {"config", "null", "its state cannot be read: its configuration is null"},
      {"tuning", "\"{}\"", "its state cannot be read: tuning table"},
      {"best_loss", "\"x\"", "its state cannot be read: the number \"x\" is unknown"},
      {"step", "-1", "its state cannot be read: a negative position"},
      {"step", "11", "it was made at step 11 of an epoch, this run's have 11"}};
  for (const auto& [key, value, words] : wrong) {
    auto state = nlohmann::json::parse(sound->checkpoint.state);
    state[key] = nlohmann::json::parse(value);
    Checkpoint changed = sound->checkpoint;
    changed.state = state.dump();
    save_safetensors(sound->path, changed.to_file());
    DeepLearningTask task = make();
    EXPECT_TRUE(test::throws<DataError>([&] { task.compile(CompileInfo::NONE); },
                                        sound->path + ": " + words))
        << key;
  }
}

TEST(Resume, SignalsWriteACheckpoint) {
  const toy::Quiet quiet;
  const TrainingResult want = unbroken();
  const test::TempFolder folder;
  DeepLearningTask task = checkpointed(folder.path(), 1);
  task.callbacks({.on_step =
                      [](DeepLearningTask&, std::int64_t step, double, double) {
                        if (step == 17) ::raise(SIGTERM);
                      },
                  .on_epoch = {}});
  task.compile(CompileInfo::NONE);
  const TrainingResult stopped = task.run();
  EXPECT_TRUE(stopped.cancelled);
  EXPECT_NE(stopped.checkpoint_path.find("0000000017"), std::string::npos)
      << stopped.checkpoint_path;
  DeepLearningTask rest = checkpointed(folder.path(), 2);
  rest.compile(CompileInfo::NONE);
  expect_same_run(rest.run(), want);
}

}  // namespace
}  // namespace tr

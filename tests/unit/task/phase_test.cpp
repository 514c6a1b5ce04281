// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "support/near.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

TEST(SimpleTask, RunsOneOpInTenLines) {
  SimpleTask task;
  const DTensor x = task.alloc({2, 3}), y = task.alloc({2, 3});
  task.finalize_memory();
  task.add_graph("forward", {{"relu", {x}, {y}, {}}});
  task.compile();
  const std::vector<float> values = {-1, 2, -3, 4, 0, -6};
  task.transfer(Tensor::from({2, 3}, std::span<const float>(values)), x);
  task.run("forward");
  const Tensor result = task.fetch(y);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(result.at(i), std::max(values[std::size_t(i)], 0.0f));
  EXPECT_GT(task.arena_bytes(), 0);
}

TEST(SimpleTask, KeepsItsPhasesApart) {
  SimpleTask task;
  const DTensor x = task.alloc({4}), y = task.alloc({4});
  EXPECT_EQ(task.phase(), Phase::PLANNING);
  EXPECT_THROW(task.add_graph("g", {{"relu", {x}, {y}, {}}}), InvalidArgument);
  EXPECT_THROW(task.compile(), InvalidArgument);
  EXPECT_THROW(task.run("g"), InvalidArgument);
  EXPECT_THROW(task.fetch(y), InvalidArgument);
  task.finalize_memory();
  EXPECT_EQ(task.phase(), Phase::MEMORY_LOCKED);
  EXPECT_THROW(task.alloc({4}), InvalidArgument);
  EXPECT_THROW(task.fill(x, 1), InvalidArgument);
  task.add_graph("g", {{"relu", {x}, {y}, {}}});
  EXPECT_THROW(task.add_graph("g", {{"relu", {x}, {y}, {}}}), InvalidArgument)
      << "the name is taken";
  task.compile();
  EXPECT_EQ(task.phase(), Phase::COMPILED);
  EXPECT_THROW(task.finalize_memory(), InvalidArgument);
  EXPECT_THROW(task.run("other"), InvalidArgument);
}

TEST(SimpleTask, RefusesWrongTensors) {
  SimpleTask task, other;
  const DTensor x = task.alloc({4}), y = task.alloc({5}), z = task.alloc({4}, DType::INT32);
  const DTensor foreign = other.alloc({4}, DType::FP32, "foreign");
  EXPECT_THROW(task.alloc({4}, DType::FP32, x.name), InvalidArgument);
  task.finalize_memory();
  EXPECT_THROW(task.add_graph("shape", {{"relu", {x}, {y}, {}}}), InvalidArgument);
  EXPECT_THROW(task.add_graph("foreign", {{"relu", {foreign}, {x}, {}}}), InvalidArgument);
  SimpleTask twin;  // whose tensors look the same
  EXPECT_THROW(task.add_graph("twin", {{"relu", {twin.alloc({4})}, {x}, {}}}), InvalidArgument);
  EXPECT_THROW(task.add_graph("unknown", {{"rellu", {x}, {x}, {}}}), InvalidArgument);
  EXPECT_THROW(task.add_graph("empty", {}), InvalidArgument);
  task.add_graph("good", {{"relu", {x}, {x}, {}}});
  task.compile();
  EXPECT_THROW(task.transfer(Tensor::zeros({5}), x), InvalidArgument);
  EXPECT_THROW(task.transfer(Tensor::zeros({4}), z), InvalidArgument);
}

// It would read what it has written already.
TEST(SimpleTask, RefusesOutputsOverInputsThatAreStillRead) {
  SimpleTask task;
  const DTensor x = task.alloc({4, 4}), y = task.alloc({4, 4});
  task.finalize_memory();
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        task.add_graph("a", {{"matmul", {x, x}, {x}}});
      },
      "\"tensor0\" is output 0 and input 0 too"));
  EXPECT_TRUE(test::throws<InvalidArgument>(
      [&] {
        task.add_graph("a", {{"matmul", {y, x}, {x}}});
      },
      "is output 0 and input 1 too"));
  task.add_graph("b", {{"relu", {x}, {x}}, {"matmul", {x, x}, {y}}});
  task.compile();
  task.fill(x, -1);
  task.run("b");
  EXPECT_EQ(task.fetch(x).data<float>()[5], 0);
}

// A task that was given up in the middle of a run is of no use; one that runs is told apart.
TEST(DeepLearningTask, RunsInsideARunAreRefused) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  std::string inner;
  const auto again = [&](DeepLearningTask& t) {
    try {
      t.run();
    } catch (const InvalidArgument& error) {
      inner += error.what();
    }
  };
  task.callbacks({.on_step =
                      [&](DeepLearningTask& t, std::int64_t step, double, double) {
                        if (step == 2) again(t);
                      },
                  .on_epoch = [&](DeepLearningTask& t, const EpochRecord&) { again(t); }});
  EXPECT_EQ(task.compile(CompileInfo::NONE).run().history.size(), 1u);
  EXPECT_NE(inner.find("called while this task runs"), std::string::npos) << inner;
  EXPECT_NE(inner.find("called while"), inner.rfind("called while")) << "in both callbacks";
  task.scale_lr(1e30);
  EXPECT_THROW(task.scale_lr(1e30), InvalidArgument) << "infinite as fp32";
}

// The run holds its task: another object, or none, would be left to the rest of it.
TEST(DeepLearningTask, MovesInsideARunAreRefused) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  int refused = 0;
  const auto move = [&](DeepLearningTask& t) {
    const std::string words = "while it runs, expected after its run() ends";
    refused +=
        test::throws<InvalidArgument>([&] { const DeepLearningTask other(std::move(t)); }, words) &&
        test::throws<InvalidArgument>([&] { DeepLearningTask().operator=(std::move(t)); }, words) &&
        test::throws<InvalidArgument>([&] { t = DeepLearningTask(); }, words);
  };
  task.callbacks({.on_step =
                      [&](DeepLearningTask& t, std::int64_t step, double, double) {
                        if (step == 2) move(t);
                      },
                  .on_epoch = [&](DeepLearningTask& t, const EpochRecord&) { move(t); }});
  EXPECT_EQ(task.compile(CompileInfo::NONE).run().history.size(), 1u);
  EXPECT_EQ(refused, 2) << "in both callbacks";
  DeepLearningTask kept(std::move(task));
  EXPECT_GT(kept.evaluate().num_samples, 0);
  kept = DeepLearningTask();
  EXPECT_EQ(kept.phase(), Phase::PLANNING);
}

// A rank that runs a step alone would wait for the others' sums for ever.
TEST(DeepLearningTask, ProfilesWhateverTheRanksAndTheBatch) {
  const toy::Quiet quiet;
  struct Case {
    int batch, ranks, accumulate_steps;
  };
  for (const auto& [batch, ranks, accumulate_steps] :
       {Case{20, 2, 1}, {20, 1, 4}, {1000, 1, 1}, {1000, 4, 1}, {1000, 1, 10}}) {
    SCOPED_TRACE(testing::Message() << batch << " " << ranks << " " << accumulate_steps);
    Session session = toy::make_session(batch);
    session.global.cpu_ranks(ranks).accumulate_steps(accumulate_steps);
    const auto trained = [&](bool profiled) {
      DeepLearningTask task = toy::make_task(session, toy::make_data(), 2);
      task.callbacks({.on_step = {}, .on_epoch = [&](DeepLearningTask& t, const EpochRecord&) {
                        EXPECT_GT(profiled ? t.profile().size() : 9, 5u);
                      }});
      return task.compile(CompileInfo::NONE).run().weights_sha256;
    };
    EXPECT_EQ(trained(true), trained(false)) << "it changes nothing";
  }
  Session two = toy::make_session();
  two.global.cpu_ranks(2);
  DeepLearningTask task = toy::make_task(two, toy::make_data(), 1);
  task.callbacks({.on_step = [](DeepLearningTask& t, std::int64_t, double, double) { t.profile(); },
                  .on_epoch = {}});
  EXPECT_TRUE(test::throws<InvalidArgument>([&] { task.compile(CompileInfo::NONE).run(); },
                                            "profile: it is called in on_step of 2 ranks"));
}

TEST(SingleOp, GradientGoesThroughAutodiff) {
  const Tensor x = Tensor::normal({5, 7}, 0, 1, 3), w = Tensor::normal({4, 7}, 0, 1, 4);
  const Tensor dy = Tensor::normal({5, 4}, 0, 1, 5);
  const std::vector<Tensor> y =
      run_op("fc", {x, w}, {{"out_features", std::int64_t(4)}, {"bias", false}});
  ASSERT_EQ(y.size(), 1u);
  const auto d = grad_op("fc", {x, w}, {{"out_features", std::int64_t(4)}, {"bias", false}}, {dy});
  ASSERT_EQ(d.size(), 2u);
  for (int n = 0; n < 5; ++n) {
    for (int k = 0; k < 7; ++k) {
      double expected = 0;
      for (int o = 0; o < 4; ++o) expected += dy.at(n * 4 + o) * w.at(o * 7 + k);
      EXPECT_TRUE(test::is_near(d[0].at(n * 7 + k), expected, test::tolerance(DType::FP32, 4)));
    }
  }
}

TEST(SingleOp, ViewsNeedNoKernel) {
  const Tensor x = Tensor::normal({2, 3, 4, 5}, 0, 1, 1);
  const Tensor y = run_op("flatten", {x}).front();
  EXPECT_EQ(y.shape(), Shape({2, 60}));
  EXPECT_TRUE(is_close(y, x.reshape({2, 60}), 0, 0));
  const Tensor dx = grad_op("flatten", {x}, {}, {y}).front();
  EXPECT_EQ(dx.shape(), x.shape());
  EXPECT_TRUE(is_close(dx, x, 0, 0));
}

TEST(SingleOp, NamesTheNearestOp) {
  try {
    run_op("rellu", {Tensor::zeros({2})});
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find("relu"), std::string::npos) << error.what();
  }
}

TEST(DeepLearningTask, SettersAndRunsAreInOrder) {
  const toy::Quiet quiet;
  DeepLearningTask task = toy::make_task(toy::make_session(), toy::make_data(), 1);
  EXPECT_THROW(task.run(), InvalidArgument);
  EXPECT_THROW(task.fetch("0.weight"), InvalidArgument);
  task.compile(CompileInfo::NONE);
  EXPECT_THROW(task.total_epochs(3), InvalidArgument);
  EXPECT_THROW(task.compile(), InvalidArgument);
}

}  // namespace
}  // namespace tr

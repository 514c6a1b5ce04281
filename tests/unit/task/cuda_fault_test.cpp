// SPDX-License-Identifier: Apache-2.0
// Faults while a GPU is at work: the step and the node that an illegal address is put down to, data
// that break off, values that are not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>

#include "graph/computation_graph.h"
#include "graph/op_def.h"
#include "support/device.h"
#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

using test::throws;

OpDef faulty() {
  OpDef def;
  def.name = "test_faulty";
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = {{"fault_step", std::int64_t{0}, true, "steps of the run before the one that fails"},
               {"draw_id", std::int64_t{0}, false, ""}};
  def.infer = [](const Attrs&, std::span<const TensorType> in) {
    return std::vector<TensorType>{in[0]};
  };
  def.gradient = [](GraphBuilder&, const Node&, std::span<const TensorId> dout) {
    return std::vector<TensorId>{dout[0]};
  };
  def.needs_draws = true;  // the counter of steps
  def.eval_identity = true;
  return def;
}
const OpRegistration kFaulty{faulty()};

constexpr int kBatch = 20;

DeepLearningTask task_on(const DatasetPair& data, const char* place) {
  Session session;
  session.global.use_gpu("0").manual_seed(7).global_batch_size(kBatch);
  session.preprocessor.shuffle_train(false);
  DeepLearningTask task = toy::make_task(session, data, 3);
  task.model(seq(fc(16, true), relu(), fc(4, true))).set("data_place", place);
  return task;
}

class CudaFault : public test::DeviceTest<DeviceKind::CUDA> {
 protected:
  void SetUp() override {
    // A child process of its own program: a GPU does not survive a fork.
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    DeviceTest::SetUp();
  }
};

/// Trains into the illegal address of step 6 of epoch 2 and prints the error. The device is lost to
/// the process afterwards, so this is for processes of their own.
[[noreturn]] void train_into_the_fault(const char* place, const char* locate) {
  {
    const toy::Quiet quiet;
    DeepLearningTask task = task_on(toy::make_data(), place);  // 11 steps an epoch
    task.model(seq(fc(16, true), relu(),
                   layer("test_faulty", Attrs().set("fault_step", std::int64_t{16})), fc(4, true)))
        .set("locate_faults", locate)
        .compile(CompileInfo::NONE);
    try {
      task.run();
      std::fputs("the run ended well\n", stderr);
    } catch (const DeviceError& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
  }
  std::_Exit(0);
}

TEST_F(CudaFault, AnIllegalAddressIsPutDownToItsStepAndNode) {
  for (const char* place : {"device", "host"}) {
    EXPECT_EXIT(
        train_into_the_fault(place, "true"), testing::ExitedWithCode(0),
        "GPU 0: .*illegal memory access.*, in step 6 of epoch 2, graph train[a-z0-9_]*, "
        "node [0-9]+, layer \"2\" \\(test_faulty\\), built at .*cuda_fault_test.cpp:[0-9]+; the "
        "device is lost to this process")
        << place;
  }
}

TEST_F(CudaFault, WithoutMarksTheStepsUnderWayAndTheRemedyAreNamed) {
  for (const char* place : {"device", "host"}) {
    EXPECT_EXIT(
        train_into_the_fault(place, "false"), testing::ExitedWithCode(0),
        "GPU 0: .*illegal memory access.*, in (one of )?steps? [0-9]+( to [0-9]+)? of epoch "
        "2, graphs? train.*locate_faults=true names the one that fails")
        << place;
  }
}

TEST_F(CudaFault, MarksChangeNoByte) {
  const toy::Quiet quiet;
  for (const char* place : {"device", "host"}) {
    const auto hash = [&](const char* locate) {
      DeepLearningTask task = task_on(toy::make_data(), place);
      task.set("locate_faults", locate).compile(CompileInfo::NONE);
      return task.run().weights_sha256;
    };
    EXPECT_EQ(hash("true"), hash("false")) << place;
  }
}

/// A toy set that breaks off at one sample, or has one value of its own there.
class FlawedSet final : public Dataset {
 public:
  FlawedSet(std::int64_t n, std::int64_t flawed, std::optional<float> value)
      : set_(toy::make_set(n, 3)), flawed_(flawed), value_(value) {}
  std::int64_t num_samples() const override { return set_->num_samples(); }
  std::vector<Field> fields() const override { return set_->fields(); }
  int num_classes() const override { return set_->num_classes(); }
  std::string name() const override { return "flawed"; }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    if (id == flawed_ && !value_) throw DataError("sample 173 cannot be read");
    set_->read(id, out);
    if (id == flawed_) std::memcpy(out[0] + 5 * sizeof(float), &*value_, sizeof(float));
  }

 private:
  std::shared_ptr<const Dataset> set_;
  std::int64_t flawed_;
  std::optional<float> value_;
};

TEST_F(CudaFault, DataThatBreakOffEndTheRunAndNothingElse) {
  const toy::Quiet quiet;
  // Step 9 of those that are launched together.
  const auto broken = std::make_shared<FlawedSet>(600, 173, std::nullopt);
  DeepLearningTask task = task_on({broken, toy::make_set(75, 2)}, "host");
  task.compile(CompileInfo::NONE);
  EXPECT_TRUE(throws<DataError>([&] { task.run(); }, "sample 173 cannot be read"));
  const EvalResult result = task.evaluate();
  EXPECT_EQ(result.num_samples, 75);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(task.evaluate().loss, result.loss);
  EXPECT_EQ(task.predict(Tensor::uniform({5, 8}, -1, 1, 3)).shape(), (Shape{5, 4}));
}

TEST_F(CudaFault, FindNanNamesSampleLayerAndOp) {
  const toy::Quiet quiet;
  const auto run_on = [](float value, const char* place) {
    const auto set = std::make_shared<FlawedSet>(210, 43, value);
    DeepLearningTask task = task_on({set, nullptr}, place);
    task.initializer(Initializer().scale(10)).compile(CompileInfo::NONE);  // weights of about 10
    task.run();
  };
  for (const char* place : {"device", "host"}) {
    SCOPED_TRACE(place);
    EXPECT_TRUE(throws<DataError>([&] { run_on(std::numeric_limits<float>::quiet_NaN(), place); },
                                  "step 3 of epoch 1 was skipped: the data's field \"image\" is "
                                  "not finite: sample 43 of the training set has nan"));
    EXPECT_TRUE(throws<InvalidArgument>([&] { run_on(3e38f, place); },
                                        "step 3 of epoch 1 was skipped: the gradient is not "
                                        "finite; first: layer \"0\" (fc), built at"));
  }
}

TEST_F(CudaFault, FindNanIsEmptyWhereAllIsFinite) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_on(toy::make_data(), "device");
  task.compile(CompileInfo::NONE);
  task.run();
  EXPECT_EQ(task.find_nan(), "");
}

}  // namespace
}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "backend/executor.h"

#include <gtest/gtest.h>

#include <cstring>

#include "algo/loss_spec.h"
#include "algo/optimizer_spec.h"
#include "graph/step_tables.h"
#include "renaissance/ops/elementwise.h"
#include "renaissance/ops/linear.h"
#include "support/allocation_counter.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr std::int64_t kBatch = 24, kFeatures = 50, kClasses = 6;

/// A compiled small model with its executor, weights and tables set.
class Trained {
 public:
  explicit Trained(int num_threads, std::optional<DType> low = std::nullopt) {
    CompileRequest request;
    request.model =
        seq(fc(40, true), relu(), dropout(0.25), fc(30, true), tanh(), fc(kClasses, true));
    request.sample_fields = {{"image", {Shape{kFeatures}, DType::FP32}},
                             {"label", {Shape{}, DType::INT32}}};
    request.loss = loss_spec(CrossEntropyLoss().label_smoothing(0.1f));
    request.optimizer = optimizer_spec(Adam());
    request.graph.low_dtype = low;
    request.graph.loss_scaling = low == DType::FP16;
    request.graph.ema_decay = 0.9f;
    VariantKey key;
    key.batch = kBatch;
    key.fields = {{"image", {Shape{kBatch, kFeatures}, low.value_or(DType::FP32)}},
                  {"label", {Shape{kBatch}, DType::INT32}}};
    request.variants = {key};
    const auto oracle = make_kernel_oracle(DeviceKind::CPU, tuning_);
    compiled_ = compile(request, *oracle);
    ExecutorOptions options;
    options.num_threads = num_threads;
    executor_ = make_cpu_executor(compiled_, options);
    set_state();
    image_ = Tensor::uniform({kBatch, kFeatures}, -1, 1, 3, low.value_or(DType::FP32));
    label_ = Tensor::uniform({kBatch}, 0, kClasses, 4).to(DType::INT32);
    bind(image_);
  }

  void bind(const Tensor& image) {
    executor_->bind_input("image", image.raw());
    executor_->bind_input("label", label_.raw());
  }
  Executor& executor() { return *executor_; }
  const CompileResult& compiled() const { return compiled_; }
  const Tensor& image() const { return image_; }
  float result(int step, ResultColumn column) {
    return read<float>("results", step * kResultColumns + column);
  }
  std::int64_t counter(CounterIndex index) { return read<std::int64_t>("counters", index); }
  Tensor weights() {
    Tensor copy({compiled_.memory.range_elements}, DType::FP32);
    executor_->read(executor_->place(weight_range()), copy.raw(), std::int64_t(copy.num_bytes()));
    return copy;
  }

 private:
  static std::string weight_range() { return "range(" + std::string(name_of(Role::WEIGHT)) + ")"; }
  template <typename T>
  T read(const std::string& name, int index) {
    T value;
    executor_->read(executor_->place(name) + index * std::int64_t(sizeof(T)), &value, sizeof value);
    return value;
  }
  template <typename T>
  void write(const std::string& name, const std::vector<T>& values) {
    executor_->write(executor_->place(name), values.data(),
                     std::int64_t(values.size() * sizeof(T)));
  }
  void set_state() {
    const Tensor start = Tensor::uniform({compiled_.memory.range_elements}, -0.3f, 0.3f, 1);
    const auto first = start.values<float>();
    write(weight_range(), std::vector<float>(first.begin(), first.end()));
    write("segments", compiled_.memory.segments);
    write("loss_scale", std::vector<float>{1});
    const std::size_t columns = std::size_t(step_floats_columns(1));
    std::vector<float> rows(std::size_t(GraphOptions{}.table_capacity) * columns);
    for (std::size_t row = 0; row < rows.size(); row += columns) {
      rows[row + kFloatInvWeight] = 1.0f / float(kBatch);
      rows[row + int(kFloatHeader) + int(kGroupLr)] = 0.01f;
    }
    write("step_floats", rows);
  }

  TuningTable tuning_;
  CompileResult compiled_;
  std::unique_ptr<Executor> executor_;
  Tensor image_, label_;
};

TEST(ExecutorTest, TrainsAndCountsSteps) {
  Trained task(2);
  for (int step = 0; step < 40; ++step) task.executor().run(0);
  EXPECT_LT(task.result(39, kResultLossSum), 0.8f * task.result(0, kResultLossSum));
  EXPECT_EQ(task.counter(kCounterUpdates), 40);
}

TEST(ExecutorTest, SameBytesForEveryNumberOfThreads) {
  Trained one(1);
  for (int step = 0; step < 5; ++step) one.executor().run(0);
  for (const int threads : {2, 3}) {
    Trained more(threads);
    for (int step = 0; step < 5; ++step) more.executor().run(0);
    EXPECT_TRUE(same_bytes(more.weights(), one.weights()));
  }
}

TEST(ExecutorTest, StepsAllocateNothing) {
  for (const auto low : {std::optional<DType>(), std::optional<DType>(DType::BF16)}) {
    Trained task(2, low);
    task.executor().run(0);
    // Where the processor lacks AVX-512, oneDNN multiplies, and its calls allocate argument lists.
    for (const LoweredNode& node : task.compiled().lowered[0].nodes) {
      const bool own = node.kernel == "cpu.fc.packed" || node.kernel == "cpu.fc.amx";
      if (node.op != "fc" || own) continue;
      GTEST_SKIP() << node.kernel << " runs: the processor has no " << (low ? "BF16" : "AVX-512");
    }
    const AllocationCounter counter;
    for (int step = 0; step < 10; ++step) {
      task.bind(task.image());
      task.executor().run(0);
    }
    // Names longer than a string's own buffer cost one allocation each where they are bound: these
    // are not.
    EXPECT_EQ(counter.count(), 0);
  }
}

TEST(ExecutorTest, BadInputSkipsTheStep) {
  Trained task(2);
  task.executor().run(0);
  const Tensor before = task.weights();
  Tensor bad = task.image().clone();
  bad.data<float>()[7] = std::numeric_limits<float>::quiet_NaN();
  task.bind(bad);
  task.executor().run(0);
  EXPECT_EQ(task.result(1, kResultFoundInf), 1);
  EXPECT_TRUE(same_bytes(task.weights(), before));
  EXPECT_EQ(task.counter(kCounterSkipped), 1);
}

TEST(ExecutorTest, SubGraphsInOrderAreTheWholeStep) {
  Trained whole(2), parts(2);
  whole.executor().run(0);
  for (int id = 0; id < kNumGraphIds; ++id) parts.executor().run(0, GraphId(id));
  EXPECT_TRUE(same_bytes(parts.weights(), whole.weights()));
}

TEST(ExecutorTest, FetchRunsUpToATensorAndChangesNoState) {
  Trained task(2);
  const Tensor before = task.weights();
  const LoweredGraph& graph = task.compiled().lowered[0];
  int fetched = 0;
  for (const LoweredNode& node : graph.nodes) {
    if (node.label != GraphId::FORWARD) continue;
    const LoweredTensor& out = graph.tensor(node.outputs[0]);
    const Tensor value = task.executor().fetch(0, out.name);
    EXPECT_EQ(value.type(), out.type);
    ++fetched;
  }
  EXPECT_GE(fetched, 3);
  EXPECT_TRUE(same_bytes(task.weights(), before));
  EXPECT_EQ(task.counter(kCounterRow), 0);
  // The last step's logits, computed from the bound image, then again after the step has
  // overwritten them.
  const std::string logits = graph.tensor(graph.nodes[0].outputs[0]).name;
  const Tensor first = task.executor().fetch(0, logits);
  EXPECT_TRUE(same_bytes(task.executor().fetch(0, logits), first));
}

TEST(ExecutorTest, NamesWhatIsUnknown) {
  Trained task(1);
  EXPECT_TRUE(refuses([&] { task.executor().place("nobody"); }, {"nobody"}));
  EXPECT_TRUE(refuses([&] { task.executor().fetch(0, "nobody"); }, {"nobody", "variant 0"}));
  EXPECT_TRUE(refuses([&] { task.executor().run(3); }, {"variant is 3"}));
}

TEST(ExecutorTest, ProfileHasEveryNode) {
  Trained task(2);
  task.executor().set_profiling(true);
  task.executor().run(0);
  const auto seconds = task.executor().node_seconds(0);
  EXPECT_EQ(seconds.size(), task.compiled().lowered[0].nodes.size());
  double total = 0;
  for (const auto& [node, s] : seconds) total += s;
  EXPECT_GT(total, 0);
  for (const auto& [node, s] : task.executor().node_seconds(0)) EXPECT_EQ(s, 0) << node;
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
// NaN and infinities: which sample or layer brought them, for any rank, micro-batch and precision.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "support/throws.h"
#include "toy.h"

namespace tr {
namespace {

using test::throws;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

/// A toy set that is read sample by sample; element 5 of sample `bad` is `value`.
class StreamedSet final : public Dataset {
 public:
  StreamedSet(std::int64_t n, std::int64_t bad, float value)
      : set_(toy::make_set(n, 3)), bad_(bad), value_(value) {}
  std::int64_t num_samples() const override { return set_->num_samples(); }
  std::vector<Field> fields() const override { return set_->fields(); }
  int num_classes() const override { return set_->num_classes(); }
  std::string name() const override { return "streamed"; }
  void read(std::int64_t id, std::span<std::byte* const> out) const override {
    set_->read(id, out);
    if (id == bad_) std::memcpy(out[0] + 5 * sizeof(float), &value_, sizeof value_);
  }

 private:
  std::shared_ptr<const Dataset> set_;
  std::int64_t bad_;
  float value_;
};

/// A toy set in memory with one more field, which nothing reads.
std::shared_ptr<const Dataset> in_memory(std::int64_t bad, float value, float unread = 0) {
  Tensor x = Tensor::uniform({60, 8}, -1, 1, 1), extra = Tensor::zeros({60, 2});
  if (bad >= 0) x.data<float>()[bad * 8 + 5] = value;
  extra.data<float>()[7] = unread;
  return make_tensor_dataset(
      {{"image", x}, {"label", Tensor::zeros({60}, DType::INT32)}, {"extra", extra}}, 4);
}

DeepLearningTask task_on(const DatasetPair& data, int ranks = 1, int micro_batches = 1) {
  Session session = toy::make_session();
  session.global.cpu_ranks(ranks).accumulate_steps(micro_batches);
  session.preprocessor.shuffle_train(false);
  DeepLearningTask task = toy::make_task(session, data, 2);
  task.model(seq(fc(16, true), relu(), fc(4, true)));
  return task;
}

/// Weights of about 10: 3e38 times one of them is infinite.
Initializer wide_weights() { return Initializer().scale(10); }

TEST(NotFinite, SetsInMemoryAreRefusedBeforeAnyStep) {
  const toy::Quiet quiet;
  const auto compile = [](const DatasetPair& data) { task_on(data).compile(CompileInfo::NONE); };
  const auto good = in_memory(-1, 0), bad = in_memory(17, kNan);
  EXPECT_TRUE(throws<DataError>(
      [&] {
        compile({bad, good});
      },
      "field \"image\" is not finite: sample 17 of the training set has "
      "nan as element 5 of fp32 [8]; it is read by layer \"0\" (fc), "
      "built at"));
  EXPECT_TRUE(throws<DataError>(
      [&] {
        compile({good, in_memory(59, -kInf)});
      },
      "sample 59 of the validation set has -inf"));
  EXPECT_NO_THROW(compile({in_memory(-1, 0, kNan), good})) << "a field that nothing reads";
}

TEST(NotFinite, TheFirstStepThatMeetsABadSampleNamesIt) {
  const toy::Quiet quiet;
  // Steps of 20 samples: by micro-batches of 5, first those of rank 0 and rank 1, then the next.
  for (const int sample : {0, 43, 48, 53, 58, 209}) {
    for (const float value : {kNan, -kInf}) {
      for (const auto& [ranks, micro] : {std::pair(1, 1), std::pair(2, 2), std::pair(4, 1)}) {
        SCOPED_TRACE(sample * 100 + ranks * 10 + micro);
        DeepLearningTask task =
            task_on({std::make_shared<StreamedSet>(210, sample, value), nullptr}, ranks, micro);
        std::int64_t steps = 0;
        task.callbacks(
            {.on_step = [&](DeepLearningTask&, std::int64_t step, double, double) { steps = step; },
             .on_epoch = {}});
        task.compile(CompileInfo::NONE);
        EXPECT_TRUE(throws<DataError>([&] { task.run(); },
                                      "step " + std::to_string(sample / 20 + 1) +
                                          " of epoch 1 was skipped: the data's field "
                                          "\"image\" is not finite: sample " +
                                          std::to_string(sample) + " of the training"));
        EXPECT_EQ(steps, sample / 20 + 1) << "it is the last one";
      }
    }
  }
}

TEST(NotFinite, ShuffledSamplesKeepTheirNumbers) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_on({std::make_shared<StreamedSet>(210, 123, kInf), nullptr}, 2);
  task.set("shuffle_train", "true").compile(CompileInfo::NONE);
  EXPECT_TRUE(throws<DataError>([&] { task.run(); }, "sample 123 of the training set has inf"));
}

TEST(NotFinite, AmpLooksAtTheSamplesToo) {
  const toy::Quiet quiet;
  for (const char* amp : {"fp16", "bf16"}) {
    DeepLearningTask bad = task_on({std::make_shared<StreamedSet>(210, 45, kNan), nullptr});
    bad.set("amp", amp).compile(CompileInfo::NONE);
    EXPECT_TRUE(throws<DataError>([&] { bad.run(); }, "step 3 of epoch 1 was skipped: the data's"));
  }
  // Finite, but not as an fp16 image: an overflow, which is skipped in each of two epochs.
  DeepLearningTask large = task_on({std::make_shared<StreamedSet>(210, 45, 1e6f), nullptr});
  large.set("amp", "fp16").compile(CompileInfo::NONE);
  const TrainingResult result = large.run();
  ASSERT_EQ(result.history.size(), 2u);
  for (const EpochRecord& record : result.history) EXPECT_EQ(record.skipped_steps, 1);
}

TEST(NotFinite, AnOverflowIsTracedToItsLayerOnAnyRank) {
  const toy::Quiet quiet;
  for (const int sample : {43, 48, 53, 58}) {
    DeepLearningTask task =
        task_on({std::make_shared<StreamedSet>(210, sample, 3e38f), nullptr}, 2, 2);
    task.initializer(wide_weights()).compile(CompileInfo::NONE);
    EXPECT_TRUE(throws<InvalidArgument>([&] { task.run(); },
                                        "step 3 of epoch 1 was skipped: the gradient is not "
                                        "finite; first: layer \"0\" (fc), built at"));
  }
}

TEST(NotFinite, ADivergedRunEndsWithTheFirstBadStep) {
  const toy::Quiet quiet;
  DeepLearningTask task = task_on({std::make_shared<StreamedSet>(210, -1, 0.0f), nullptr});
  task.set("optimizer", "sgd").set("base_lr", "1e30").compile(CompileInfo::NONE);
  EXPECT_TRUE(throws<InvalidArgument>([&] { task.run(); }, "the gradient is not finite; first"));
}

TEST(NotFinite, AValidationNamesTheSampleOrTheLayer) {
  std::string warnings;
  const toy::Quiet quiet;
  set_log_sink([&](LogLevel level, std::string_view text) {
    if (level == LogLevel::WARNING) warnings += text;
  });
  for (const int ranks : {1, 2}) {
    const auto set = std::make_shared<StreamedSet>(75, 31, kNan);
    const std::string words =
        "validation: the data's field \"image\" is not finite: sample 31 of "
        "the validation set has nan as element 5";
    DeepLearningTask training = task_on({toy::make_set(210, 1), set}, ranks);
    training.compile(CompileInfo::NONE);
    EXPECT_TRUE(throws<DataError>([&] { training.run(); }, words));
    DeepLearningTask evaluation = task_on({nullptr, set}, ranks);
    evaluation.compile(CompileInfo::NONE);
    EXPECT_TRUE(throws<DataError>([&] { evaluation.evaluate(); }, words));
    EXPECT_EQ(warnings, "");

    // A finite sample that overflows is no fault of the data: the run goes on.
    DeepLearningTask large =
        task_on({toy::make_set(210, 1), std::make_shared<StreamedSet>(75, 31, 3e38f)}, ranks);
    large.initializer(wide_weights()).compile(CompileInfo::NONE);
    EXPECT_EQ(large.run().history.size(), 2u);
    EXPECT_NE(warnings.find("the validation loss is "), std::string::npos) << warnings;
    EXPECT_NE(warnings.find("first not finite: layer \"0\" (fc), built at"), std::string::npos);
    warnings.clear();
  }
}

}  // namespace
}  // namespace tr

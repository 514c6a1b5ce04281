// SPDX-License-Identifier: Apache-2.0
// Losses against what PyTorch computes, value and gradient. One program for each device:
// TR_TEST_DEVICE is its DeviceKind.
#include <cmath>

#include "core/format.h"
#include "renaissance/task/class_report.h"
#include "renaissance/task/simple_task.h"
#include "support/compare.h"
#include "support/device.h"
#include "support/golden.h"
#include "support/near.h"

namespace tr::test {
namespace {

constexpr TaskDevice kHere{DeviceKind::TR_TEST_DEVICE, 0};
constexpr double kSpan = 8;  // of the scores

class LossesGolden : public DeviceTest<kHere.kind> {
 protected:
  const SafetensorsFile file_ = golden("losses");
  Tensor at(const std::string& name, const std::string& part) const {
    return file_.at(name + "." + part);
  }
  /// `inputs` follow the scores.
  void expect(const std::string& name, const std::string& op, std::vector<Tensor> inputs,
              const Attrs& attrs) const {
    SCOPED_TRACE(name);
    const Tensor x = at(name, "x");
    inputs.insert(inputs.begin(), x);
    const Tolerance sum = tolerance(DType::FP32, x.num_elements(), kSpan);
    EXPECT_TRUE(is_close(run_op(op, inputs, attrs, kHere).front(), at(name, "loss_sum"), sum));
    const Tensor dx = grad_op(op, inputs, attrs, {Tensor::full({}, 1)}, kHere).front();
    EXPECT_TRUE(is_close(dx, at(name, "dx"), tolerance(DType::FP32, 1, kSpan), "dx"));
  }
};

TEST_F(LossesGolden, ElementLossesEqualPyTorch) {
  const std::map<std::string, Attrs> cases = {
      {"l1/plain", {}},
      {"huber/delta_1", {}},
      {"huber/delta_2.5", {{"delta", 2.5}}},
      {"smooth_l1/beta_0.5", {{"beta", 0.5}}},
      {"smooth_l1/beta_0", {{"beta", 0.0}}},
      {"focal/alpha_0.25_gamma_2", {}},
      {"focal/alpha_-1_gamma_0.5", {{"alpha", -1.0}, {"gamma", 0.5}}},
      {"kl_div/probabilities", {}},
      {"kl_div/log_target", {{"log_target", true}}}};
  for (const auto& [name, attrs] : cases)
    expect(name, name.substr(0, name.find('/')), {at(name, "target")}, attrs);
}

TEST_F(LossesGolden, PosWeightEqualsPyTorch) {
  for (const std::string name : {"pos_weight/each", "pos_weight/one"})
    expect(name, "bce_with_logits", {at(name, "target"), at(name, "weight")}, {});
}

/// log_softmax, class_norm and weighted_nll one after the other, as CrossEntropyLoss makes them.
TEST_F(LossesGolden, WeightedCrossEntropyEqualsPyTorch) {
  for (const double smoothing : {0.0, 0.1}) {
    for (const std::string kind : {"weights", "ignore", "both", "soft"}) {
      const std::string name = fmt::format("cross_entropy/{}_{:g}", kind, smoothing);
      SCOPED_TRACE(name);
      const Tensor x = at(name, "x"), labels = at(name, "labels");
      const Tensor weight = kind == "ignore" ? Tensor() : at(name, "weight");
      Attrs counts, attrs{{"label_smoothing", smoothing}};
      if (kind == "ignore" || kind == "both") {
        counts.set("ignore_index", std::int64_t{-100});
        attrs.set("ignore_index", std::int64_t{-100});
      }
      const Tensor logp = run_op("log_softmax", {x}, {}, kHere).front();
      std::vector<Tensor> inputs = {logp, labels, weight};
      inputs.push_back(run_op("class_norm", {labels, weight}, counts, kHere).front());
      EXPECT_TRUE(is_close(run_op("weighted_nll", inputs, attrs, kHere).front(),
                           at(name, "loss_sum"), tolerance(DType::FP32, 66, 3 * kSpan)));
      const Tensor dlogp =
          grad_op("weighted_nll", inputs, attrs, {Tensor::full({}, 1)}, kHere).front();
      const Tensor dx = grad_op("log_softmax", {x}, {}, {dlogp}, kHere).front();
      EXPECT_TRUE(is_close(dx, at(name, "dx"), tolerance(DType::FP32, 6, kSpan), "dx"));
    }
  }
}

TEST_F(LossesGolden, AnotherOptionFailsTheComparison) {
  const std::string name = "huber/delta_2.5";
  const Tensor x = at(name, "x");
  const Tensor loss = run_op("huber", {x, at(name, "target")}, {{"delta", 2.4}}, kHere).front();
  EXPECT_FALSE(is_close(loss, at(name, "loss_sum"), tolerance(DType::FP32, 63, kSpan)));
}

class ClassReportGolden : public DeviceTest<kHere.kind> {};

/// The matrix of scores and labels on the device, from zeros.
ConfusionMatrix confusion_of(const Tensor& scores, const Tensor& labels) {
  SimpleTask task(kHere);
  const std::int64_t classes = scores.shape()[1];
  const DTensor x = task.alloc(scores.shape(), scores.dtype());
  const DTensor y = task.alloc(labels.shape(), labels.dtype());
  const DTensor matrix = task.alloc({classes, classes}, DType::INT32);
  task.finalize_memory();
  task.add_graph("count", {{"confusion_matrix", {x, y, matrix}, {}, {}}});
  task.compile();
  task.transfer(scores, x);
  task.transfer(labels, y);
  task.transfer(Tensor::zeros({classes, classes}, DType::INT32), matrix);
  task.run("count");
  const Tensor counted = task.fetch(matrix);
  ConfusionMatrix result;
  result.classes = classes;
  for (const std::int32_t count : counted.values<std::int32_t>()) result.counts.push_back(count);
  return result;
}

TEST_F(ClassReportGolden, CountsAndScoresEqualScikitLearns) {
  const SafetensorsFile file = golden("class_report");
  for (const DType dtype : {DType::FP32, DType::FP16}) {
    const ConfusionMatrix matrix = confusion_of(file.at("x").to(dtype), file.at("labels"));
    const Tensor want = file.at("matrix");
    ASSERT_EQ(std::int64_t(matrix.counts.size()), want.num_elements());
    for (std::size_t i = 0; i < matrix.counts.size(); ++i)
      EXPECT_EQ(matrix.counts[i], want.values<std::int32_t>()[i]) << "element " << i;
    const ClassReport report = class_report(matrix);
    const Tolerance close = tolerance(DType::FP32);  // of what the file stores
    for (std::int64_t c = 0; c < matrix.classes; ++c) {
      const ClassScores& scores = report.classes[std::size_t(c)];
      const double got[] = {scores.precision, scores.recall, scores.f1};
      for (int i = 0; i < 3; ++i)
        EXPECT_TRUE(is_near(got[i], file.at("scores").at(c * 3 + i), close)) << c << " " << i;
    }
    EXPECT_TRUE(is_near(report.macro.precision, file.at("macro").at(0), close));
    EXPECT_TRUE(is_near(report.macro.recall, file.at("macro").at(1), close));
    EXPECT_TRUE(is_near(report.macro.f1, file.at("macro").at(2), close));
    EXPECT_TRUE(is_near(report.micro.f1, file.at("accuracy").at(0), close));
    EXPECT_EQ(report.macro.samples, 90);
  }
}

TEST_F(ClassReportGolden, NanAndStrangeLabelsAreNotCounted) {
  Tensor scores = Tensor::uniform({5, 40}, -1, 1, 3);
  scores.data<float>()[1 * 40 + 39] = std::nanf("");
  scores.data<float>()[2 * 40 + 7] = scores.data<float>()[2 * 40 + 35] = 5;  // equal: the lower
  const Tensor labels = Tensor::from({5}, std::vector<std::int32_t>{0, 1, 2, -1, 40});
  const ConfusionMatrix matrix = confusion_of(scores, labels);
  EXPECT_EQ(matrix.num_samples(), 2);
  EXPECT_EQ(matrix.at(2, 7), 1);
}

TEST_F(ClassReportGolden, AnyNumberOfPlacesIsCounted) {
  const SafetensorsFile file = golden("class_report");
  for (const std::int64_t k : {1, 3, 4}) {
    const Tensor counts =
        run_op("topk_correct", {file.at("x"), file.at("labels")}, {{"k", k}}, kHere).front();
    EXPECT_EQ(counts.at(0), file.at("top_1").at(0));
    EXPECT_EQ(counts.at(1), file.at(fmt::format("top_{}", k)).at(0)) << k;
  }
}

}  // namespace
}  // namespace tr::test

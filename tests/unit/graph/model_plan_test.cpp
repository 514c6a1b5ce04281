// SPDX-License-Identifier: Apache-2.0
//
// The plans of real networks, made by the whole compiler.
#include <gtest/gtest.h>

#include <cstdio>

#include "graph/plan_report.h"
#include "graph_fixture.h"
#include "plan_checker.h"
#include "renaissance/core/error.h"
#include "zoo/models.h"

namespace tr {
namespace {

struct Network {
  const char* name;
  BluePrint (*make)();
  Shape image;
  std::int64_t batch;
};

/// Training with momentum, and validation; fp16 storage if `low`.
CompileRequest request(const Network& network, std::int64_t batch, bool low) {
  const std::map<std::string, TensorType> fields{{"image", {network.image, DType::FP32}},
                                                 {"label", {Shape{}, DType::INT32}}};
  std::map<std::string, TensorType> given = fields;
  if (low) given["image"].dtype = DType::FP16;
  CompileRequest request = test::request_for(
      network.make(), fields,
      {test::variant(Mode::TRAIN, batch, given), test::variant(Mode::EVAL, batch, given)});
  request.optimizer = {"sgd", {{"momentum", 0.9}}, 1};
  if (low) {
    request.graph.low_dtype = DType::FP16;
    request.graph.loss_scaling = true;
  }
  return request;
}

const Network kNetworks[] = {
    {"mlp", [] { return zoo::mnist_mlp(); }, {28, 28, 1}, 200},
    {"vgg16bn", [] { return zoo::vgg16bn(); }, {224, 224, 3}, 256},
    {"resnet50", [] { return zoo::resnet50(); }, {224, 224, 3}, 256},
    {"densenet121", [] { return zoo::densenet121(); }, {224, 224, 3}, 256}};

class CompiledModelPlan : public testing::TestWithParam<Network> {};

TEST_P(CompiledModelPlan, IsSoundAndNearTheBound) {
  for (const bool low : {false, true}) {
    const CompileResult result =
        compile(request(GetParam(), GetParam().batch, low), PlanningOracle(DeviceKind::CUDA));
    const PlanReport report = report_plan(result.lowered, result.arch, result.memory);
    EXPECT_LE(report.ratio(), 1.10);
    for (std::size_t i = 0; i < result.lowered.size(); ++i) {
      EXPECT_EQ(test::PlanChecker(result.lowered[i]).fault(result.memory.variants[i]), "");
    }
    std::printf("%s %s batch %lld: peak %.3f GiB, transient %.3f GiB, ratio %.4f\n",
                GetParam().name, low ? "fp16" : "fp32", static_cast<long long>(GetParam().batch),
                double(report.peak_bytes) / (1 << 30), double(report.transient_bytes) / (1 << 30),
                report.ratio());
  }
}

TEST_P(CompiledModelPlan, WithoutReuseIsFarFromTheBound) {
  CompileRequest wasteful = request(GetParam(), GetParam().batch, true);
  wasteful.memory.reuse = false;
  const CompileResult result = compile(wasteful, PlanningOracle(DeviceKind::CUDA));
  EXPECT_GT(report_plan(result.lowered, result.arch, result.memory).ratio(), 1.10);
}

TEST_P(CompiledModelPlan, ArticleNamesCountEveryByteOnce) {
  const CompileResult result =
      compile(request(GetParam(), GetParam().batch, true), PlanningOracle(DeviceKind::CUDA));
  for (int v = 0; v < int(result.lowered.size()); ++v) {
    std::int64_t sum = 0;
    for (const NamedRegion& r :
         article_regions(result.lowered[std::size_t(v)], result.arch, result.memory, v)) {
      EXPECT_GE(r.bytes, 0) << r.name;
      sum += r.bytes;
    }
    EXPECT_EQ(sum, result.memory.peak_bytes());
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, CompiledModelPlan, testing::ValuesIn(kNetworks),
                         [](const auto& param) { return std::string(param.param.name); });

std::int64_t peak_bytes(const Network& network, std::int64_t batch) {
  return compile(request(network, batch, true), PlanningOracle(DeviceKind::CUDA))
      .memory.peak_bytes();
}

TEST(CompiledModelPlan, Resnet50AndVgg16FitAtBatch256InFp16) {
  const double gib = double(1 << 30);
  EXPECT_LE(double(peak_bytes(kNetworks[2], 256)), 11.0 * gib);
  EXPECT_LE(double(peak_bytes(kNetworks[1], 256)), 16.5 * gib);
}

TEST(CompiledModelPlan, LargestBatchForABudgetIsExact) {
  const std::int64_t budget = std::int64_t{1} << 30;
  const auto peak = [](std::int64_t batch) { return peak_bytes(kNetworks[2], batch); };
  const std::int64_t batch = largest_batch(budget, peak);
  EXPECT_GT(batch, 4);
  EXPECT_LE(peak(batch), budget);
  EXPECT_GT(peak(batch + 1), budget);
}

TEST(CompiledModelPlan, OverBudgetIsRefusedAtCompile) {
  CompileRequest tight = request(kNetworks[2], 256, true);
  tight.memory.budget_bytes = std::int64_t{4} << 30;
  const std::string text =
      test::message_of<OutOfMemory>([&] { compile(tight, PlanningOracle(DeviceKind::CUDA)); });
  EXPECT_NE(text.find("the budget is 4.00 GiB. Largest tensors at the peak (step "),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tr

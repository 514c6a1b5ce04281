// SPDX-License-Identifier: Apache-2.0
// What cuDNN offers for convolutions on an H200, asked without one: cuDNN takes the properties of a
// device that is not here. Skipped where the library itself is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cuda/conv_plan.h"
#include "backend/cuda/cudnn_info.h"
#include "core/check.h"
#include "graph/op_def.h"

namespace tr::test {
namespace {

using cuda::ConvDirection;
using cuda::ConvEngine;
using cuda::ConvGraph;
using cuda::ConvPlan;
using cuda::ConvPlans;
using cuda::ConvProblem;

constexpr std::string_view kH200 =
    R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
"regsPerBlock": 65536, "multiProcessorCount": 132, "smClockRateKHz": 1980000,
"memClockRateKHz": 3201000, "l2CacheSize": 62914560, "warpSize": 32,
"maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
"reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "pciDeviceId": 0,
"maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0,
"supportCoopLaunch": 1, "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
"deviceName": "NVIDIA H200", "totalGlobalMem": 150754820096, "name": "NVIDIA H200"})";

class ConvPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto info = cuda::cudnn_info(); info.version.empty()) GTEST_SKIP() << info.detail;
    properties_.emplace(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    properties_->set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                     std::int64_t(kH200.size()), kH200.data());
    properties_->finalize();
  }

  struct Window {
    std::int64_t size, stride;
  };
  /// A convolution of x to `out` channels that keeps the size at stride 1.
  static ConvProblem problem(ConvDirection direction, const Shape& x, std::int64_t out,
                             Window window_of, DType dtype = DType::FP16) {
    const std::int64_t kernel = window_of.size, stride = window_of.stride;
    const std::vector<std::int64_t> window = {kernel, kernel}, step = {stride, stride},
                                    padding = {kernel / 2, kernel / 2};
    const Attrs attrs = complete_attrs(
        OpRegistry::instance().get("conv"),
        {{"out_channels", out}, {"kernel", window}, {"stride", step}, {"padding", padding}});
    ConvProblem problem;
    problem.direction = direction;
    problem.dtype = dtype;
    problem.geometry = conv_geometry(attrs, {x, dtype});
    return problem;
  }
  cuda::ConvTarget target() const { return {.properties = &*properties_}; }
  std::vector<ConvEngine> engines(const ConvProblem& problem) const {
    return offered_engines(ConvGraph(problem, target()));
  }

  std::optional<cuda::CudnnDescriptor> properties_;
};

std::set<std::string> names_of(const std::vector<ConvEngine>& engines) {
  std::set<std::string> names;
  for (const ConvEngine& engine : engines) names.insert(engine.name);
  return names;
}

constexpr std::int64_t kAnyWorkspace = std::int64_t{1} << 40;

TEST_F(ConvPlanTest, EveryEngineOfTheNetworksLayersIsTheSameByItsName) {
  const std::vector<ConvProblem> layers = {
      problem(ConvDirection::FORWARD, {256, 224, 224, 3}, 64, {3, 1}),
      problem(ConvDirection::FORWARD, {256, 224, 224, 3}, 64, {7, 2}),
      problem(ConvDirection::WEIGHT, {256, 224, 224, 3}, 64, {7, 2}),
      problem(ConvDirection::DATA, {256, 56, 56, 128}, 128, {3, 2}),
      problem(ConvDirection::WEIGHT, {256, 14, 14, 1024}, 256, {1, 1}, DType::BF16)};
  for (const ConvProblem& layer : layers) {
    SCOPED_TRACE(layer.text());
    const ConvGraph graph(layer, target());
    const std::vector<ConvEngine> found = offered_engines(graph);
    ASSERT_GT(found.size(), 0u);
    EXPECT_EQ(names_of(found).size(), found.size()) << "names are told apart";
    std::string why;
    ASSERT_NE(ConvPlan::build(graph, found[0], kAnyWorkspace, why), nullptr) << why;
    for (const ConvEngine& engine : found) {
      SCOPED_TRACE(engine.name);
      const auto offered = ConvPlan::build(graph, engine, kAnyWorkspace, why);
      if (offered == nullptr) continue;
      const ConvEngine named = named_engine(graph, engine.name);
      EXPECT_EQ(named.worth_measuring, engine.worth_measuring);
      const auto plan = ConvPlan::build(graph, named, kAnyWorkspace, why);
      ASSERT_NE(plan, nullptr) << why;
      EXPECT_EQ(plan->workspace_bytes(), offered->workspace_bytes());
    }
  }
}

TEST_F(ConvPlanTest, APlanOfANameIsBuiltOnceAndWithoutTheHeuristics) {
  const ConvProblem layer = problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1});
  const std::string name = engines(layer)[0].name;
  ConvPlans plans(layer, target());
  std::string why;
  const auto plan = plans.plan(name, why);
  ASSERT_NE(plan, nullptr) << why;
  EXPECT_EQ(plans.plan(name, why), plan);
  EXPECT_FALSE(plans.has_asked_heuristics());
  EXPECT_NE(plans.plan("", why), nullptr) << why;
  EXPECT_TRUE(plans.has_asked_heuristics());
}

TEST_F(ConvPlanTest, ANameThatCudnnDoesNotKnowIsRefused) {
  ConvPlans plans(problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1}), target());
  for (const char* name : {"eng0_k99=1", "eng99999", "eng62_k2=4711", "62", "eng62_k2", "eng62x"}) {
    std::string why;
    EXPECT_EQ(plans.plan(name, why), nullptr) << name;
    EXPECT_NE(why.find(name), std::string::npos) << why;
  }
}

TEST_F(ConvPlanTest, AnEngineThatIsNotAllowedIsRefusedByItsNameToo) {
  ConvProblem layer = problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1}, DType::FP32);
  layer.tf32 = true;
  const std::set<std::string> with_licence = names_of(engines(layer));
  layer.tf32 = false;
  const std::set<std::string> exact = names_of(engines(layer));
  const ConvGraph graph(layer, target());
  int refused = 0;
  for (const std::string& name : with_licence) {
    if (exact.contains(name)) continue;
    EXPECT_THROW(named_engine(graph, name), DeviceError) << name;
    ++refused;
  }
  EXPECT_GT(refused, 0);
}

TEST_F(ConvPlanTest, StatisticsAreOfferedForWholeVectorsOfChannelsInFp16) {
  ConvProblem layer = problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1});
  layer.statistics = true;
  EXPECT_GT(engines(layer).size(), 0u);
  ConvProblem first = problem(ConvDirection::FORWARD, {256, 224, 224, 3}, 64, {3, 1});
  first.statistics = true;
  EXPECT_TRUE(engines(first).empty());
}

TEST_F(ConvPlanTest, WithoutTheLicenceFp32KeepsItsDigits) {
  ConvProblem layer = problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1}, DType::FP32);
  const std::set<std::string> exact = names_of(engines(layer));
  layer.tf32 = true;
  const std::set<std::string> all = names_of(engines(layer));
  EXPECT_FALSE(exact.empty());
  EXPECT_LT(exact.size(), all.size());
  EXPECT_TRUE(std::includes(all.begin(), all.end(), exact.begin(), exact.end()));
}

TEST_F(ConvPlanTest, AnEngineThatWantsMoreWorkspaceThanThereIsSaysSo) {
  const ConvGraph graph(problem(ConvDirection::WEIGHT, {256, 224, 224, 3}, 64, {3, 1}), target());
  for (const ConvEngine& engine : offered_engines(graph)) {
    std::string why;
    const auto plan = ConvPlan::build(graph, engine, kAnyWorkspace, why);
    if (plan == nullptr || plan->workspace_bytes() == 0) continue;
    EXPECT_EQ(ConvPlan::build(graph, engine, plan->workspace_bytes() - 1, why), nullptr);
    EXPECT_NE(why.find("workspace"), std::string::npos) << why;
    return;
  }
  FAIL() << "no engine wants a workspace";
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
// What cuDNN offers for convolutions on an H200, asked without one: cuDNN takes the properties of a
// device that is not here. Skipped where the library itself is missing.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "backend/cuda/conv_plan.h"
#include "backend/cuda/cudnn_info.h"
#include "graph/op_def.h"

namespace tr::test {
namespace {

using cuda::ConvCandidates;
using cuda::ConvDirection;
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
  ConvCandidates candidates(const ConvProblem& problem) const {
    return ConvCandidates(problem, {.properties = &*properties_});
  }

  std::optional<cuda::CudnnDescriptor> properties_;
};

std::set<std::string> names_of(const ConvCandidates& candidates) {
  std::set<std::string> names;
  for (int i = 0; i < candidates.size(); ++i) names.insert(candidates.name(i));
  return names;
}

TEST_F(ConvPlanTest, EveryDirectionOfTheNetworksLayersHasEnginesThatBuild) {
  const std::vector<ConvProblem> layers = {
      problem(ConvDirection::FORWARD, {256, 224, 224, 3}, 64, {3, 1}),
      problem(ConvDirection::FORWARD, {256, 224, 224, 3}, 64, {7, 2}),
      problem(ConvDirection::WEIGHT, {256, 224, 224, 3}, 64, {7, 2}),
      problem(ConvDirection::DATA, {256, 56, 56, 128}, 128, {3, 2}),
      problem(ConvDirection::WEIGHT, {256, 14, 14, 1024}, 256, {1, 1}, DType::BF16)};
  for (const ConvProblem& layer : layers) {
    SCOPED_TRACE(layer.text());
    const ConvCandidates found = candidates(layer);
    ASSERT_GT(found.size(), 0);
    EXPECT_EQ(names_of(found).size(), std::size_t(found.size())) << "names are told apart";
    std::string why;
    const auto plan = found.build(0, std::int64_t{1} << 30, why);
    ASSERT_NE(plan, nullptr) << why;
    EXPECT_EQ(plan->engine(), found.name(0));
    EXPECT_EQ(found.find(found.name(found.size() - 1)), found.size() - 1);
    EXPECT_EQ(found.find("eng0_k99=1"), -1);
  }
}

TEST_F(ConvPlanTest, StatisticsAreOfferedForWholeVectorsOfChannelsInFp16) {
  ConvProblem layer = problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1});
  layer.statistics = true;
  EXPECT_GT(candidates(layer).size(), 0);
  ConvProblem first = problem(ConvDirection::FORWARD, {256, 224, 224, 3}, 64, {3, 1});
  first.statistics = true;
  EXPECT_EQ(candidates(first).size(), 0);
}

TEST_F(ConvPlanTest, WithoutTheLicenceFp32KeepsItsDigits) {
  ConvProblem layer = problem(ConvDirection::FORWARD, {256, 56, 56, 64}, 64, {3, 1}, DType::FP32);
  const std::set<std::string> exact = names_of(candidates(layer));
  layer.tf32 = true;
  const std::set<std::string> all = names_of(candidates(layer));
  EXPECT_FALSE(exact.empty());
  EXPECT_LT(exact.size(), all.size());
  EXPECT_TRUE(std::includes(all.begin(), all.end(), exact.begin(), exact.end()));
}

TEST_F(ConvPlanTest, AnEngineThatWantsMoreWorkspaceThanThereIsSaysSo) {
  const ConvCandidates found =
      candidates(problem(ConvDirection::WEIGHT, {256, 224, 224, 3}, 64, {3, 1}));
  for (int i = 0; i < found.size(); ++i) {
    std::string why;
    const auto plan = found.build(i, std::int64_t{1} << 40, why);
    if (plan == nullptr || plan->workspace_bytes() == 0) continue;
    EXPECT_EQ(found.build(i, plan->workspace_bytes() - 1, why), nullptr);
    EXPECT_NE(why.find("workspace"), std::string::npos) << why;
    return;
  }
  FAIL() << "no engine wants a workspace";
}

}  // namespace
}  // namespace tr::test

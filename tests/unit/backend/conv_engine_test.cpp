// SPDX-License-Identifier: Apache-2.0
// Every engine of a convolution against the one that widens to fp32, also where a shape is too
// large for finite differences.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernel_harness.h"
#include "support/compare.h"
#include "support/tolerance.h"

namespace tr::test {
namespace {

struct ConvCase {
  const char* name;
  Shape x;
  std::int64_t out, kernel, stride, padding, dilation, groups = 1;
};

const std::vector<ConvCase>& conv_cases() {
  static const std::vector<ConvCase> all = {
      {"Point", {9, 7, 7, 200}, 136, 1, 1, 0, 1},
      {"Same", {8, 14, 14, 64}, 64, 3, 1, 1, 1},
      {"Odd", {5, 17, 19, 33}, 65, 3, 2, 1, 1},
      {"Stem", {3, 61, 64, 3}, 64, 7, 2, 3, 1},
      {"Dilated", {3, 25, 23, 40}, 48, 3, 1, 4, 4},
      {"DilatedTwice", {2, 12, 11, 64}, 32, 3, 1, 2, 2},
      {"DilatedStrided", {2, 17, 16, 32}, 64, 3, 2, 2, 2},
      {"DilatedWide", {2, 9, 15, 16}, 16, 5, 1, 6, 3},
      {"DilatedGroups", {4, 14, 14, 96}, 96, 3, 1, 2, 2, 4},
      {"DilatedDepthwise", {3, 13, 14, 72}, 72, 3, 1, 3, 3, 72},
  };
  return all;
}

class ConvEngineTest : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(ConvEngineTest, EqualsTheWidenedOne) {
  const auto& [number, dtype] = GetParam();
  const ConvCase& c = conv_cases()[std::size_t(number)];
  const auto twice = [](std::int64_t v) { return std::vector<std::int64_t>{v, v}; };
  const Attrs attrs = {{"out_channels", c.out},
                       {"multiplier", std::int64_t{1}},
                       {"groups", c.groups},
                       {"kernel", twice(c.kernel)},
                       {"stride", twice(c.stride)},
                       {"padding", twice(c.padding)},
                       {"dilation", twice(c.dilation)},
                       {"bias", false}};
  const std::int64_t channels = c.x[3];
  const Shape weight{c.out, c.kernel, c.kernel, channels / c.groups};
  const Tensor x = Tensor::uniform(c.x, -1, 1, 1, dtype);
  const Tensor w = Tensor::uniform(weight, -1, 1, 2, dtype);
  const auto y = run_kernel({"conv", attrs, {x, w}}).outputs.front();
  const Tensor dy = Tensor::uniform(y.shape(), -1, 1, 3, dtype);
  const std::int64_t cells = c.kernel * c.kernel;
  const struct {
    KernelCall call;
    std::int64_t summed;
  } calls[] = {{{"conv", attrs, {x, w}}, cells * channels / c.groups},
               {{"conv_dx", attrs, {dy, w, x}}, cells * c.out / c.groups},
               {{"conv_dweight", attrs, {dy, x}}, y.num_elements() / c.out}};
  for (auto [call, summed] : calls) {
    call.kernel = "cpu." + call.op + ".widened";
    const KernelResult want = run_kernel(call);
    for (const std::string& engine : engines_of(call, DeviceKind::CPU)) {
      SCOPED_TRACE(engine);
      call.kernel = engine;
      const KernelResult got = run_kernel(call);
      const Tolerance one = tolerance(got.outputs[0].dtype(), summed);
      EXPECT_TRUE(is_close(got.outputs[0], want.outputs[0], {2 * one.rtol, 2 * one.atol}, call.op));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, ConvEngineTest,
                         testing::Combine(testing::Range(0, int(conv_cases().size())),
                                          testing::Values(DType::FP16, DType::BF16)),
                         [](const auto& info) {
                           return std::string(
                                      conv_cases()[std::size_t(std::get<0>(info.param))].name) +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace tr::test

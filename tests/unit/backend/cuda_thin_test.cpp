// SPDX-License-Identifier: Apache-2.0
// fc_dweight and fc_dx of few outputs by kernels of our own: walks of several tiles, ragged ends,
// rows of whole vectors and odd ones, what is not a number.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "cuda_kernel_harness.h"
#include "support/compare.h"

namespace tr::test {
namespace {

Tensor random(const Shape& shape, std::uint64_t seed, DType dtype) {
  return Tensor::uniform(shape, -1, 1, seed, dtype);
}

constexpr const char* kDx = "cuda.fc_dx.thin";

struct Case {
  std::int64_t rows, in, out;
  DType dtype;
};

std::vector<Case> cases() {
  // At 4096 columns a warp of 16 bits has every 33rd tile of 16 rows: none, one, an odd and an even
  // number of tiles, a last one of a few rows; a part of 1600 rows for dweight is five. 17 outputs
  // are more than one tile of terms.
  const std::vector<std::array<std::int64_t, 3>> shapes = {
      {1, 1, 1},      {1, 8, 3},       {1, 4096, 10},    {1, 4099, 10},    {50, 4096, 1},
      {527, 4096, 3}, {530, 4096, 10}, {1065, 4096, 10}, {1600, 4096, 10}, {1601, 4096, 17},
      {533, 4091, 3}, {600, 2052, 17}, {33, 264, 64},    {31, 40, 33},     {100, 70, 10}};
  std::vector<Case> all;
  for (const auto& [rows, in, out] : shapes) {
    for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
      all.push_back({rows, in, out, dtype});
    }
  }
  return all;
}

class CudaThinCaseTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
    const auto& [rows, in, out, dtype] = GetParam();
    dy_ = random({rows, out}, 1, dtype);
    weight_ = random({out, in}, 2, dtype);
  }
  KernelCall plain() const { return {"fc_dx", {}, {dy_, weight_}, kDx}; }
  KernelCall gated(const std::string& activation, const Tensor& gate) const {
    return {"fc_dx", {{"activation", activation}}, {dy_, weight_, gate}, kDx};
  }
  Tensor dy_ = Tensor::zeros({1}), weight_ = Tensor::zeros({1});
};

TEST_P(CudaThinCaseTest, MatchesTheCpu) {
  KernelCall call = plain();
  const Tensor got = run_cuda_kernel(call).outputs[0];
  call.kernel = "";
  const Tensor want = run_kernel(call).outputs[0];
  const Tolerance one = tolerance(GetParam().dtype, GetParam().out);
  EXPECT_TRUE(is_close(got, want, {2 * one.rtol, 2 * one.atol}, "dx"));
  EXPECT_TRUE(same_bytes_every_launch(plain()));
}

// As PyTorch's threshold_backward: a gradient passes where the result is not <= 0, so where it is
// not a number too, and is +0 elsewhere.
TEST_P(CudaThinCaseTest, ReluDropsExactlyWhereItsResultIsNotPositive) {
  const auto& [rows, in, out, dtype] = GetParam();
  Array values = array_of(random({rows, in}, 3, dtype));
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
  const std::array<double, 6> odd = {nan, 0.0, -0.0, infinity, -infinity, std::ldexp(1.0, -24)};
  for (std::int64_t i = 0; i < rows * in; i += 7) values[i] = odd[std::size_t(i / 7) % odd.size()];
  const Tensor gate = tensor_of(values, dtype);
  Array want = array_of(run_cuda_kernel(plain()).outputs[0]);
  for (std::int64_t i = 0; i < rows * in; ++i) {
    if (gate.at(i) <= 0) want[i] = 0;
  }
  EXPECT_TRUE(same_bytes(run_cuda_kernel(gated("relu", gate)).outputs[0], tensor_of(want, dtype)));
  EXPECT_TRUE(same_bytes_every_launch(gated("relu", gate)));
}

TEST_P(CudaThinCaseTest, AnotherActivationMatchesTheCpu) {
  const auto& [rows, in, out, dtype] = GetParam();
  KernelCall call = gated("silu", random({rows, in}, 4, dtype));
  const Tensor got = run_cuda_kernel(call).outputs[0];
  call.kernel = "";
  const Tensor want = run_kernel(call).outputs[0];
  const Tolerance one = tolerance(dtype, out);
  EXPECT_TRUE(is_close(got, want, {2 * one.rtol, 2 * one.atol}, "dx"));
}

TEST_P(CudaThinCaseTest, DweightMatchesTheCpu) {
  const auto& [rows, in, out, dtype] = GetParam();
  const Tensor x = random({rows, in}, 5, dtype);
  KernelCall call{"fc_dweight", {{"bias", true}}, {dy_, x}, "cuda.fc_dweight.thin"};
  const KernelResult got = run_cuda_kernel(call);
  EXPECT_TRUE(same_bytes_every_launch(call));
  call.kernel = "";
  const KernelResult want = run_kernel(call);
  const Tolerance one = tolerance(DType::FP32, rows);
  for (const std::size_t i : {0u, 1u}) {
    EXPECT_TRUE(is_close(got.outputs[i], want.outputs[i], {2 * one.rtol, 2 * one.atol},
                         i == 0 ? "dweight" : "dbias"));
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaThinCaseTest, testing::ValuesIn(cases()),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return std::to_string(c.rows) + "x" + std::to_string(c.in) + "x" +
                                  std::to_string(c.out) + "_" + std::string(name_of(c.dtype));
                         });

// What is not a number in one operand stays where the formula puts it: nothing is multiplied by a
// zero that only fills a tile.
TEST(CudaThinTest, NanStaysInItsRowAndColumn) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const std::int64_t rows = 100, in = 70, out = 10;
  for (const DType dtype : {DType::FP32, DType::FP16}) {
    Array values = array_of(random({rows, in}, 1, dtype));
    values[33 * in + 7] = std::nan("");
    const Tensor x = tensor_of(values, dtype), dy = random({rows, out}, 2, dtype);
    const Tensor dweight =
        run_cuda_kernel({"fc_dweight", {}, {dy, x}, "cuda.fc_dweight.thin"}).outputs[0];
    for (std::int64_t i = 0; i < out * in; ++i) {
      ASSERT_EQ(std::isnan(dweight.at(i)), i % in == 7) << name_of(dtype) << " element " << i;
    }
    Array gradients = array_of(dy);
    gradients[33 * out + 3] = std::nan("");
    const Tensor dx = run_cuda_kernel({"fc_dx",
                                       {},
                                       {tensor_of(gradients, dtype), random({out, in}, 3, dtype)},
                                       "cuda.fc_dx.thin"})
                          .outputs[0];
    for (std::int64_t i = 0; i < rows * in; ++i) {
      ASSERT_EQ(std::isnan(dx.at(i)), i / in == 33) << name_of(dtype) << " element " << i;
    }
  }
}

}  // namespace
}  // namespace tr::test

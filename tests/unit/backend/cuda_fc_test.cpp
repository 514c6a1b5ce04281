// SPDX-License-Identifier: Apache-2.0
// fc, fc_dx and fc_dweight on the GPU against the CPU's, for odd shapes, every dtype and engine.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "backend/cuda/fc_product.h"
#include "cuda_kernel_harness.h"
#include "support/compare.h"

namespace tr::test {
namespace {

struct Case {
  std::int64_t rows, in, out;
  DType dtype;
  std::string engine;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::array<std::int64_t, 3>> shapes = {
      {1, 1, 1},      {1, 784, 10},     {3, 7, 17},      {7, 10, 3},
      {17, 200, 10},  {200, 784, 1025}, {1025, 17, 200}, {10, 3, 7},
      {784, 1025, 1}, {200, 512, 512},  {2049, 33, 65},  {4100, 10, 10}};
  for (const auto& [rows, in, out] : shapes) {
    for (const char* engine : {"cublaslt", "simt"}) {
      for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
        all.push_back({rows, in, out, dtype, engine});
      }
    }
  }
  return all;
}

class CudaFcTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }
  static Tensor random(const Shape& shape, std::uint64_t seed, DType dtype) {
    return Tensor::uniform(shape, -1, 1, seed, dtype);
  }
  /// The GPU's outputs against the CPU's; each of them may err by the tolerance.
  void check(KernelCall call, std::int64_t summed) {
    const KernelResult want = run_kernel(call);
    call.kernel = "cuda." + call.op + "." + GetParam().engine;
    const KernelResult got = run_cuda_kernel(call);
    for (std::size_t i = 0; i < want.outputs.size(); ++i) {
      const Tolerance one = tolerance(want.outputs[i].dtype(), summed);
      EXPECT_TRUE(is_close(got.outputs[i], want.outputs[i], {2 * one.rtol, 2 * one.atol},
                           call.op + " output " + std::to_string(i)));
    }
    EXPECT_TRUE(same_bytes_every_launch(call));
  }
};

TEST_P(CudaFcTest, ForwardMatchesTheCpu) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor x = random({rows, in}, 1, dtype), weight = random({out, in}, 2, dtype);
  const Tensor bias = random({out}, 3, DType::FP32);
  for (const std::string activation : {"", "relu", "gelu", "silu"}) {
    SCOPED_TRACE(activation);
    check({"fc", {{"activation", activation}}, {x, weight, bias}}, in);
    check({"fc", {{"activation", activation}, {"bias", false}}, {x, weight}}, in);
  }
  check({"fc", {{"activation", std::string("elu")}, {"alpha", 0.7}}, {x, weight, bias}}, in);
}

TEST_P(CudaFcTest, DxMatchesTheCpu) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor dy = random({rows, out}, 6, dtype), weight = random({out, in}, 7, dtype);
  const Tensor gate = random({rows, in}, 8, dtype);
  check({"fc_dx", {}, {dy, weight}}, out);
  for (const std::string activation : {"relu", "gelu", "tanh"}) {
    SCOPED_TRACE(activation);
    check({"fc_dx", {{"activation", activation}}, {dy, weight, gate}}, out);
  }
}

TEST_P(CudaFcTest, DweightMatchesTheCpu) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor dy = random({rows, out}, 9, dtype), x = random({rows, in}, 10, dtype);
  check({"fc_dweight", {{"bias", true}}, {dy, x}}, rows);
  check({"fc_dweight", {{"bias", false}}, {dy, x}}, rows);
}

TEST_P(CudaFcTest, NanGoesThroughTheActivation) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  Array values = array_of(random({rows, in}, 11, dtype));
  values[rows / 2 * in] = std::nan("");
  const Tensor x = tensor_of(values, dtype), weight = random({out, in}, 12, dtype);
  const Tensor bias = random({out}, 13, DType::FP32);
  const Tensor y =
      run_cuda_kernel(
          {"fc", {{"activation", std::string("relu")}}, {x, weight, bias}, "cuda.fc." + engine})
          .outputs[0];
  for (std::int64_t i = 0; i < rows * out; ++i) {
    ASSERT_EQ(std::isnan(y.at(i)), i / out == rows / 2) << "element " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, CudaFcTest, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  return std::to_string(c.rows) + "x" + std::to_string(c.in) + "x" + std::to_string(c.out) + "_" +
         std::string(name_of(c.dtype)) + "_" + c.engine;
});

// TF32 has the mantissa of fp16, so that a product errs like one of fp16 operands.
TEST(Tf32Test, ProductsErrByTheCutOfTheirOperands) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const std::int64_t rows = 200, in = 784, out = 512;
  const Tensor x = Tensor::uniform({rows, in}, -1, 1, 1),
               weight = Tensor::uniform({out, in}, -1, 1, 2);
  KernelCall call{"fc", {{"bias", false}}, {x, weight}};
  const Tensor want = run_kernel(call).outputs[0];
  call.kernel = "cuda.fc.cublaslt_tf32";
  const Tensor got = run_cuda_kernel(call).outputs[0];
  // Each of the `in` terms, at most 1, is wrong by two cuts of random sign.
  const double cut = 2 * unit_roundoff(DType::FP16) * std::sqrt(double(in));
  EXPECT_TRUE(is_close(got, want, {0, 4 * cut}, "fc in TF32"));
  EXPECT_FALSE(is_close(got, want, tolerance(DType::FP32, in), "fc in TF32, as fp32"))
      << "the product was not made in TF32";
  EXPECT_TRUE(same_bytes_every_launch(call));
}

// Else every comparison above could be one of our own kernel with the CPU.
TEST(CublasLtTest, HasAlgorithmsForOrdinaryProducts) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  for (const DType dtype : {DType::FP32, DType::FP16, DType::BF16}) {
    for (const std::int64_t n : {8, 10, 512, 4096}) {
      const cuda::ProductShape shape{
          .m = 200, .n = n, .k = 784, .transpose_b = true, .dtype = dtype, .result = DType::FP32};
      EXPECT_NE(cuda::cublaslt_engine().make(shape, cuda::Fused::NONE, ""), nullptr)
          << name_of(dtype) << " " << n;
    }
  }
  const cuda::ProductShape shape{.m = 200, .n = 512, .k = 784, .transpose_b = true};
  EXPECT_NE(cuda::cublaslt_engine().make(shape, cuda::Fused::BIAS, ""), nullptr);
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
// Everything that the measured choice may take for a product is right: each algorithm and form of
// each engine against the CPU; and what it takes is fast enough to have been measured.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>

#include "backend/cuda/engine_bench.h"
#include "backend/engine_search.h"
#include "backend/executor.h"
#include "cuda_kernel_harness.h"
#include "support/compare.h"

namespace tr::test {
namespace {

using Shape3 = std::array<std::int64_t, 3>;  // rows, in, out

Tensor random(const Shape& shape, std::uint64_t seed, DType dtype) {
  return Tensor::uniform(shape, -1, 1, seed, dtype);
}

class CudaEngineTest : public testing::TestWithParam<std::tuple<Shape3, DType>> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }
  /// Outputs of every engine whose name begins so against the CPU's; each of the two may err by the
  /// tolerance.
  void check(KernelCall call, std::int64_t summed, const std::string& prefix = "") {
    const KernelResult want = run_kernel(call);
    for (const std::string& engine : engines_of(call, DeviceKind::CUDA)) {
      if (!engine.starts_with(prefix)) continue;
      SCOPED_TRACE(engine.substr(0, engine.find('#')));
      call.kernel = engine;
      kernels_.insert(std::string(EngineText(engine).kernel));
      const KernelResult got = run_cuda_kernel(call);
      for (std::size_t i = 0; i < want.outputs.size(); ++i) {
        Tolerance one = tolerance(want.outputs[i].dtype(), summed);
        if (engine.find("_tf32") != std::string::npos) one.atol += tf32_error(summed);
        EXPECT_TRUE(is_close(got.outputs[i], want.outputs[i], {2 * one.rtol, 2 * one.atol},
                             call.op + " output " + std::to_string(i)));
      }
      EXPECT_TRUE(same_bytes_every_launch(call));
    }
  }
  std::set<std::string> kernels_;
};

TEST_P(CudaEngineTest, Fc) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  const Tensor x = random({rows, in}, 1, dtype), weight = random({out, in}, 2, dtype);
  const Tensor bias = random({out}, 3, DType::FP32);
  for (const std::string activation : {"", "relu", "silu"}) {
    SCOPED_TRACE(activation);
    check({"fc", {{"activation", activation}}, {x, weight, bias}}, in);
    check({"fc", {{"activation", activation}, {"bias", false}}, {x, weight}}, in);
  }
  EXPECT_TRUE(kernels_.contains("cuda.fc.simt"));
  // For odd sizes the library may have nothing.
  if (rows % 8 == 0 && in % 8 == 0 && out % 8 == 0) {
    EXPECT_TRUE(kernels_.contains("cuda.fc.cublaslt"));
  }
}

TEST_P(CudaEngineTest, FcDx) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  const Tensor dy = random({rows, out}, 6, dtype), weight = random({out, in}, 7, dtype);
  const Tensor gate = random({rows, in}, 8, dtype);
  check({"fc_dx", {}, {dy, weight}}, out);
  for (const std::string activation : {"relu", "silu", "leaky_relu"}) {
    SCOPED_TRACE(activation);
    check({"fc_dx", {{"activation", activation}, {"alpha", 0.1}}, {dy, weight, gate}}, out);
  }
  EXPECT_EQ(kernels_.contains("cuda.fc_dx.thin"), out <= 64);
}

// As PyTorch's threshold_backward, whatever form drops: a gradient passes where the result is not a
// number, and one that is not a number is dropped like any other.
TEST_P(CudaEngineTest, FcDxOfWhatIsNotANumber) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  Array gradients = array_of(random({rows, out}, 6, dtype));
  gradients[rows / 2 * out] = std::nan("");
  Array results = array_of(random({rows, in}, 8, dtype));
  for (std::int64_t i = 0; i < rows * in; i += 5) {
    results[i] = i % 15 == 0 ? std::nan("") : i % 15 == 5 ? -0.0 : 0.0;
  }
  check({"fc_dx",
         {{"activation", std::string("relu")}},
         {tensor_of(gradients, dtype), random({out, in}, 7, dtype), tensor_of(results, dtype)}},
        out);
}

TEST_P(CudaEngineTest, FcDweight) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  const Tensor dy = random({rows, out}, 9, dtype), x = random({rows, in}, 10, dtype);
  check({"fc_dweight", {{"bias", true}}, {dy, x}}, rows);
  check({"fc_dweight", {{"bias", false}}, {dy, x}}, rows);
  EXPECT_EQ(kernels_.contains("cuda.fc_dweight.thin"), out <= 64);
}

// A 1x1 convolution of one row of pixels is the same product.
TEST_P(CudaEngineTest, PointwiseConvolution) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  const Attrs attrs = {{"out_channels", out}, {"kernel", std::vector<std::int64_t>{1, 1}}};
  const Tensor x = random({1, 1, rows, in}, 1, dtype), weight = random({out, 1, 1, in}, 2, dtype);
  const Tensor dy = random({1, 1, rows, out}, 3, dtype);
  check({"conv", attrs, {x, weight}}, in, "cuda.conv.cublaslt");
  check({"conv_dx", attrs, {dy, weight, x}}, out, "cuda.conv_dx.cublaslt");
  check({"conv_dweight", attrs, {dy, x}}, rows, "cuda.conv_dweight.cublaslt");
  const std::int64_t vector = 16 / std::int64_t(size_of(dtype));
  EXPECT_EQ(kernels_.size(), in % vector == 0 && out % vector == 0 ? 3u : 0u);
}

std::string case_name(const testing::TestParamInfo<std::tuple<Shape3, DType>>& info) {
  const auto& [rows, in, out] = std::get<0>(info.param);
  return std::to_string(rows) + "x" + std::to_string(in) + "x" + std::to_string(out) + "_" +
         std::string(name_of(std::get<1>(info.param)));
}

/// fc_marked's mask of `y` [rows, columns].
Tensor mask_of(const Tensor& y) {
  const std::int64_t rows = y.shape()[0], columns = y.shape()[1];
  Tensor mask = Tensor::zeros({rows, columns / 8}, DType::UINT8);
  auto* bytes = mask.data<std::uint8_t>();
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    if (!(y.at(i) <= 0)) bytes[i / 8] = std::uint8_t(bytes[i / 8] | 1 << (i % 8));
  }
  return mask;
}

class CudaReluMaskTest : public testing::TestWithParam<std::tuple<Shape3, DType>> {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// y as without a mask, by the same engine, and its bits; a row that is not a number keeps its own.
TEST_P(CudaReluMaskTest, IsMadeWithTheResult) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  Array values = array_of(random({rows, in}, 1, dtype));
  values[rows / 2 * in] = std::nan("");
  const Tensor x = tensor_of(values, dtype), weight = random({out, in}, 2, dtype);
  KernelCall call{"fc_marked", {}, {x, weight, random({out}, 3, DType::FP32)}};
  const std::vector<std::string> engines = engines_of(call, DeviceKind::CUDA);
  EXPECT_FALSE(engines.empty());
  for (const std::string& engine : engines) {
    SCOPED_TRACE(engine.substr(0, engine.find('#')));
    call.kernel = engine;
    const KernelResult got = run_cuda_kernel(call);
    KernelCall plain{"fc", {{"activation", std::string("relu")}}, call.inputs, engine};
    plain.kernel.replace(plain.kernel.find("fc_marked"), 9, "fc");
    EXPECT_TRUE(same_bytes(got.outputs[0], run_cuda_kernel(plain).outputs[0], "y"));
    EXPECT_TRUE(same_bytes(got.outputs[1], mask_of(got.outputs[0]), "mask"));
    EXPECT_TRUE(same_bytes_every_launch(call));
  }
}

// dx by bits as by the result that they are of, in each engine; nothing is zero times NaN.
TEST_P(CudaReluMaskTest, IsAGate) {
  const auto& [shape, dtype] = GetParam();
  const auto& [rows, in, out] = shape;
  const std::int64_t columns = out;  // of the rectifier's result, dx's
  Array gradients = array_of(random({rows, in}, 4, dtype));
  gradients[rows / 2 * in] = std::nan("");
  Array results = array_of(random({rows, columns}, 5, dtype));
  for (std::int64_t i = 0; i < rows * columns; i += 5) results[i] = i % 2 == 0 ? std::nan("") : 0;
  const Tensor dy = tensor_of(gradients, dtype), weight = random({in, columns}, 6, dtype);
  const Tensor y = tensor_of(results, dtype);
  const Attrs attrs{{"activation", std::string("relu")}};
  const Tensor want = run_kernel({"fc_dx", attrs, {dy, weight, y}}).outputs[0];
  KernelCall call{"fc_dx", attrs, {dy, weight, mask_of(y)}};
  const Tolerance one = tolerance(dtype, in);
  const std::vector<std::string> engines = engines_of(call, DeviceKind::CUDA);
  EXPECT_FALSE(engines.empty());
  for (const std::string& engine : engines) {
    SCOPED_TRACE(engine.substr(0, engine.find('#')));
    call.kernel = engine;
    EXPECT_TRUE(is_close(run_cuda_kernel(call).outputs[0], want, {2 * one.rtol, 2 * one.atol}));
    EXPECT_TRUE(same_bytes_every_launch(call));
  }
}

// rows, operands' columns, columns of relu's result. Vectors that end within a block, and several
// blocks; more terms than one tile of the thin products has.
INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaReluMaskTest,
    testing::Combine(testing::Values(Shape3{1, 8, 128}, Shape3{33, 10, 384}, Shape3{200, 64, 1024},
                                     Shape3{530, 10, 4096}, Shape3{65, 17, 256},
                                     Shape3{100, 256, 640}),
                     testing::Values(DType::FP16, DType::BF16)),
    case_name);

// One element; one tile and its neighbours; several parts, blocks and warps; rows of whole vectors
// and odd ones; one more output than a tile has, and the most that are thin.
INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaEngineTest,
    testing::Combine(testing::Values(Shape3{1, 1, 1}, Shape3{16, 64, 16}, Shape3{17, 65, 17},
                                     Shape3{1037, 259, 10}, Shape3{4099, 512, 10},
                                     Shape3{200, 1024, 64}, Shape3{333, 77, 63}, Shape3{64, 8, 2},
                                     Shape3{256, 320, 200}),
                     testing::Values(DType::FP32, DType::FP16, DType::BF16)),
    case_name);

TEST(CudaBenchTest, MeasuresAndItsChoiceIsAcceptedAgain) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const std::vector<TensorType> in = {
      {{2000, 784}, DType::FP16}, {{1024, 784}, DType::FP16}, {{1024}, DType::FP32}};
  const OpDef& def = OpRegistry::instance().get("fc");
  const Attrs attrs = complete_attrs(def, {{"activation", std::string("relu")}});
  const std::vector<TensorType> out = def.infer(attrs, in);
  EngineSearch search(cuda::make_engine_bench(0), {});
  TuningTable table;
  const std::string engine =
      make_kernel_oracle(DeviceKind::CUDA, table, {}, &search)->choose("fc", attrs, in, out).kernel;
  ASSERT_EQ(search.num_searched(), 1);
  const std::string key = table.entries().begin()->first;
  EXPECT_GT(table.us_of(key), 1) << engine;
  EXPECT_LT(table.us_of(key), 1000) << engine;
  // As a checkpoint or the cache brings it: accepted, and nothing is measured.
  TuningTable again = TuningTable::from_json(table.to_json());
  const std::string second =
      make_kernel_oracle(DeviceKind::CUDA, again, {}, &search)->choose("fc", attrs, in, out).kernel;
  EXPECT_EQ(second, engine);
  EXPECT_EQ(search.num_searched(), 1);
  EXPECT_EQ(again.find(key), engine);
}

// A gate of bits is measured with bits of both kinds.
TEST(CudaBenchTest, MeasuresProductsGatedByAMask) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const std::vector<TensorType> in = {
      {{2000, 512}, DType::FP16}, {{512, 1024}, DType::FP16}, {{2000, 128}, DType::UINT8}};
  const OpDef& def = OpRegistry::instance().get("fc_dx");
  const Attrs attrs = complete_attrs(def, {{"activation", std::string("relu")}});
  EngineSearch search(cuda::make_engine_bench(0), {});
  TuningTable table;
  const auto oracle = make_kernel_oracle(DeviceKind::CUDA, table, {}, &search);
  const std::vector<TensorType> out = def.infer(attrs, in);
  const std::string engine = oracle->choose("fc_dx", attrs, in, out).kernel;
  ASSERT_EQ(search.num_searched(), 1);
  EXPECT_GT(table.us_of(table.entries().begin()->first), 1) << engine;
  EXPECT_TRUE(engine.starts_with("cuda.fc_dx.cublaslt")) << engine;
}

TEST(CudaBenchTest, AnAlgorithmThatTheLibraryDoesNotKnowIsRefused) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const std::vector<TensorType> in = {{{256, 512}, DType::FP16}, {{512, 512}, DType::FP16}};
  const OpDef& def = OpRegistry::instance().get("fc");
  const Attrs attrs = complete_attrs(def, {{"bias", false}});
  const std::vector<TensorType> out = def.infer(attrs, in);
  TuningTable table;
  const auto oracle = make_kernel_oracle(DeviceKind::CUDA, table);
  const std::string by_rank = oracle->choose("fc", attrs, in, out).kernel;
  const std::string key = table.entries().begin()->first;
  for (const std::string& words :
       {std::string(128, 'f'), std::string(128, '0'), std::string("12")}) {
    table.set(key, "cuda.fc.cublaslt plain 66/tile1/stages1/split1#" + words);
    EXPECT_EQ(oracle->choose("fc", attrs, in, out).kernel, by_rank) << words;
  }
}

TEST(CudaBenchTest, TheEnvironmentNamesDeviceAndLibraries) {
  if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  const std::string environment = cuda::tuning_environment(0);
  EXPECT_TRUE(has_words(environment, {"multiprocessors", "sm_", "driver", "CUDA", "cuBLASLt",
                                      "kernels " + std::string(cuda::kernel_sources_hash())}));
  EXPECT_EQ(std::string(cuda::kernel_sources_hash()).size(), 16u);
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "backend/cpu/onednn.h"
#include "backend/cpu/packed_matmul.h"
#include "kernel_harness.h"
#include "support/compare.h"
#include "support/tolerance.h"

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
      {1, 1, 1},      {7, 33, 5},     {33, 7, 200},  {200, 1000, 33},
      {13, 1030, 65}, {200, 784, 10}, {50, 70, 200}, {300, 90, 600}};
  for (const auto& [rows, in, out] : shapes) {
    for (const char* engine : {"packed", "onednn"})
      all.push_back({rows, in, out, DType::FP32, engine});
    for (const DType low : {DType::FP16, DType::BF16}) {
      all.push_back({rows, in, out, low, "widened"});
    }
    all.push_back({rows, in, out, DType::BF16, "onednn"});
    all.push_back({rows, in, out, DType::BF16, "packed"});
    all.push_back({rows, in, out, DType::BF16, "amx"});
  }
  return all;
}

class FcTest : public testing::TestWithParam<Case> {
 protected:
  Tensor random(const Shape& shape, std::uint64_t seed, DType dtype) const {
    return Tensor::uniform(shape, -1, 1, seed, dtype);
  }
  KernelCall call(const std::string& op, std::vector<Tensor> inputs, Attrs attrs) const {
    return {op, std::move(attrs), std::move(inputs), "cpu." + op + "." + GetParam().engine};
  }
  /// Runs it on several threads, or skips where the processor lacks the engine.
  void check(const KernelCall& call, const std::vector<Array>& want, std::int64_t summed) {
    if (const std::string reason = refusal_of(call); !reason.empty()) GTEST_SKIP() << reason;
    const KernelResult got = run_kernel(call);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_TRUE(is_close(got.outputs[i], want[i], tolerance(got.outputs[i].dtype(), summed)));
    }
    EXPECT_TRUE(same_bytes_for_threads(call));
  }
};

double relu(double x) { return x > 0 ? x : 0; }

TEST_P(FcTest, ForwardWithBiasAndReluMatchesReference) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor x = random({rows, in}, 1, dtype), weight = random({out, in}, 2, dtype);
  const Tensor bias = random({out}, 3, DType::FP32);
  const Array b = array_of(bias);
  Array want = ref::fc(array_of(x), array_of(weight), &b);
  for (double& value : want.values) value = relu(value);
  check(call("fc", {x, weight, bias}, {{"activation", std::string("relu")}}), {want}, in);
}

TEST_P(FcTest, ForwardWithoutBias) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor x = random({rows, in}, 4, dtype), weight = random({out, in}, 5, dtype);
  check(call("fc", {x, weight}, {{"bias", false}}),
        {ref::fc(array_of(x), array_of(weight), nullptr)}, in);
}

TEST_P(FcTest, DxThroughGateMatchesReference) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor dy = random({rows, out}, 6, dtype), weight = random({out, in}, 7, dtype);
  const Tensor gate = random({rows, in}, 8, dtype);
  Array want(Shape{rows, in});
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t k = 0; k < in; ++k) {
      if (gate.at(n * in + k) <= 0) continue;
      for (std::int64_t o = 0; o < out; ++o)
        want[n * in + k] += dy.at(n * out + o) * weight.at(o * in + k);
    }
  }
  check(call("fc_dx", {dy, weight, gate}, {{"activation", std::string("relu")}}), {want}, out);
}

TEST_P(FcTest, DweightAndDbiasMatchReference) {
  const auto& [rows, in, out, dtype, engine] = GetParam();
  const Tensor dy = random({rows, out}, 9, dtype), x = random({rows, in}, 10, dtype);
  Array dweight(Shape{out, in}), dbias(Shape{out});
  for (std::int64_t n = 0; n < rows; ++n) {
    for (std::int64_t o = 0; o < out; ++o) {
      const double d = dy.at(n * out + o);
      dbias[o] += d;
      for (std::int64_t k = 0; k < in; ++k) dweight[o * in + k] += d * x.at(n * in + k);
    }
  }
  check(call("fc_dweight", {dy, x}, {{"bias", true}}), {dweight, dbias}, rows);
}

INSTANTIATE_TEST_SUITE_P(Shapes, FcTest, testing::ValuesIn(cases()), [](const auto& info) {
  const Case& c = info.param;
  // Of AMX without its dtype: the name stands beside the reason of a skip (tools/check_skips.py).
  const std::string dtype = c.engine == "amx" ? "" : std::string(name_of(c.dtype)) + "_";
  return std::to_string(c.rows) + "x" + std::to_string(c.in) + "x" + std::to_string(c.out) + "_" +
         dtype + c.engine;
});

// A row's result must not depend on which other rows stand beside it: batches of any size agree.
TEST(PackedMatmulTest, RowsDoNotDependOnTheBatch) {
  if (!cpu::has_packed_matmul(DType::FP32)) GTEST_SKIP() << "the processor has no AVX-512";
  const Tensor x = Tensor::uniform({200, 1100}, -1, 1, 1);
  const Tensor weight = Tensor::uniform({70, 1100}, -1, 1, 2);
  const auto forward = [&](const Tensor& rows) {
    return run_kernel({"fc", {{"bias", false}}, {rows, weight}, "cpu.fc.packed"}).outputs[0];
  };
  const Tensor whole = forward(x);
  for (const std::int64_t rows : {1, 7, 13, 33, 199}) {
    Tensor part({rows, 1100}, DType::FP32);
    std::memcpy(part.raw(), x.raw(), part.num_bytes());
    const Tensor y = forward(part);
    EXPECT_EQ(0, std::memcmp(y.raw(), whole.raw(), y.num_bytes())) << rows << " rows";
  }
}

TEST(FcRefusalTest, EachEngineSaysWhy) {
  const Tensor x = Tensor::zeros({2, 3}, DType::FP16), weight = Tensor::zeros({4, 3}, DType::FP16);
  EXPECT_NE(refusal_of({"fc", {{"bias", false}}, {x, weight}, "cpu.fc.onednn"}).find("fp16"),
            std::string::npos);
  const Tensor x32 = Tensor::zeros({2, 3}), weight32 = Tensor::zeros({4, 3});
  EXPECT_NE(refusal_of({"fc", {{"bias", false}}, {x32, weight32}, "cpu.fc.widened"}).find("fp32"),
            std::string::npos);
}

}  // namespace
}  // namespace tr::test

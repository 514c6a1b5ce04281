// SPDX-License-Identifier: Apache-2.0
// CUDA kernels over whole ranges against the CPU's: optimizers on odd segment tables, finite check,
// accumulation, averages. Every call is also replayed from a captured graph.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cuda_kernel_harness.h"
#include "optimizer_calls.h"
#include "support/compare.h"

namespace tr::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class CudaKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

/// All state and outputs of `call` on the GPU have the CPU's bytes.
void expect_cpu_bytes(const KernelCall& call) {
  const KernelResult want = run_kernel(call), got = run_cuda_kernel(call);
  for (std::size_t i = 0; i < want.inputs.size(); ++i) {
    if (want.inputs[i].empty()) continue;
    EXPECT_TRUE(same_bytes(got.inputs[i], want.inputs[i], call.op + " input " + std::to_string(i)));
  }
  for (std::size_t i = 0; i < want.outputs.size(); ++i) {
    EXPECT_TRUE(same_bytes(got.outputs[i], want.outputs[i], call.op));
  }
  EXPECT_TRUE(same_bytes_every_launch(call));
}

std::vector<Table> tables() {
  std::vector<Table> all;
  all.emplace_back(std::vector<std::int64_t>{1}, 128, 0);
  all.emplace_back(std::vector<std::int64_t>{1, 3, 127, 128, 129, 5, 1000, 10, 4099}, 128, 0);
  all.emplace_back(std::vector<std::int64_t>{2, 1, 1, 7, 513, 3, 3, 10001}, 1, 3);  // not aligned
  all.emplace_back(std::vector<std::int64_t>(300, 17), 128, 0);
  // Several tiles a block on any device.
  all.emplace_back(std::vector<std::int64_t>{3000001, 10, 2000003, 7, 700000}, 128, 0);
  return all;
}

KernelCall sgd_call(const Attrs& attrs, const Table& table, DType cast, int found_inf = 0) {
  const int moments = attrs.contains("momentum") ? 1 : 0;
  return with_moments(optimizer_call("sgd", attrs, table, found_inf), table, moments, 1, cast);
}

KernelCall adam_call(const Attrs& attrs, const Table& table, DType cast, int found_inf = 0) {
  return with_moments(optimizer_call("adam", attrs, table, found_inf), table, 2, 2, cast);
}

/// Optimizers whose CUDA kernels share their formulas with the CPU's.
struct FormulaCase {
  std::string op;
  Attrs attrs;
  int moments, places;

  KernelCall call(const Table& table, DType cast, int found_inf = 0) const {
    return with_moments(optimizer_call(op, attrs, table, found_inf), table, moments, places, cast);
  }
};

std::vector<FormulaCase> formula_cases() {
  return {{"lion", {}, 1, 1},
          {"lion", {{"clip_norm", 1.0}, {"beta1", 0.8}}, 1, 1},
          {"rmsprop", {}, 1, 3},
          {"rmsprop", {{"momentum", 0.9}, {"clip_value", 0.05}}, 2, 3},
          {"rmsprop", {{"centered", true}, {"eps", 1e-3}}, 2, 3},
          {"rmsprop", {{"centered", true}, {"eps", 1e-3}, {"momentum", 0.5}}, 3, 3},
          {"adagrad", {}, 1, 1},
          {"adagrad", {{"initial", 0.1}, {"lr_decay", 0.1}}, 1, 1},
          {"lars", {}, 0, 1},
          {"lars", {{"momentum", 0.9}, {"nesterov", true}, {"clip_norm", 1.0}}, 1, 1},
          {"lars", {{"momentum", 0.9}, {"always_adapt", true}, {"trust_clip", true}}, 1, 1},
          {"lars", {{"momentum", 0.9}, {"rate_in_momentum", true}}, 1, 1},
          {"lamb", {}, 2, 2},
          {"lamb", {{"always_adapt", true}, {"clip_value", 0.05}, {"trust_clip", true}}, 2, 2}};
}

constexpr DType kCasts[] = {DType::FP32, DType::FP16, DType::BF16};

TEST_F(CudaKernelsTest, SgdHasTheBytesOfTheCpu) {
  const std::vector<Attrs> settings = {{},
                                       {{"decoupled", true}, {"clip_value", 0.05}},
                                       {{"momentum", 0.9}, {"clip_norm", 1.0}},
                                       {{"momentum", 0.9}, {"nesterov", true}}};
  for (const Table& table : tables()) {
    SCOPED_TRACE(table.count);
    for (const Attrs& attrs : settings) {
      for (const DType cast : kCasts) expect_cpu_bytes(sgd_call(attrs, table, cast));
    }
  }
}

// Powers in double may differ in their last bit, so the CPU is met within a rounding.
TEST_F(CudaKernelsTest, AdamMatchesTheCpu) {
  const std::vector<Attrs> settings = {
      {}, {{"decoupled", true}, {"clip_norm", 1.0}}, {{"clip_value", 0.05}, {"eps", 1e-3}}};
  for (const Table& table : tables()) {
    SCOPED_TRACE(table.count);
    for (const Attrs& attrs : settings) {
      for (const DType cast : kCasts) {
        const KernelCall call = adam_call(attrs, table, cast);
        const KernelResult want = run_kernel(call), got = run_cuda_kernel(call);
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          const DType dtype = call.inputs[i].dtype();
          if (!is_floating(dtype)) continue;
          EXPECT_TRUE(is_close(got.inputs[i], want.inputs[i], tolerance(dtype)));
        }
        EXPECT_TRUE(same_bytes_every_launch(call));
      }
    }
  }
}

// The root and the quotient are 2 units in the last place off at most; norms are sums of other
// parts.
TEST_F(CudaKernelsTest, FormulasMatchTheCpu) {
  for (const Table& table : tables()) {
    SCOPED_TRACE(table.count);
    for (const FormulaCase& one : formula_cases()) {
      SCOPED_TRACE(one.op);
      for (const DType cast : kCasts) {
        const KernelCall call = one.call(table, cast);
        const KernelResult want = run_kernel(call), got = run_cuda_kernel(call);
        for (std::size_t i = 0; i < call.inputs.size(); ++i) {
          if (call.inputs[i].empty() || !is_floating(call.inputs[i].dtype())) continue;
          const DType dtype = call.inputs[i].dtype();
          const Tolerance close =
              dtype == DType::FP32 ? run_tolerance(1, true) : tolerance(dtype, 1, 8);
          EXPECT_TRUE(is_close(got.inputs[i], want.inputs[i], close));
        }
        EXPECT_TRUE(same_bytes_every_launch(call));
      }
    }
  }
}

TEST_F(CudaKernelsTest, FormulasLeaveTheRest) {
  const Table table = tables()[2];
  for (const FormulaCase& one : formula_cases()) {
    SCOPED_TRACE(one.op);
    const KernelCall call = one.call(table, DType::FP32), bad = one.call(table, DType::FP16, 1);
    const KernelResult after = run_cuda_kernel(call), skipped = run_cuda_kernel(bad);
    for (std::size_t input = 0; input < call.inputs.size(); ++input) {
      if (call.inputs[input].empty() || (input != 0 && input < 8)) continue;  // weights, moments
      for (std::int64_t i = 0; i < table.count; ++i) {
        if (table.moves(i)) continue;
        ASSERT_EQ(after.inputs[input].at(i), call.inputs[input].at(i)) << input << " at " << i;
      }
    }
    EXPECT_FALSE(same_bytes(after.inputs[0], call.inputs[0])) << "the rest moves";
    for (std::size_t i = 0; i < bad.inputs.size(); ++i) {
      if (bad.inputs[i].empty()) continue;
      EXPECT_TRUE(same_bytes(skipped.inputs[i], bad.inputs[i]));
    }
  }
}

/// Matrices, vectors between them; rectangular, so that no singular value is near 0 and bf16's
/// rounding is not enlarged.
struct MuonCase {
  Table table{
      {48 * 200, 200, 200 * 48, 48, 33 * 100, 48 * 200, 16 * 64, 48 * 200, 33 * 100, 200 * 48},
      128,
      0};
  std::vector<std::int64_t> matrices;

  explicit MuonCase(bool frozen) {
    const std::int64_t rows[] = {48, 0, 200, 0, 33, 48, 16, 48, 33, 200};
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      Segment& s = table.rows[i];
      s.frozen = frozen && i == 2 ? 1 : 0;
      if (rows[i] == 0) continue;
      s.rows = std::int32_t(rows[i]);
      matrices.insert(matrices.end(), {s.begin, rows[i], s.count / rows[i]});
    }
  }
  KernelCall call(Attrs attrs, DType cast, int found_inf = 0) const {
    attrs.set("matrices", matrices);
    return with_moments(optimizer_call("muon", attrs, table, found_inf), table, 2, 2, cast);
  }
};

// Matrices by products in bf16 against fp32: a step may be 5 % off.
TEST_F(CudaKernelsTest, MuonMovesAsTheCpu) {
  const MuonCase one(false);
  const std::vector<Attrs> settings = {
      {}, {{"match_rms", true}, {"nesterov", false}, {"clip_norm", 1.0}, {"adam_rate", 0.5}}};
  for (const Attrs& attrs : settings) {
    for (const DType cast : kCasts) {
      const KernelCall call = one.call(attrs, cast);
      const KernelResult want = run_kernel(call), got = run_cuda_kernel(call);
      for (const Segment& s : one.table.rows) {
        const double limit = s.rows > 0 ? 0.05 : 1e-4;
        EXPECT_LT(relative_distance(s, got.inputs[0], want.inputs[0], call.inputs[0]), limit)
            << s.count;
      }
      for (const std::size_t moment : {8u, 9u}) {
        EXPECT_TRUE(
            is_close(got.inputs[moment], want.inputs[moment], run_tolerance(1, true), "moment"));
      }
      for (const Segment& s : one.table.rows) {
        if (cast == DType::FP32) break;
        const Tensor narrow = got.inputs[0].to(cast);
        for (std::int64_t i = s.begin; i < s.begin + s.count; ++i) {
          ASSERT_EQ(got.inputs[10].at(i), narrow.at(i)) << i;
        }
      }
      EXPECT_TRUE(same_bytes_every_launch(call));
    }
  }
}

TEST_F(CudaKernelsTest, MuonLeavesFrozenMatricesAndSkippedSteps) {
  const MuonCase one(true);
  const KernelCall call = one.call({}, DType::FP32), bad = one.call({}, DType::FP16, 1);
  const KernelResult after = run_cuda_kernel(call), skipped = run_cuda_kernel(bad);
  const Segment& frozen = one.table.rows[2];
  for (const std::size_t input : {0u, 8u, 9u}) {
    for (std::int64_t i = frozen.begin; i < frozen.begin + frozen.count; ++i) {
      ASSERT_EQ(after.inputs[input].at(i), call.inputs[input].at(i)) << input << " at " << i;
    }
  }
  EXPECT_FALSE(same_bytes(after.inputs[0], call.inputs[0])) << "the rest moves";
  for (std::size_t i = 0; i < bad.inputs.size(); ++i) {
    if (bad.inputs[i].empty()) continue;
    EXPECT_TRUE(same_bytes(skipped.inputs[i], bad.inputs[i]));
  }
}

TEST_F(CudaKernelsTest, FrozenSegmentsAndGapsKeepTheirBytes) {
  const Table table = tables()[2];
  for (const KernelCall& call :
       {sgd_call({{"momentum", 0.9}}, table, DType::FP16), adam_call({}, table, DType::FP16)}) {
    const KernelResult after = run_cuda_kernel(call);
    for (std::size_t input = 0; input < call.inputs.size(); ++input) {
      if (input != 0 && input < 8) continue;  // weights, moments, copy
      for (std::int64_t i = 0; i < table.count; ++i) {
        const bool moved = after.inputs[input].at(i) != call.inputs[input].at(i);
        ASSERT_EQ(moved, table.moves(i)) << call.op << " input " << input << " element " << i;
      }
    }
  }
}

TEST_F(CudaKernelsTest, AStepWithAnOverflowChangesNothing) {
  for (const Table& table : tables()) {
    for (const KernelCall& call : {sgd_call({{"momentum", 0.9}}, table, DType::FP16, 1),
                                   adam_call({}, table, DType::BF16, 1)}) {
      const KernelResult after = run_cuda_kernel(call);
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        EXPECT_TRUE(same_bytes(after.inputs[i], call.inputs[i]));
      }
    }
  }
}

struct Finding {
  double found_inf;
  double sumsq;
};
Finding check(const Tensor& gradients) {
  const KernelResult result = run_cuda_kernel({"finite_check", {}, {gradients}});
  return {result.outputs[0].item(), result.outputs[1].item()};
}

// One block, several, and more turns than one for each of the most blocks.
constexpr std::int64_t kCounts[] = {1, 3, 15, 4096, 8192, 8193, 100003, 9000001};

TEST_F(CudaKernelsTest, FiniteCheckFindsOneBadElementAnywhere) {
  for (const std::int64_t n : kCounts) {
    Tensor g = random(n, 3);
    EXPECT_EQ(check(g).found_inf, 0);
    for (const float bad : {kInf, -kInf, kNan}) {
      for (const std::int64_t place : {std::int64_t{0}, n / 3, n / 2, n - 1}) {
        const float good = g.data<float>()[place];
        g.data<float>()[place] = bad;
        EXPECT_EQ(check(g).found_inf, 1) << n << " " << bad << " " << place;
        g.data<float>()[place] = good;
      }
    }
  }
}

TEST_F(CudaKernelsTest, FiniteCheckSumsSquaresInAFixedOrder) {
  for (const std::int64_t n : kCounts) {
    const Tensor g = random(n, 5);
    double want = 0;
    for (const float v : g.values<float>()) want += double(v) * double(v);
    EXPECT_NEAR(check(g).sumsq / want, 1, 1e-6) << n;
    EXPECT_TRUE(same_bytes_every_launch({"finite_check", {}, {g}}));
  }
}

TEST_F(CudaKernelsTest, LargeFiniteGradientsAreFinite) {
  const Finding finding = check(Tensor::full({100}, 1e30));
  EXPECT_EQ(finding.found_inf, 0);  // though the sum of squares overflows
  EXPECT_TRUE(std::isinf(finding.sumsq));
}

TEST_F(CudaKernelsTest, RangesHaveTheBytesOfTheCpu) {
  for (const std::int64_t n : {1, 3, 4, 1023, 4096, 100003}) {
    SCOPED_TRACE(n);
    Tensor with_nan = random(n, 1);
    with_nan.data<float>()[n / 2] = kNan;
    for (const auto& [first, last] :
         {std::pair(true, false), {false, false}, {false, true}, {true, true}}) {
      expect_cpu_bytes(
          {"accumulate_grads", {{"first", first}, {"last", last}}, {random(n, 2), random(n, 3)}});
    }
    for (const int found_inf : {0, 1}) {
      expect_cpu_bytes(
          {"ema_update", {{"decay", 0.99}}, {random(n, 4), random(n, 5), flag(found_inf)}});
      expect_cpu_bytes({"commit_buffers", {}, {random(n, 6), with_nan, flag(found_inf)}});
    }
  }
}

TEST_F(CudaKernelsTest, AWorldOfOneReducesToItself) {
  expect_cpu_bytes({"all_reduce", {}, {random(1000, 1)}});
  expect_cpu_bytes({"all_reduce_flag", {}, {flag(1)}});
}

}  // namespace
}  // namespace tr::test

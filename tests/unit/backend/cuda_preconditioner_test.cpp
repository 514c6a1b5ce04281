// SPDX-License-Identifier: Apache-2.0
// Shampoo and SOAP on a GPU against the CPU's kernels: several steps, of which some have roots or
// bases due. Every call is also replayed from a captured graph.
#include <gtest/gtest.h>

#include "cuda_kernel_harness.h"
#include "preconditioner_calls.h"
#include "support/compare.h"

namespace tr::test {
namespace {

KernelResult run_cuda(const KernelCall& call) { return run_cuda_kernel(call); }

class CudaPreconditioners : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = no_gpu_reason(); !reason.empty()) GTEST_SKIP() << reason;
  }
};

// Roots and bases are known to the rounding of products over the ridge; 150 terms are summed.
TEST_F(CudaPreconditioners, MoveAsTheCpu) {
  constexpr int kSteps = 4;
  const Case one(false);
  const double near = tolerance(DType::FP32, 150).rtol / kRidge;
  for (const Row& row : rows()) {
    for (const DType cast : {DType::FP32, DType::BF16}) {
      SCOPED_TRACE(row.op + " " + std::string(name_of(cast)));
      KernelCall call = one.call(row, cast);
      for (int step = 0; step < kSteps; ++step) {
        SCOPED_TRACE(step);
        const KernelResult want = run_kernel(call), got = run_cuda_kernel(call);
        for (const Segment& s : one.table.rows) {
          if (row.op == "soap" && step == 0 && s.rows > 0) {
            for (std::int64_t i = s.begin; i < s.begin + s.count; ++i)
              ASSERT_EQ(got.inputs[0].at(i), call.inputs[0].at(i)) << "the first step only begins";
            continue;
          }
          EXPECT_LT(relative_distance(s, got.inputs[0], want.inputs[0], call.inputs[0]),
                    s.rows > 0 ? near : 1e-4)
              << s.count;
        }
        EXPECT_TRUE(is_close(got.inputs[8], want.inputs[8], run_tolerance(1, true), "moment1"));
        EXPECT_TRUE(same_bytes_every_launch(call));
        if (cast != DType::FP32) {
          const Tensor narrow = got.inputs[0].to(cast);
          for (const Segment& s : one.table.rows) {
            if (row.op == "soap" && step == 0 && s.rows > 0) continue;
            for (std::int64_t i = s.begin; i < s.begin + s.count; ++i)
              ASSERT_EQ(got.inputs[kCast].at(i), narrow.at(i)) << i;
          }
        }
        advance(call, want, step);
      }
    }
  }
}

/// Q^T Q = I for the square matrix from element `at` on.
void expect_orthonormal(const Tensor& state, std::int64_t at, std::int64_t side) {
  const Tolerance near = tolerance(DType::FP32, side, 2);
  double worst = 0;
  for (std::int64_t a = 0; a < side; ++a) {
    for (std::int64_t b = 0; b <= a; ++b) {
      double sum = 0;
      for (std::int64_t r = 0; r < side; ++r) {
        sum += state.at(at + r * side + a) * state.at(at + r * side + b);
      }
      worst = std::max(worst, std::abs(sum - (a == b ? 1 : 0)));
    }
  }
  EXPECT_LT(worst, near.atol + near.rtol) << "side " << side;
}

TEST_F(CudaPreconditioners, TakeGradientsOfAnySize) { expect_steps_of_small_gradients(run_cuda); }

// Each device goes on from its own bases, which the step after shows: they are made at its end.
TEST_F(CudaPreconditioners, BasesAreOrthonormalAndLeadWhereTheCpusDo) {
  constexpr int kSteps = 5;
  constexpr std::int64_t kRows = 70, kColumns = 150, kHead = ops::kStateAlignment;
  const Case one(false);
  KernelCall own = one.call(rows()[3], DType::FP32), cpu = own;
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    const KernelResult got = run_cuda_kernel(own), want = run_kernel(cpu);
    const std::int64_t left = kHead + ops::padded_state(kRows * kRows);
    const std::int64_t right = left + ops::padded_state(kRows * kRows);
    for (const KernelResult* result : {&got, &want}) {
      expect_orthonormal(result->inputs[kState], left, kRows);
      expect_orthonormal(result->inputs[kState], right + ops::padded_state(kColumns * kColumns),
                         kColumns);
    }
    EXPECT_TRUE(
        is_close(got.inputs[0], want.inputs[0], turned_basis_tolerance(step + 1), "weights"));
    advance(own, got, step);
    advance(cpu, want, step);
  }
}

// Above some 1,700 rows a panel of reflections does not fit in shared memory.
TEST_F(CudaPreconditioners, BasesAreTheFirstFactorOfAQrDecomposition) {
  for (const QrCheck& check : {QrCheck{150, 40}, QrCheck{1800, 40}}) {
    check.expect_bases(run_cuda);
  }
}

// A group has at most 256 MiB of dense copies, and as much of what roots or bases take.
TEST_F(CudaPreconditioners, GroupsOfMatricesMoveLikeOne) {
  // 48 roots of 6 MiB each, 130 bases of 2 MiB and more, two matrices of 128 MiB and more.
  expect_same_as_alone(run_cuda, {"shampoo", {{"grafting", std::string("sgd")}}}, 512, 512, 24);
  expect_same_as_alone(run_cuda, {"soap", {}}, 512, 512, 65);
  expect_same_as_alone(run_cuda, {"soap", {{"max_dim", std::int64_t{2}}}}, 5800, 5800, 2);
}

// A root is checked by what it is: P^4 (L + ridge |L| I) = I.
TEST_F(CudaPreconditioners, RootsAreRoots) {
  const Case one(false);
  const KernelCall call = one.call(rows()[1], DType::FP32);
  const Tensor state = run_cuda_kernel(call).inputs[kState];
  constexpr std::int64_t kRows = 70, kPadded = (70 * 70 + 15) / 16 * 16, kColumns = 150;
  const std::int64_t left = 16, root = left + kPadded + (kColumns * kColumns + 15) / 16 * 16;
  const auto at = [&](std::int64_t matrix, std::int64_t r, std::int64_t c) {
    return state.at(matrix + r * kRows + c);
  };
  double norm = 0;
  for (std::int64_t i = 0; i < kRows * kRows; ++i) norm += std::pow(state.at(left + i), 2);
  norm = std::sqrt(norm);
  std::vector<double> x(kRows * kRows);
  for (std::int64_t r = 0; r < kRows; ++r) {
    for (std::int64_t c = 0; c < kRows; ++c)
      x[std::size_t(r * kRows + c)] = at(left, r, c) + (r == c ? kRidge * norm : 0);
  }
  for (int times = 0; times < 4; ++times) {
    std::vector<double> next(x.size(), 0);
    for (std::int64_t r = 0; r < kRows; ++r) {
      for (std::int64_t k = 0; k < kRows; ++k) {
        for (std::int64_t c = 0; c < kRows; ++c)
          next[std::size_t(r * kRows + c)] += at(root, r, k) * x[std::size_t(k * kRows + c)];
      }
    }
    x = next;
  }
  double worst = 0;
  for (std::int64_t i = 0; i < kRows * kRows; ++i)
    worst = std::max(worst, std::abs(x[std::size_t(i)] - (i % (kRows + 1) == 0 ? 1 : 0)));
  EXPECT_LT(worst, tolerance(DType::FP32, kRows).rtol / kRidge);
}

// What never had a gradient never moves, frozen matrices and skipped steps leave no trace.
TEST_F(CudaPreconditioners, LeaveFrozenMatricesAndSkippedSteps) {
  const Case one(true);
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.op);
    KernelCall call = one.call(row, DType::FP32);
    for (int step = 0; step < 2; ++step) {
      const KernelResult after = run_cuda_kernel(call);
      const Segment& frozen = one.table.rows[2];
      for (const std::size_t input : {0u, 8u, 9u}) {
        for (std::int64_t i = frozen.begin; i < frozen.begin + frozen.count; ++i)
          ASSERT_EQ(after.inputs[input].at(i), call.inputs[input].at(i)) << input << " at " << i;
      }
      EXPECT_FALSE(same_bytes(after.inputs[0], call.inputs[0])) << "the rest moves";
      advance(call, after, step);
    }
    KernelCall bad = call;
    bad.inputs[6] = flag(1);
    const KernelResult skipped = run_cuda_kernel(bad);
    for (std::size_t i = 0; i < bad.inputs.size(); ++i) {
      EXPECT_TRUE(same_bytes(skipped.inputs[i], bad.inputs[i]));
    }
  }
}

TEST_F(CudaPreconditioners, WhatNeverHasAGradientNeverMoves) {
  const Case one(false);
  const Segment& matrix = one.table.rows[0];
  const std::int64_t columns = matrix.count / matrix.rows;
  const auto is_dead = [&](std::int64_t i) {
    return i % columns == 5 || i % columns == 100 || i / columns == 33;
  };
  for (const Row& row : rows()) {
    if (row.attrs.contains("block_size")) continue;
    SCOPED_TRACE(row.op);
    KernelCall call = one.call(row, DType::FP32);
    const Tensor before = call.inputs[0].clone();
    // No decay of this matrix, no momentum from before.
    KernelResult after;
    for (int step = 0; step < 3; ++step) {
      for (std::int64_t i = 0; i < matrix.count; ++i) {
        if (!is_dead(i)) continue;
        call.inputs[1].data<float>()[matrix.begin + i] = 0;
        if (step == 0) call.inputs[8].data<float>()[matrix.begin + i] = 0;
      }
      after = run_cuda_kernel(call);
      advance(call, after, step);
    }
    for (std::int64_t i = 0; i < matrix.count; ++i) {
      const std::int64_t at = matrix.begin + i;
      ASSERT_EQ(after.inputs[0].at(at) == before.at(at), is_dead(i)) << i;
    }
  }
}

}  // namespace
}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls of Shampoo's and SOAP's kernels, several steps one after the other.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ops/preconditioner.h"
#include "optimizer_calls.h"
#include "support/tolerance.h"

namespace tr::test {

constexpr double kRidge = 1e-2;
constexpr std::size_t kState = 10, kCast = 11;  // inputs

struct Row {
  std::string op;
  Attrs attrs;
};
/// A table and which of its segments are matrices.
struct Case {
  Table table;
  std::vector<std::int64_t> matrices;

  /// `rows` of each segment, 0: it is no matrix.
  Case(const std::vector<std::int64_t>& lengths, const std::vector<std::int64_t>& rows)
      : table(lengths, 128, 0) {
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      Segment& s = table.rows[i];
      s.frozen = 0;
      if (rows[i] == 0) continue;
      s.rows = std::int32_t(rows[i]);
      matrices.insert(matrices.end(), {s.begin, rows[i], s.count / rows[i]});
    }
  }
  /// Matrices, tall and wide, larger and smaller than a tile of products, and vectors between them.
  explicit Case(bool frozen)
      : Case({70 * 150, 150, 40 * 33, 40, 33 * 3, 7, 16 * 64, 5}, {70, 0, 40, 0, 33, 0, 16, 0}) {
    table.rows[2].frozen = frozen ? 1 : 0;
  }
  KernelCall call(const Row& row, DType cast, int found_inf = 0) const {
    Attrs attrs = row.attrs;
    attrs.set("matrices", matrices).set("ridge", kRidge).set("every", std::int64_t{2});
    KernelCall call =
        with_moments(optimizer_call(row.op, attrs, table, found_inf), table, 2, 2, DType::FP32);
    const OpDef& def = OpRegistry::instance().get(row.op);
    call.inputs.push_back(Tensor::zeros({def.own_state(complete_attrs(def, attrs))}));
    if (cast != DType::FP32) call.inputs.push_back(random(table.count, 7).to(cast));
    return call;
  }
};

inline std::vector<Row> rows() {
  return {{"shampoo", {}},
          {"shampoo", {{"grafting", std::string("none")}, {"clip_norm", 1.0}}},
          {"shampoo",
           {{"grafting", std::string("sgd")},
            {"block_size", std::int64_t{32}},
            {"preconditioner_beta", 0.9}}},
          {"soap", {{"beta1", 0.95}, {"beta2", 0.95}, {"preconditioner_beta", 0.95}}},
          {"soap", {{"max_dim", std::int64_t{64}}, {"clip_value", 0.05}}},
          {"soap", {{"max_dim", std::int64_t{2}}}}};
}

inline Tensor scaled(const Tensor& x, float size) {
  Tensor y = x.clone();
  for (std::int64_t i = 0; i < y.num_elements(); ++i) y.data<float>()[i] *= size;
  return y;
}

/// The next step's call: state as the last one left it, other gradients, of that size.
inline void advance(KernelCall& call, const KernelResult& after, int step, float size = 1) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (i == 0 || i >= 8) call.inputs[i] = after.inputs[i];
  }
  call.inputs[1] = scaled(random(call.inputs[1].num_elements(), std::uint64_t(20 + step)), size);
  call.inputs[4].data<std::int64_t>()[kCounterUpdates] += 1;
}

/// Weights and state after steps whose gradients are up to 2 `size` large, from moments of zeros.
template <typename Run>
KernelResult after_steps(const Run& run, const Case& one, const Row& row, float size, int steps) {
  KernelCall call = one.call(row, DType::FP32);
  call.attrs.set("ridge", 1e-6);
  for (const std::size_t moment : {8u, 9u}) call.inputs[moment] = Tensor::zeros({one.table.count});
  call.inputs[1] = scaled(call.inputs[1], size);
  KernelResult after;
  for (int step = 0; step < steps; ++step) {
    after = run(call);
    advance(call, after, step, size);
  }
  return after;
}

/// Steps stay finite for gradients whose covariances have few digits or none; a covariance of zeros
/// has the identity for its root. Where they have all of them, the step without grafting is that of
/// large gradients.
template <typename Run>
void expect_steps_of_small_gradients(const Run& run) {
  constexpr int kSteps = 4;
  const Case one(false);
  for (const Row& row : rows()) {
    for (const float size : {1e-15f, 1e-17f, 1e-18f, 1e-19f, 1e-20f, 1e-22f, 1e-30f, 0.0f}) {
      SCOPED_TRACE(testing::Message() << row.op << " " << size);
      const KernelResult after = after_steps(run, one, row, size, kSteps);
      for (const std::size_t input : {std::size_t{0}, std::size_t{8}, std::size_t{9}, kState}) {
        for (std::int64_t i = 0; i < after.inputs[input].num_elements(); ++i)
          ASSERT_TRUE(std::isfinite(after.inputs[input].at(i))) << input << " at " << i;
      }
    }
  }
  const Row plain = rows()[1];
  const Tensor before = one.call(plain, DType::FP32).inputs[0];
  const KernelResult large = after_steps(run, one, plain, 1, kSteps);
  const KernelResult small = after_steps(run, one, plain, 0x1p-40f, kSteps);
  const KernelResult none = after_steps(run, one, plain, 1e-30f, kSteps);
  for (const Segment& s : one.table.rows) {
    if (s.rows == 0) continue;
    EXPECT_LT(relative_distance(s, small.inputs[0], large.inputs[0], before), 1e-4) << s.count;
  }
  const std::int64_t rows = one.matrices[1], columns = one.matrices[2];
  const std::int64_t root =
      ops::kStateAlignment + ops::padded_state(rows * rows) + ops::padded_state(columns * columns);
  for (std::int64_t i = 0; i < rows * rows; ++i)
    ASSERT_EQ(none.inputs[kState].at(root + i), i % (rows + 1) == 0 ? 1 : 0) << i;
}

/// Copies of one matrix move as it does alone, to the byte, in whatever groups they are worked on.
template <typename Run>
void expect_same_as_alone(const Run& run, const Row& row, std::int64_t rows, std::int64_t columns,
                          int count) {
  constexpr int kSteps = 2;
  const Case one({rows * columns}, {rows});
  const Case many(std::vector<std::int64_t>(std::size_t(count), rows * columns),
                  std::vector<std::int64_t>(std::size_t(count), rows));
  KernelCall alone = one.call(row, DType::FP32), all = many.call(row, DType::FP32);
  const auto spread = [&](std::size_t input) {
    const std::int64_t each = alone.inputs[input].num_elements();
    for (const Segment& s : many.table.rows) {
      std::copy_n(alone.inputs[input].data<float>(), each,
                  all.inputs[input].data<float>() + s.begin);
    }
  };
  auto* segments = static_cast<Segment*>(all.inputs[2].raw());
  for (int i = 0; i < count; ++i) {
    segments[i] = one.table.rows[0];
    segments[i].begin = many.table.rows[std::size_t(i)].begin;
    segments[i].param = i;
  }
  for (const std::size_t input : {0u, 1u, 8u, 9u}) spread(input);
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE(step);
    const KernelResult want = run(alone), got = run(all);
    for (const std::size_t input : {std::size_t{0}, std::size_t{8}, std::size_t{9}, kState}) {
      const std::int64_t each = want.inputs[input].num_elements();
      for (int i = 0; i < count; ++i) {
        const std::int64_t begin =
            input == kState ? i * each : many.table.rows[std::size_t(i)].begin;
        ASSERT_EQ(std::memcmp(got.inputs[input].data<float>() + begin,
                              want.inputs[input].data<float>(), std::size_t(each) * sizeof(float)),
                  0)
            << "input " << input << ", matrix " << i;
      }
    }
    advance(alone, want, step);
    advance(all, got, step);
    spread(1);
  }
}

/// A matrix that both sides' bases are made of, and what a step needs to be checked.
struct QrCheck {
  std::int64_t rows, columns;

  /// The bases after two steps are Q of L and R as they are now times the bases before. Columns
  /// are looked at one by one, some of each panel of reflections.
  template <typename Run>
  void expect_bases(const Run& run) const {
    const Case one({rows * columns}, {rows});
    KernelCall call = one.call({"soap", {{"preconditioner_beta", 0.9}}}, DType::FP32);
    call.attrs.set("every", std::int64_t{1});
    const KernelResult before = run(call);
    advance(call, before, 0);
    const KernelResult after = run(call);
    std::int64_t at = ops::kStateAlignment;
    for (const std::int64_t side : {rows, columns}) {
      SCOPED_TRACE(side);
      const std::int64_t each = ops::padded_state(side * side);
      const float* state = after.inputs[kState].data<float>() + at;
      expect_basis(side, state, before.inputs[kState].data<float>() + at + each, state + each);
      at += 2 * each;
    }
  }

 private:
  /// R = Q^T (L + ridge |L| I) P has zeros below its diagonal, and Q^T Q is I.
  static void expect_basis(std::int64_t side, const float* l, const float* p, const float* q) {
    double norm = 0;
    for (std::int64_t i = 0; i < side * side; ++i) norm += double(l[i]) * double(l[i]);
    norm = std::sqrt(norm);
    const double near = tolerance(DType::FP32, side, 2).rtol + tolerance(DType::FP32, side, 2).atol;
    for (std::int64_t column = 0; column < side; column += column < 64 ? 9 : side / 7) {
      std::vector<double> s(std::size_t(side), 0), r(std::size_t(side), 0), dots(r);
      for (std::int64_t i = 0; i < side; ++i) {
        for (std::int64_t k = 0; k < side; ++k)
          s[std::size_t(i)] += double(l[i * side + k]) * double(p[k * side + column]);
        s[std::size_t(i)] += kRidge * norm * double(p[i * side + column]);
      }
      for (std::int64_t i = 0; i < side; ++i) {
        for (std::int64_t k = 0; k < side; ++k) {
          r[std::size_t(k)] += double(q[i * side + k]) * s[std::size_t(i)];
          dots[std::size_t(k)] += double(q[i * side + k]) * double(q[i * side + column]);
        }
      }
      double worst = 0, apart = 0;
      for (std::int64_t k = 0; k < side; ++k) {
        if (k > column) worst = std::max(worst, std::abs(r[std::size_t(k)]));
        apart = std::max(apart, std::abs(dots[std::size_t(k)] - (k == column ? 1 : 0)));
      }
      EXPECT_LT(worst, near * norm) << "below the diagonal of column " << column;
      EXPECT_LT(apart, near) << "of Q^T Q, column " << column;
    }
  }
};

}  // namespace tr::test

// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls of Shampoo's and SOAP's kernels, several steps one after the other.

#include <gtest/gtest.h>

#include <cmath>

#include "ops/preconditioner.h"
#include "optimizer_calls.h"

namespace tr::test {

constexpr double kRidge = 1e-2;
constexpr std::size_t kState = 10, kCast = 11;  // inputs

struct Row {
  std::string op;
  Attrs attrs;
};
/// Matrices, tall and wide, larger and smaller than a tile of products, and vectors between them.
struct Case {
  Table table{{70 * 150, 150, 40 * 33, 40, 33 * 3, 7, 16 * 64, 5}, 128, 0};
  std::vector<std::int64_t> matrices;

  explicit Case(bool frozen) {
    const std::int64_t rows[] = {70, 0, 40, 0, 33, 0, 16, 0};
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      Segment& s = table.rows[i];
      s.frozen = frozen && i == 2 ? 1 : 0;
      if (rows[i] == 0) continue;
      s.rows = std::int32_t(rows[i]);
      matrices.insert(matrices.end(), {s.begin, rows[i], s.count / rows[i]});
    }
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

}  // namespace tr::test

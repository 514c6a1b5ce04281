// SPDX-License-Identifier: Apache-2.0
#pragma once

// What Shampoo and SOAP share on the CPU: which matrices a step updates, the running covariances of
// a matrix's rows and columns, and how a dense copy of it is read from the ranges and written back.

#include <cstring>

#include "backend/cpu/matrix_update.h"
#include "backend/optimizer_attrs.h"
#include "ops/preconditioner.h"

namespace tr::cpu {

/// Behind the two moments: what is kept of the matrices.
constexpr int kStateInput = kFirstMoment + 2;

/// Attributes of both.
struct PreconditionerSettings {
  float beta1, beta2, beta, eps, ridge;
  double beta1_exact, beta2_exact;
  std::int64_t every;

  explicit PreconditionerSettings(const Attrs& a)
      : beta1(a.f32("beta1")),
        beta2(a.f32("beta2")),
        beta(a.f32("preconditioner_beta")),
        eps(a.f32("adam_eps")),
        ridge(a.f32("ridge")),
        beta1_exact(a.f64("beta1")),
        beta2_exact(a.f64("beta2")),
        every(a.i64("every")) {}

  float keep(const SegmentRates& rates) const {
    return float(1.0 - double(rates.lr) * double(rates.decay));
  }
};

/// Bias corrections of step t, from 1, and of Adam's element.
struct AdamStep {
  float inv_correction1, inv_sqrt_correction2, eps;

  AdamStep(const PreconditionerSettings& s, std::int64_t t)
      : inv_correction1(float(1.0 / (1.0 - std::pow(s.beta1_exact, double(t))))),
        inv_sqrt_correction2(float(1.0 / std::sqrt(1.0 - std::pow(s.beta2_exact, double(t))))),
        eps(s.eps) {}
  float operator()(float m, float v) const {
    return m * inv_correction1 / (std::sqrt(v) * inv_sqrt_correction2 + eps);
  }
};

/// Steps that a matrix has seen: the first element of its state.
inline std::int32_t steps_seen(const float* state) {
  std::int32_t count;
  std::memcpy(&count, state, sizeof count);
  return count;
}
inline void set_steps_seen(float* state, std::int32_t count) {
  std::memcpy(state, &count, sizeof count);
}

/// L = beta L + weight G G^T and R = beta R + weight G^T G of G [rows, columns].
class Covariance {
 public:
  Covariance(std::int64_t rows, std::int64_t columns, bool of_rows)
      : side_(of_rows ? rows : columns),
        shape_(of_rows ? MatmulShape{rows, rows, columns, false, true}
                       : MatmulShape{columns, columns, rows, true, false}) {}

  const MatmulShape& product() const { return shape_; }
  /// beta 1: a sum. `room`: side * side.
  void add(const KernelArgs& args, const Products& products, const float* g, float beta, float* sum,
           float* room) const {
    products.run(args, shape_, g, g, room);
    add_scaled(args, sum, beta, room, beta < 1 ? 1 - beta : 1, side_ * side_);
  }

 private:
  std::int64_t side_;
  MatmulShape shape_;
};

/// Calls f(run, dense) for all rows of a block, `dense` being where the run's first element has its
/// place in a dense copy of the block.
template <typename F>
void for_block(const KernelArgs& args, const UpdateRanges& ranges, const ops::Matrix& matrix,
               const ops::Block& block, F&& f) {
  for_chunks(args.pool(), block.rows, rows_per_task(block.columns),
             [&](std::int64_t first, std::int64_t last) {
               for (std::int64_t r = first; r < last; ++r) {
                 const std::int64_t begin =
                     matrix.begin + (block.row + r) * matrix.columns + block.column;
                 const std::int64_t offset = r * block.columns - begin;
                 ranges.for_runs(begin, begin + block.columns, [&](const Run& run) {
                   f(run, (run.weights - ranges.weights()) + offset);
                 });
               }
             });
}

/// One step: update(ranges, segment, part) for each part whose `matrix` is not frozen, AdamW for
/// all elements of no matrix. Nothing at all if the step found a gradient that is not finite.
template <typename Part, typename Update>
void update_matrices(const KernelArgs& args, const std::vector<ops::Matrix>& matrices,
                     const std::vector<Part>& parts, Update&& update) {
  const UpdateRanges ranges(args, 2, 1);
  if (ranges.skips()) return;
  for (const Segment& segment : ranges.segments()) {
    if (segment.frozen != 0) continue;
    for (const Part& part : parts) {
      if (part.matrix.begin == segment.begin) update(ranges, segment, part);
    }
  }
  update_others(args, ranges, matrices, formulas::muon_adam_of<formulas::ExactMath>(args.attrs()));
}

/// The kernel of an op that `Prepared` runs, which knows its workspace.
template <typename Prepared>
KernelDef preconditioner_kernel(const std::string& op) {
  KernelDef def;
  def.op = op;
  def.name = "cpu." + op;
  def.workspace_bytes = [](const KernelQuery& query) { return Prepared(query).workspace_bytes(); };
  def.prepare = [](const KernelQuery& query, int) { return std::make_unique<Prepared>(query); };
  return def;
}

}  // namespace tr::cpu

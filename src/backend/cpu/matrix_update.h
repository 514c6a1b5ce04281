// SPDX-License-Identifier: Apache-2.0
#pragma once

// What optimizers share that treat some weights as matrices: products of fp32 matrices, and AdamW's
// step of everything else.

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "backend/cpu/fc_product.h"
#include "backend/cpu/optimizer_by_formula.h"
#include "ops/muon.h"

namespace tr::cpu {

constexpr std::int64_t kLineBytes = 64;

/// C = A B of fp32 operands by the best engine. `transpose` as in MatmulShape.
std::unique_ptr<FcProduct> make_fp32_product(const MatmulShape& shape);

/// Products by shape, each made once. Their scratch is the first scratch_bytes() of the workspace.
class Products {
 public:
  void add(const MatmulShape& shape);
  std::int64_t scratch_bytes() const { return scratch_bytes_; }
  void run(const KernelArgs& args, const MatmulShape& shape, const float* a, const float* b,
           float* c) const;

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool>;
  static Key key_of(const MatmulShape& s) { return {s.m, s.n, s.k, s.transpose_a, s.transpose_b}; }
  std::map<Key, std::unique_ptr<FcProduct>> made_;
  std::int64_t scratch_bytes_ = 0;
};

/// Elements of a partial sum.
constexpr std::int64_t kNormChunk = 1 << 14;

/// Sum of squares in fp64, by chunks in their order. `partial`: one number a chunk.
double square_sum(const KernelArgs& args, const float* x, std::int64_t count, double* partial);

/// a = alpha a + beta b
void add_scaled(const KernelArgs& args, float* a, float alpha, const float* b, float beta,
                std::int64_t count);

/// The matrix that begins where a segment does; null: it is none.
inline const ops::Matrix* matrix_at(const std::vector<ops::Matrix>& matrices, std::int64_t begin) {
  const auto found = std::find_if(matrices.begin(), matrices.end(),
                                  [&](const ops::Matrix& m) { return m.begin == begin; });
  return found == matrices.end() ? nullptr : &*found;
}

/// `Formula` on all segments that are no matrices.
template <typename Formula>
void update_others(const KernelArgs& args, const UpdateRanges& ranges,
                   const std::vector<ops::Matrix>& matrices, const Formula& formula) {
  const auto shared = formula.shared(ranges.updates());
  for_shares(args.pool(), ranges.segments(), [&](const Segment& segment, const Span& share) {
    if (segment.frozen != 0 || matrix_at(matrices, segment.begin) != nullptr) return;
    const auto factors = formula.factors(shared, ranges.rates(segment));
    ranges.for_runs(share.begin, share.end, [&](const Run& run) {
      apply_formula(formula, factors, run);
      ranges.narrow(run);
    });
  });
}

}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
// Muon: the matrices one after the other, each by products of all threads in fp32; all other
// elements by AdamW in one pass.
#include "backend/cpu/matrix_update.h"
#include "backend/optimizer_attrs.h"

namespace tr::cpu {
namespace {

using ops::Matrix;

/// The products of one step of Newton-Schulz on X [rows, columns], on its shorter side.
class NewtonSchulz {
 public:
  NewtonSchulz(std::int64_t rows, std::int64_t columns)
      : tall_(rows > columns),
        rows_(rows),
        columns_(columns),
        side_(std::min(rows, columns)),
        gram_(product(side_, side_, std::max(rows, columns), tall_, !tall_)),
        square_(product(side_, side_, side_, false, false)),
        apply_(tall_ ? product(rows, columns, side_, false, false)
                     : product(rows, columns, side_, false, false)) {}

  std::int64_t scratch_bytes() const {
    return std::max(
        {gram_->workspace_bytes(), square_->workspace_bytes(), apply_->workspace_bytes()});
  }
  /// Floats behind the scratch: X, B X, A and A A.
  std::int64_t num_floats() const { return 2 * rows_ * columns_ + 2 * side_ * side_; }

  /// X becomes its zeroth power, nearly. `x` is the first of num_floats().
  void run(const KernelArgs& args, float* x, std::int64_t steps) const {
    constexpr float kA = 3.4445f, kB = -4.7750f, kC = 2.0315f;  // torch.optim.Muon's
    float* bx = x + rows_ * columns_;
    float* gram = bx + rows_ * columns_;
    float* square = gram + side_ * side_;
    const auto nothing = [](const MatmulTile&, float*) {};
    for (std::int64_t step = 0; step < steps; ++step) {
      gram_->run(args, x, x, gram, nothing);
      square_->run(args, gram, gram, square, nothing);
      add_scaled(args, gram, kB, square, kC, side_ * side_);  // B = b A + c A A
      const float* first = tall_ ? x : gram;
      apply_->run(args, first, tall_ ? gram : x, bx, nothing);
      add_scaled(args, x, kA, bx, 1, rows_ * columns_);
    }
  }

 private:
  static std::unique_ptr<FcProduct> product(std::int64_t m, std::int64_t n, std::int64_t k,
                                            bool transpose_a, bool transpose_b) {
    return make_fp32_product({m, n, k, transpose_a, transpose_b});
  }

  bool tall_;
  std::int64_t rows_, columns_, side_;
  std::unique_ptr<FcProduct> gram_, square_, apply_;
};

class Muon final : public PreparedKernel {
 public:
  explicit Muon(const KernelQuery& query) : matrices_(ops::matrices_of(query.attrs)) {
    for (const Matrix& m : matrices_) {
      auto& made = newton_schulz_[{m.rows, m.columns}];
      if (!made) made = std::make_unique<NewtonSchulz>(m.rows, m.columns);
      scratch_bytes_ = std::max(scratch_bytes_, made->scratch_bytes());
      num_floats_ = std::max(num_floats_, made->num_floats());
      num_chunks_ = std::max(num_chunks_, ceil_div(m.elements(), kNormChunk));
    }
    scratch_bytes_ = round_up(scratch_bytes_, kLineBytes);
  }
  std::int64_t workspace_bytes() const {
    return scratch_bytes_ + round_up(num_floats_ * std::int64_t(sizeof(float)), kLineBytes) +
           num_chunks_ * std::int64_t(sizeof(double));
  }

  void run(const KernelArgs& args) const override {
    const UpdateRanges ranges(args, 2);
    if (ranges.skips()) return;
    for (const Segment& segment : ranges.segments()) {
      const Matrix* matrix = matrix_at(matrices_, segment.begin);
      if (matrix != nullptr && segment.frozen == 0) update(args, ranges, segment, *matrix);
    }
    update_others(args, ranges, matrices_,
                  formulas::muon_adam_of<formulas::ExactMath>(args.attrs()));
  }

 private:
  void update(const KernelArgs& args, const UpdateRanges& ranges, const Segment& segment,
              const Matrix& matrix) const {
    const formulas::MuonStep step = formulas::muon_step_of(args.attrs());
    auto* x = reinterpret_cast<float*>(args.workspace() + scratch_bytes_);
    auto* sums =
        reinterpret_cast<double*>(args.workspace() + scratch_bytes_ +
                                  round_up(num_floats_ * std::int64_t(sizeof(float)), kLineBytes));
    const std::int64_t count = matrix.elements(), begin = matrix.begin;
    for_chunks(args.pool(), count, kNormChunk, [&](std::int64_t from, std::int64_t to) {
      double sum = 0;
      ranges.for_runs(begin + from, begin + to, [&](const Run& run) {
        float* out = x + (run.weights - ranges.weights()) - begin;
        for (std::int64_t i = 0; i < run.count; ++i) {
          out[i] = step.direction(run.gradients[i], run.moment1[i]);
          sum += double(out[i]) * double(out[i]);
        }
      });
      sums[from / kNormChunk] = sum;
    });
    double square = 0;
    for (std::int64_t i = 0; i < ceil_div(count, kNormChunk); ++i) square += sums[i];
    const float scale = 1.0f / std::max(step.eps, float(std::sqrt(square)));
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) x[i] *= scale;
    });
    newton_schulz_.at({matrix.rows, matrix.columns})->run(args, x, args.attrs().i64("steps"));
    const formulas::MuonRates rates =
        step.rates(ranges.rates(segment), matrix.rows, matrix.columns);
    for_chunks(args.pool(), count, kStreamChunk, [&](std::int64_t from, std::int64_t to) {
      ranges.for_runs(begin + from, begin + to, [&](const Run& run) {
        const float* o = x + (run.weights - ranges.weights()) - begin;
        for (std::int64_t i = 0; i < run.count; ++i) {
          run.weights[i] = run.weights[i] * rates.keep - rates.step * o[i];
        }
        ranges.narrow(run);
      });
    });
  }

  std::vector<Matrix> matrices_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::unique_ptr<NewtonSchulz>> newton_schulz_;
  std::int64_t scratch_bytes_ = 0, num_floats_ = 0, num_chunks_ = 0;
};

KernelDef muon_kernel() {
  KernelDef def;
  def.op = "muon";
  def.name = "cpu.muon";
  def.workspace_bytes = [](const KernelQuery& query) { return Muon(query).workspace_bytes(); };
  def.prepare = [](const KernelQuery& query, int) { return std::make_unique<Muon>(query); };
  return def;
}

const KernelRegistration kMuon{muon_kernel()};

}  // namespace
}  // namespace tr::cpu

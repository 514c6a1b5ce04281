// SPDX-License-Identifier: Apache-2.0
// SOAP: the matrices one after the other, Adam in the basis of their preconditioners' eigenvectors,
// by products of all threads in fp32; all other elements by AdamW in one pass.
#include <optional>

#include "backend/cpu/householder_qr.h"
#include "backend/cpu/preconditioner.h"
#include "backend/preconditioner_scale.h"

namespace tr::cpu {
namespace {

using ops::Block;
using ops::Matrix;

constexpr int kFirstIterations = 10;  // that the first basis takes from the identity

/// The rows or the columns of a matrix: their covariance and its basis.
class Side {
 public:
  /// `state`: where both lie, from the matrix's state on.
  Side(const Matrix& m, bool of_rows, std::int64_t state)
      : length_(of_rows ? m.rows : m.columns),
        covariance_(m.rows, m.columns, of_rows),
        into_(of_rows ? MatmulShape{m.rows, m.columns, m.rows, true, false}
                      : MatmulShape{m.rows, m.columns, m.columns, false, false}),
        back_(of_rows ? MatmulShape{m.rows, m.columns, m.rows, false, false}
                      : MatmulShape{m.rows, m.columns, m.columns, false, true}),
        of_rows_(of_rows),
        state_(state) {}

  void add_products(Products& products) const {
    for (const MatmulShape& shape : {covariance_.product(), into_, back_, square()})
      products.add(shape);
  }
  std::int64_t state_elements() const { return 2 * ops::padded_state(length_ * length_); }
  /// Of all members.
  std::int64_t room_floats() const {
    return 2 * length_ * length_ + HouseholderQr(length_).num_floats();
  }

  /// `to` = the basis' transpose times `from` (rows), or `from` times the basis (columns).
  void into_basis(const KernelArgs& args, const Products& products, float* state, const float* from,
                  float* to) const {
    multiply(args, products, into_, state, from, to);
  }
  void back(const KernelArgs& args, const Products& products, float* state, const float* from,
            float* to) const {
    multiply(args, products, back_, state, from, to);
  }
  void add_gradient(const KernelArgs& args, const Products& products, float* state,
                    const float* gradient, float beta, float* room) const {
    covariance_.add(args, products, gradient, beta, covariance(state), room);
  }

  void set_identity(float* state) const {
    float* q = basis(state);
    std::fill(q, q + length_ * length_, 0.0f);
    for (std::int64_t i = 0; i < length_; ++i) q[i * length_ + i] = 1;
  }
  /// Q of the QR decomposition of (L + ridge |L| I) Q, `times` over.
  void refresh(const KernelArgs& args, const Products& products, float* state, float ridge,
               int times, float* room, double* partial) const {
    const std::int64_t count = length_ * length_;
    const double norm = std::sqrt(square_sum(args, covariance(state), count, partial));
    if (norm == 0) return;
    float *s = room, *behind = room + 2 * count;
    const float scale = preconditioner::qr_scale(norm);
    const float added = scale * preconditioner::diagonal(double(ridge), norm, length_);
    for (int i = 0; i < times; ++i) {
      products.run(args, square(), covariance(state), basis(state), s);
      add_scaled(args, s, scale, basis(state), added, count);
      HouseholderQr(length_).run(args.pool(), s, basis(state), behind);
    }
  }

 private:
  MatmulShape square() const { return {length_, length_, length_, false, false}; }
  float* covariance(float* state) const { return state + state_; }
  float* basis(float* state) const {
    return covariance(state) + ops::padded_state(length_ * length_);
  }
  void multiply(const KernelArgs& args, const Products& products, const MatmulShape& shape,
                float* state, const float* from, float* to) const {
    const float *q = basis(state), *a = of_rows_ ? q : from, *b = of_rows_ ? from : q;
    products.run(args, shape, a, b, to);
  }

  std::int64_t length_;
  Covariance covariance_;
  MatmulShape into_, back_;
  bool of_rows_;
  std::int64_t state_;
};

/// A matrix with the sides that have a basis, and where its state lies.
struct Part {
  Matrix matrix;
  std::vector<Side> sides;
  std::int64_t state = 0;

  Block whole() const { return {0, 0, matrix.rows, matrix.columns}; }
};

class Soap final : public PreparedKernel {
 public:
  explicit Soap(const KernelQuery& query) : matrices_(ops::matrices_of(query.attrs)) {
    const std::int64_t max_dim = query.attrs.i64("max_dim");
    std::int64_t state = 0;
    for (const Matrix& m : matrices_) {
      Part part{m, {}, state};
      std::int64_t own = ops::kStateAlignment;
      for (const bool of_rows : {true, false}) {
        if ((of_rows ? m.rows : m.columns) > max_dim) continue;
        part.sides.emplace_back(m, of_rows, own);
        own += part.sides.back().state_elements();
        part.sides.back().add_products(products_);
        room_ = std::max(room_, part.sides.back().room_floats());
      }
      state += ops::soap_state_elements(m, max_dim);
      elements_ = std::max(elements_, m.elements());
      parts_.push_back(std::move(part));
    }
    num_chunks_ = ceil_div(std::max(elements_, room_), kNormChunk);
  }

  std::int64_t workspace_bytes() const {
    return products_.scratch_bytes() + (kNumDense * elements_ + room_) * 4 + kLineBytes +
           num_chunks_ * 8;
  }

  void run(const KernelArgs& args) const override {
    update_matrices(args, matrices_, parts_,
                    [&](const UpdateRanges& ranges, const Segment& segment, const Part& part) {
                      update(args, ranges, segment, part);
                    });
  }

 private:
  static constexpr std::int64_t kNumDense = 4;

  /// Dense copies and room for what products make of them.
  struct Dense {
    float *gradient, *momentum, *first, *second, *room;
    double* partial;
  };
  Dense dense(const KernelArgs& args) const {
    auto* at = reinterpret_cast<float*>(args.workspace() + products_.scratch_bytes());
    auto* room = at + kNumDense * elements_;
    const std::int64_t used = reinterpret_cast<std::byte*>(room + room_) - args.workspace();
    auto* partial = reinterpret_cast<double*>(args.workspace() + round_up(used, kLineBytes));
    return {at, at + elements_, at + 2 * elements_, at + 3 * elements_, room, partial};
  }

  void add_gradient(const KernelArgs& args, const Part& part, float* state,
                    const Dense& dense) const {
    const PreconditionerSettings s(args.attrs());
    for (const Side& side : part.sides)
      side.add_gradient(args, products_, state, dense.gradient, s.beta, dense.room);
  }

  /// The first step: L, R and their bases, and nothing moves.
  void begin(const KernelArgs& args, const UpdateRanges& ranges, const Part& part, float* state,
             const Dense& dense) const {
    const PreconditionerSettings s(args.attrs());
    for_block(args, ranges, part.matrix, part.whole(), [&](const Run& run, std::int64_t at) {
      std::memcpy(dense.gradient + at, run.gradients, std::size_t(run.count) * sizeof(float));
    });
    add_gradient(args, part, state, dense);
    for (const Side& side : part.sides) {
      side.set_identity(state);
      side.refresh(args, products_, state, s.ridge, kFirstIterations, dense.room, dense.partial);
    }
  }

  /// `matrix` into the basis, or back; what it was is lost. Returns where the result is.
  float* turn(const KernelArgs& args, const Part& part, float* state, bool into, float* matrix,
              float* other) const {
    for (const Side& side : part.sides) {
      if (into) {
        side.into_basis(args, products_, state, matrix, other);
      } else {
        side.back(args, products_, state, matrix, other);
      }
      std::swap(matrix, other);
    }
    return matrix;
  }

  void step(const KernelArgs& args, const UpdateRanges& ranges, const Segment& segment,
            const Part& part, float* state, std::int64_t t) const {
    const PreconditionerSettings s(args.attrs());
    const AdamStep adam(s, t);
    const Dense at = dense(args);
    const std::size_t bytes = std::size_t(part.matrix.elements()) * sizeof(float);
    for_block(args, ranges, part.matrix, part.whole(), [&](const Run& run, std::int64_t offset) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        float& m = run.moment1[i];
        m = m + (1.0f - s.beta1) * (run.gradients[i] - m);
        at.gradient[offset + i] = run.gradients[i];
        at.momentum[offset + i] = m;
      }
    });
    // The gradient itself is needed once more, for L and R.
    std::memcpy(at.first, at.gradient, bytes);
    float* gradient = turn(args, part, state, true, at.first, at.second);
    float* free = gradient == at.first ? at.second : at.first;
    float* momentum = turn(args, part, state, true, at.momentum, free);
    for_block(args, ranges, part.matrix, part.whole(), [&](const Run& run, std::int64_t offset) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        const float g = gradient[offset + i];
        float& v = run.moment2[i];
        v = s.beta2 * v + (1.0f - s.beta2) * (g * g);
        momentum[offset + i] = adam(momentum[offset + i], v);
      }
    });
    const float* step = turn(args, part, state, false, momentum, gradient);
    const SegmentRates rates = ranges.rates(segment);
    const float keep = s.keep(rates);
    for_block(args, ranges, part.matrix, part.whole(), [&](const Run& run, std::int64_t offset) {
      for (std::int64_t i = 0; i < run.count; ++i)
        run.weights[i] = run.weights[i] * keep - rates.lr * step[offset + i];
      ranges.narrow(run);
    });
    add_gradient(args, part, state, at);
    if (t % s.every != 0) return;
    for (const Side& side : part.sides)
      side.refresh(args, products_, state, s.ridge, 1, at.room, at.partial);
  }

  void update(const KernelArgs& args, const UpdateRanges& ranges, const Segment& segment,
              const Part& part) const {
    float* state = args.state<float>(kStateInput) + part.state;
    const std::int32_t seen = steps_seen(state);
    if (seen == 0) {
      begin(args, ranges, part, state, dense(args));
    } else {
      step(args, ranges, segment, part, state, seen);
    }
    set_steps_seen(state, seen + 1);
  }

  std::vector<Matrix> matrices_;
  std::vector<Part> parts_;
  Products products_;
  std::int64_t elements_ = 0, room_ = 0, num_chunks_ = 0;
};

const KernelRegistration kSoap{preconditioner_kernel<Soap>("soap")};

}  // namespace
}  // namespace tr::cpu

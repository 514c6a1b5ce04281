// SPDX-License-Identifier: Apache-2.0
// Shampoo: the matrices one after the other, block by block, by products of all threads in fp32;
// all other elements by AdamW in one pass.
#include "backend/cpu/inverse_root.h"
#include "backend/cpu/preconditioner.h"

namespace tr::cpu {
namespace {

using ops::Block;
using ops::Matrix;

enum class Grafting { NONE, SGD, ADAM };

Grafting grafting_of(const Attrs& attrs) {
  const std::string& name = attrs.str("grafting");
  return name == "none" ? Grafting::NONE : name == "sgd" ? Grafting::SGD : Grafting::ADAM;
}

/// A matrix, its blocks and where its state lies.
struct Part {
  Matrix matrix;
  std::vector<Block> blocks;
  std::int64_t state = 0;
};

/// State of a block.
struct BlockState {
  float *left, *right, *left_root, *right_root;

  BlockState(const Block& block, float* at)
      : left(at),
        right(left + ops::padded_state(block.rows * block.rows)),
        left_root(right + ops::padded_state(block.columns * block.columns)),
        right_root(left_root + ops::padded_state(block.rows * block.rows)) {}
};

class Shampoo final : public PreparedKernel {
 public:
  explicit Shampoo(const KernelQuery& query)
      : matrices_(ops::matrices_of(query.attrs)), grafting_(grafting_of(query.attrs)) {
    const std::int64_t block_size = query.attrs.i64("block_size");
    std::int64_t state = 0;
    for (const Matrix& m : matrices_) {
      parts_.push_back({m, ops::blocks_of(m, block_size), state});
      state += ops::shampoo_state_elements(m, block_size);
      elements_ = std::max(elements_, m.elements());
      for (const Block& b : parts_.back().blocks) add_products(b);
    }
    num_chunks_ = ceil_div(std::max(elements_, room_), kNormChunk) + longest_;
  }

  std::int64_t workspace_bytes() const {
    return products_.scratch_bytes() + (num_dense() * elements_ + room_) * 4 + kLineBytes +
           num_chunks_ * 8;
  }

  void run(const KernelArgs& args) const override {
    update_matrices(args, matrices_, parts_,
                    [&](const UpdateRanges& ranges, const Segment& segment, const Part& part) {
                      update(args, ranges, segment, part);
                    });
  }

 private:
  /// Dense copies: gradient, direction, step, and Adam's where it gives the length.
  std::int64_t num_dense() const { return grafting_ == Grafting::ADAM ? 4 : 3; }

  void add_products(const Block& b) {
    for (const bool of_rows : {true, false})
      products_.add(Covariance(b.rows, b.columns, of_rows).product());
    products_.add({b.rows, b.columns, b.rows, false, false});
    products_.add({b.rows, b.columns, b.columns, false, false});
    for (const std::int64_t side : {b.rows, b.columns}) {
      InverseFourthRoot::add_products(products_, side);
      room_ = std::max(room_, InverseFourthRoot::num_floats(side));
      longest_ = std::max(longest_, side);
    }
    room_ = std::max(room_, b.elements());
  }

  struct Dense {
    float *gradient, *direction, *step, *adam, *room;
    double* partial;
  };
  Dense dense(const KernelArgs& args) const {
    auto* at = reinterpret_cast<float*>(args.workspace() + products_.scratch_bytes());
    auto* room = at + num_dense() * elements_;
    auto* behind = reinterpret_cast<std::byte*>(room + room_);
    const std::int64_t used = behind - args.workspace();
    auto* partial = reinterpret_cast<double*>(args.workspace() + round_up(used, kLineBytes));
    return {at, at + elements_, at + 2 * elements_, at + 3 * elements_, room, partial};
  }

  /// Gradient and momentum of all blocks, one behind the other, and Adam's step.
  void gather(const KernelArgs& args, const UpdateRanges& ranges, const Part& part, std::int64_t t,
              const Dense& dense) const {
    const PreconditionerSettings s(args.attrs());
    const AdamStep adam(s, t);
    const bool with_adam = grafting_ == Grafting::ADAM;
    std::int64_t begin = 0;
    for (const Block& block : part.blocks) {
      for_block(args, ranges, part.matrix, block, [&](const Run& run, std::int64_t offset) {
        const std::int64_t at = begin + offset;
        for (std::int64_t i = 0; i < run.count; ++i) {
          const float g = run.gradients[i];
          float& m = run.moment1[i];
          m = m + (1.0f - s.beta1) * (g - m);
          dense.gradient[at + i] = g;
          dense.direction[at + i] = m * adam.inv_correction1;
          if (!with_adam) continue;
          float& v = run.moment2[i];
          v = s.beta2 * v + (1.0f - s.beta2) * (g * g);
          dense.adam[at + i] = adam(m, v);
        }
      });
      begin += block.elements();
    }
  }

  void precondition(const KernelArgs& args, const Block& block, const BlockState& state,
                    bool refresh, const Dense& at) const {
    const PreconditionerSettings s(args.attrs());
    const std::int64_t rows = block.rows, columns = block.columns;
    Covariance(rows, columns, true).add(args, products_, at.gradient, s.beta, state.left, at.room);
    Covariance(rows, columns, false)
        .add(args, products_, at.gradient, s.beta, state.right, at.room);
    if (refresh) {
      InverseFourthRoot::run(args, products_, state.left, rows, s.ridge, state.left_root, at.room,
                             at.partial);
      InverseFourthRoot::run(args, products_, state.right, columns, s.ridge, state.right_root,
                             at.room, at.partial);
    }
    products_.run(args, {rows, columns, rows, false, false}, state.left_root, at.direction,
                  at.room);
    products_.run(args, {rows, columns, columns, false, false}, at.room, state.right_root, at.step);
  }

  /// What the step is multiplied with.
  float graft(const KernelArgs& args, std::int64_t count, const Dense& dense) const {
    if (grafting_ == Grafting::NONE) return 1;
    const float* like = grafting_ == Grafting::SGD ? dense.direction : dense.adam;
    const double wanted = square_sum(args, like, count, dense.partial);
    const double have = square_sum(args, dense.step, count, dense.partial);
    return have > 0 ? float(std::sqrt(wanted / have)) : 0.0f;
  }

  void update(const KernelArgs& args, const UpdateRanges& ranges, const Segment& segment,
              const Part& part) const {
    const PreconditionerSettings s(args.attrs());
    float* state = args.state<float>(kStateInput) + part.state;
    const std::int32_t seen = steps_seen(state);
    const Dense dense = this->dense(args);
    gather(args, ranges, part, seen + 1, dense);
    Dense at = dense;
    float* own = state + ops::kStateAlignment;
    for (const Block& block : part.blocks) {
      precondition(args, block, BlockState(block, own), seen % s.every == 0, at);
      own += block.state_elements();
      for (float** moved : {&at.gradient, &at.direction, &at.step}) *moved += block.elements();
    }
    const SegmentRates rates = ranges.rates(segment);
    const float keep = s.keep(rates);
    const float length = rates.lr * graft(args, part.matrix.elements(), dense);
    std::int64_t begin = 0;
    for (const Block& block : part.blocks) {
      for_block(args, ranges, part.matrix, block, [&](const Run& run, std::int64_t offset) {
        const float* step = dense.step + begin + offset;
        for (std::int64_t i = 0; i < run.count; ++i)
          run.weights[i] = run.weights[i] * keep - length * step[i];
        ranges.narrow(run);
      });
      begin += block.elements();
    }
    set_steps_seen(state, seen + 1);
  }

  std::vector<Matrix> matrices_;
  std::vector<Part> parts_;
  Grafting grafting_;
  Products products_;
  std::int64_t elements_ = 0, room_ = 0, longest_ = 0, num_chunks_ = 0;
};

const KernelRegistration kShampoo{preconditioner_kernel<Shampoo>("shampoo")};

}  // namespace
}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
// Shampoo and SOAP over whole ranges: weights that are matrices with preconditioners of their rows
// and columns, all others by AdamW.
#include "ops/preconditioner.h"

#include <algorithm>
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/optimizer_def.h"

namespace tr {
namespace {

using ops::Types;

/// Places of the inputs behind the moments.
enum OwnInput : std::size_t { kOwnState = ops::kFirstMoment + 2, kWeightCast };

std::int64_t num_blocks(const std::vector<ops::Matrix>& matrices, std::int64_t size) {
  std::int64_t count = 0;
  for (const ops::Matrix& m : matrices) {
    const auto along = [&](std::int64_t side) { return (side - 1) / size + 1; };
    count = saturated_sum(count, saturated_product({along(m.rows), along(m.columns)}));
  }
  return count;
}

/// Each block has roots of its own: some hundred products, one after the other, however small.
void check_blocks(const Attrs& attrs) {
  const std::int64_t size = attrs.i64("block_size");
  TR_CHECK(size >= 1, "block_size is {}, expected at least 1", size);
  const std::vector<ops::Matrix> matrices = ops::matrices_of(attrs);
  const std::int64_t count = num_blocks(matrices, size);
  if (count <= ops::kMaxBlocks) return;
  TR_CHECK(std::int64_t(matrices.size()) <= ops::kMaxBlocks,
           "shampoo: the model has {} matrices, expected at most {}", matrices.size(),
           ops::kMaxBlocks);
  std::int64_t enough = size;
  while (num_blocks(matrices, enough) > ops::kMaxBlocks) enough += (enough + 7) / 8;
  throw_as<InvalidArgument>(
      "shampoo: block_size {} cuts the model's matrices into {} blocks, expected at most {}; with "
      "block_size {} they have {}",
      size, count, ops::kMaxBlocks, enough, num_blocks(matrices, enough));
}

std::int64_t shampoo_elements(const Attrs& attrs) {
  check_blocks(attrs);
  std::int64_t elements = 0;
  for (const ops::Matrix& m : ops::matrices_of(attrs))
    elements += ops::shampoo_state_elements(m, attrs.i64("block_size"));
  return elements;
}

std::int64_t soap_elements(const Attrs& attrs) {
  std::int64_t elements = 0;
  for (const ops::Matrix& m : ops::matrices_of(attrs))
    elements += ops::soap_state_elements(m, attrs.i64("max_dim"));
  return elements;
}

void check_common(const Attrs& attrs, Types in, const char* size, std::int64_t state_elements) {
  for (const char* name : {"beta1", "beta2"}) ops::check_fraction(attrs, name);
  for (const char* name : {"adam_eps", "adam_rate", "ridge"}) {
    TR_CHECK(attrs.f64(name) > 0, "{} is {}, expected a positive number", name, attrs.f64(name));
  }
  for (const char* name : {"every", size}) {
    TR_CHECK(attrs.i64(name) >= 1, "{} is {}, expected at least 1", name, attrs.i64(name));
  }
  const double beta = attrs.f64("preconditioner_beta");
  TR_CHECK(beta >= 0 && beta <= 1, "preconditioner_beta is {}, expected 0 to 1", beta);
  ops::check_update_inputs(attrs, in);
  ops::check_scalar("found_inf", in[ops::kFoundInf], DType::INT32);
  ops::check_scalar("grad_sumsq", in[ops::kGradSumsq], DType::FP32);
  ops::check_num_moments(in, ops::kFirstMoment, 2, 2);
  ops::check_matrices(attrs, in);
  ops::check_same("preconditioners", in[kOwnState],
                  {Shape{std::max<std::int64_t>(1, state_elements)}, DType::FP32},
                  "what the matrices need");
  ops::check_weight_cast(in, kWeightCast);
}

std::vector<TensorType> infer_shampoo(const Attrs& attrs, Types in) {
  const std::string& grafting = attrs.str("grafting");
  TR_CHECK(grafting == "none" || grafting == "sgd" || grafting == "adam",
           "grafting is '{}', expected none, sgd or adam", grafting);
  check_common(attrs, in, "block_size", shampoo_elements(attrs));
  return {};
}

std::vector<TensorType> infer_soap(const Attrs& attrs, Types in) {
  TR_CHECK(attrs.f64("preconditioner_beta") < 1, "preconditioner_beta is {}, expected below 1",
           attrs.f64("preconditioner_beta"));
  check_common(attrs, in, "max_dim", soap_elements(attrs));
  return {};
}

/// L, R and the preconditioned gradient; every so many steps some twenty iterations of four
/// products for each root.
Cost shampoo_cost(const Attrs& attrs, Types in, Types out) {
  Cost cost = ops::range_cost(20, {0, 8, 9, 10, 11})(attrs, in, out);
  for (const ops::Matrix& m : ops::matrices_of(attrs)) {
    for (const ops::Block& b : ops::blocks_of(m, attrs.i64("block_size"))) {
      cost.flops += 4 * b.elements() * (b.rows + b.columns);
      const std::int64_t root = b.rows * b.rows * b.rows + b.columns * b.columns * b.columns;
      cost.flops += 20 * 8 * root / attrs.i64("every");
    }
  }
  return cost;
}

/// Gradient and momentum into the basis, the step back, L and R; every so many steps a product and
/// a decomposition of each.
Cost soap_cost(const Attrs& attrs, Types in, Types out) {
  Cost cost = ops::range_cost(20, {0, 8, 9, 10, 11})(attrs, in, out);
  for (const ops::Matrix& m : ops::matrices_of(attrs)) {
    for (const std::int64_t side : {m.rows, m.columns}) {
      if (side > attrs.i64("max_dim")) continue;
      cost.flops += 8 * m.elements() * side + 5 * side * side * side / attrs.i64("every");
    }
  }
  return cost;
}

OpDef preconditioned_def(const char* name, double preconditioner_beta, const char* meaning) {
  OpDef def = ops::optimizer_def(name, 2, 20);
  def.inputs.insert(def.inputs.end() - 1, "preconditioners");
  def.state_writes.push_back(int(kWeightCast));
  def.attrs.push_back({"beta1", 0.9, false, "weight of the past in the momentum; AdamW's"});
  def.attrs.push_back({"beta2", 0.999, false, "of Adam and AdamW"});
  def.attrs.push_back({"adam_eps", 1e-8, false, "of Adam and AdamW"});
  def.attrs.push_back({"adam_rate", 1.0, false, "AdamW's rate over that of the matrices"});
  def.attrs.push_back({"preconditioner_beta", preconditioner_beta, false, meaning});
  def.attrs.push_back({"every", std::int64_t{10}, false, "steps between roots, or bases"});
  def.attrs.push_back({"ridge", 1e-6, false, "of |L| that is added to L's diagonal"});
  def.attrs.push_back({"matrices", std::vector<std::int64_t>{}, false,
                       "begin, rows, columns of each; the graph sets it"});
  return def;
}

OpDef shampoo_def() {
  OpDef def = preconditioned_def("shampoo", 1.0, "weight of the past in L and R; 1: they are sums");
  def.attrs.push_back({"block_size", std::int64_t{512}, false, "most rows and columns of a block"});
  def.attrs.push_back({"grafting", std::string("adam"), false, "none, sgd or adam"});
  def.infer = infer_shampoo;
  def.cost = shampoo_cost;
  def.own_state = shampoo_elements;
  def.doc =
      "L += G G^T; R += G^T G; m = b1 m + (1 - b1) G; w = (1 - lr wd) w - lr s L^(-1/4) m "
      "R^(-1/4), "
      "s by grafting; not matrices: AdamW";
  return def;
}

OpDef soap_def() {
  OpDef def = preconditioned_def("soap", 0.999, "weight of the past in L and R");
  def.attrs.push_back(
      {"max_dim", std::int64_t{10000}, false, "a longer side has no basis of its own"});
  def.infer = infer_soap;
  def.cost = soap_cost;
  def.own_state = soap_elements;
  def.doc =
      "Adam's step in the eigenvectors of L and R, means of G G^T and G^T G; the first step only "
      "begins them; not matrices: AdamW";
  return def;
}

const OpRegistration kShampoo{shampoo_def()};
const OpRegistration kSoap{soap_def()};

}  // namespace

std::vector<ops::Block> ops::blocks_of(const Matrix& matrix, std::int64_t size) {
  std::vector<Block> blocks;
  for (std::int64_t row = 0; row < matrix.rows; row += size) {
    for (std::int64_t column = 0; column < matrix.columns; column += size) {
      blocks.push_back({row, column, std::min(size, matrix.rows - row),
                        std::min(size, matrix.columns - column)});
    }
  }
  return blocks;
}

std::int64_t ops::shampoo_state_elements(const Matrix& matrix, std::int64_t block_size) {
  std::int64_t elements = kStateAlignment;
  for (const Block& block : blocks_of(matrix, block_size)) elements += block.state_elements();
  return elements;
}

std::int64_t ops::soap_state_elements(const Matrix& matrix, std::int64_t max_dim) {
  std::int64_t elements = kStateAlignment;
  for (const std::int64_t side : {matrix.rows, matrix.columns}) {
    if (side <= max_dim) elements += 2 * padded_state(side * side);
  }
  return elements;
}

}  // namespace tr

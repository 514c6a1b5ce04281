// SPDX-License-Identifier: Apache-2.0
// Muon over whole ranges: weights that are matrices as matrices, all others by AdamW.
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/muon.h"
#include "ops/optimizer_def.h"

namespace tr {
namespace {

using ops::Types;

std::vector<TensorType> infer_muon(const Attrs& attrs, Types in) {
  for (const char* name : {"momentum", "beta1", "beta2"}) ops::check_fraction(attrs, name);
  for (const char* name : {"eps", "adam_eps", "adam_rate"}) {
    TR_CHECK(attrs.f64(name) > 0, "{} is {}, expected a positive number", name, attrs.f64(name));
  }
  const std::int64_t steps = attrs.i64("steps");
  TR_CHECK(steps >= 1 && steps < 100, "steps is {}, expected 1 to 99", steps);
  ops::check_optimizer_inputs(attrs, in, 2);
  ops::check_num_moments(in, ops::kFirstMoment, 2, 2);
  ops::check_matrices(attrs, in);
  return {};
}

/// Five products of a step of Newton-Schulz: X X^T, A A and B X are 4 s^2 l + 2 s^3 with s the
/// shorter side.
Cost muon_cost(const Attrs& attrs, Types in, Types out) {
  Cost cost = ops::range_cost(14, {0, 8, 9, 10})(attrs, in, out);
  for (const ops::Matrix& m : ops::matrices_of(attrs)) {
    const std::int64_t shorter = std::min(m.rows, m.columns), longer = std::max(m.rows, m.columns);
    cost.flops +=
        attrs.i64("steps") * (4 * shorter * shorter * longer + 2 * shorter * shorter * shorter);
  }
  return cost;
}

OpDef muon_def() {
  OpDef def = ops::optimizer_def("muon", 2, 14);
  def.attrs.push_back({"momentum", 0.95, false, ""});
  def.attrs.push_back({"nesterov", true, false, ""});
  def.attrs.push_back({"steps", std::int64_t{5}, false, "of Newton-Schulz"});
  def.attrs.push_back({"eps", 1e-7, false, "least norm of the update"});
  def.attrs.push_back({"match_rms", false, false, "steps 0.2 sqrt(max(rows, columns)) long"});
  def.attrs.push_back({"beta1", 0.9, false, "of AdamW"});
  def.attrs.push_back({"beta2", 0.999, false, "of AdamW"});
  def.attrs.push_back({"adam_eps", 1e-8, false, "of AdamW"});
  def.attrs.push_back({"adam_rate", 1.0, false, "AdamW's rate over that of the matrices"});
  def.attrs.push_back({"matrices", std::vector<std::int64_t>{}, false,
                       "begin, rows, columns of each; the graph sets it"});
  def.infer = infer_muon;
  def.cost = muon_cost;
  def.doc =
      "m = momentum m + (1 - momentum) g; u = nesterov ? g + momentum (m - g) : m; w = (1 - lr wd) "
      "w "
      "- lr sqrt(max(1, rows / columns)) NewtonSchulz(u). torch.optim.Muon; not matrices: AdamW";
  return def;
}

const OpRegistration kMuon{muon_def()};

}  // namespace

void ops::check_matrices(const Attrs& attrs, Types in) {
  const std::int64_t elements = in[kWeights].shape.num_elements();
  std::int64_t behind = 0;
  for (const Matrix& m : matrices_of(attrs)) {
    TR_CHECK(m.begin >= behind && m.rows > 0 && m.columns > 0 && m.end() <= elements,
             "a matrix of {} x {} begins at element {}, expected it behind {} and within {}",
             m.rows, m.columns, m.begin, behind, elements);
    behind = m.end();
  }
}

std::vector<ops::Matrix> ops::matrices_of(const Attrs& attrs) {
  const std::vector<std::int64_t>& numbers = attrs.ints("matrices");
  TR_CHECK(numbers.size() % 3 == 0, "matrices has {} numbers, expected three a matrix",
           numbers.size());
  std::vector<Matrix> all;
  for (std::size_t i = 0; i < numbers.size(); i += 3) {
    all.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
  }
  return all;
}

}  // namespace tr

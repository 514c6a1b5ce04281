// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include <algorithm>

#include "core/check.h"
#include "core/format.h"
#include "core/saturate.h"
#include "ops/broadcast.h"

namespace tr {
namespace {

Shape without_matrix(const Shape& x) { return x.drop_last().drop_last(); }

/// Matrices from one product to the next along each axis of `batch`.
std::vector<std::int64_t> steps_of(const Shape& own, const Shape& batch) {
  std::vector<std::int64_t> steps(std::size_t(batch.rank()), 0);
  std::int64_t step = 1;
  for (int back = 1; back <= own.rank(); ++back) {
    if (own[-back] != 1) steps[std::size_t(batch.rank() - back)] = step;
    step *= own[-back];
  }
  return steps;
}

}  // namespace

std::int64_t MatmulGeometry::num_products() const {
  std::int64_t product = 1;
  for (const Axis& axis : batch) product *= axis.count;
  return product;
}

std::pair<std::int64_t, std::int64_t> MatmulGeometry::operands(std::int64_t index) const {
  std::int64_t a = 0, b = 0;
  for (std::size_t i = batch.size(); i-- > 0;) {
    a += index % batch[i].count * batch[i].a_step;
    b += index % batch[i].count * batch[i].b_step;
    index /= batch[i].count;
  }
  return {a, b};
}

MatmulGeometry matmul_geometry(const Attrs& attrs, const Shape& a, const Shape& b) {
  TR_CHECK(a.rank() >= 2 && b.rank() >= 2, "a has shape {} and b {}, expected two axes or more", a,
           b);
  MatmulGeometry g;
  g.transpose_a = attrs.flag("transpose_a");
  g.transpose_b = attrs.flag("transpose_b");
  g.m = a[g.transpose_a ? -1 : -2];
  g.k = a[g.transpose_a ? -2 : -1];
  g.n = b[g.transpose_b ? -2 : -1];
  const std::int64_t of_b = b[g.transpose_b ? -1 : -2];
  TR_CHECK(of_b == g.k, "b has shape {}{}, expected {} terms (those of a {}{})", b,
           g.transpose_b ? ", transposed" : "", g.k, a, g.transpose_a ? ", transposed" : "");
  const Shape of_batch = ops::broadcast_shape(without_matrix(a), without_matrix(b));
  std::vector<std::int64_t> dims(of_batch.dims().begin(), of_batch.dims().end());
  dims.push_back(g.m);
  dims.push_back(g.n);
  g.y = Shape(dims);
  const std::vector<std::int64_t> a_steps = steps_of(without_matrix(a), of_batch),
                                  b_steps = steps_of(without_matrix(b), of_batch);
  for (int i = 0; i < of_batch.rank(); ++i) {
    const MatmulGeometry::Axis axis{of_batch[i], a_steps[std::size_t(i)], b_steps[std::size_t(i)]};
    if (axis.count == 1) continue;
    if (!g.batch.empty() && g.batch.back().a_step == axis.count * axis.a_step &&
        g.batch.back().b_step == axis.count * axis.b_step) {
      g.batch.back() = {g.batch.back().count * axis.count, axis.a_step, axis.b_step};
    } else {
      g.batch.push_back(axis);
    }
  }
  // Rows of a that all meet one b are rows of one product.
  if (!g.transpose_a && !g.batch.empty() && g.batch.back().b_step == 0 &&
      g.batch.back().a_step == 1) {
    const std::int64_t count = g.batch.back().count;
    g.m *= count;
    g.batch.pop_back();
    for (MatmulGeometry::Axis& axis : g.batch) axis.a_step /= std::max<std::int64_t>(1, count);
  }
  return g;
}

namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  ops::check_floating("a", in[0]);
  ops::check_dtype("b", in[1], in[0].dtype, "that of a");
  return {{matmul_geometry(attrs, in[0].shape, in[1].shape).y, in[0].dtype}};
}

/// Gradients of a repeated operand are summed; reduce_to vanishes in lowering where it was not.
std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  const bool ta = node.attrs.flag("transpose_a"), tb = node.attrs.flag("transpose_b");
  const TensorId a = node.inputs[0], b = node.inputs[1], dy = dout[0];
  const auto product = [&](TensorId left, TensorId right, bool left_t, bool right_t,
                           TensorId like) {
    const Attrs attrs = {{"transpose_a", left_t}, {"transpose_b", right_t}};
    return builder.add("reduce_to", {builder.add("matmul", {left, right}, attrs), like});
  };
  return {ta ? product(b, dy, tb, true, a) : product(dy, b, false, !tb, a),
          tb ? product(dy, a, true, ta, b) : product(a, dy, !ta, false, b)};
}

Cost cost(const Attrs& attrs, Types in, Types out) {
  const std::int64_t k = in[0].shape[attrs.flag("transpose_a") ? -2 : -1];
  return {saturated_product({2, out[0].shape.num_elements(), k}), ops::bytes_moved(in, out)};
}

const OpRegistration kMatmul{
    {.name = "matmul",
     .inputs = {"a", "b"},
     .outputs = {"y"},
     .attrs = {{"transpose_a", false, false, "a is [.., K, M]"},
               {"transpose_b", false, false, "b is [.., N, K]"}},
     .infer = infer,
     .gradient = gradient,
     .cost = cost,
     .precision = Precision::LOW,
     .doc = "y[.., M, N] = a [.., M, K] b [.., K, N], the other axes broadcast. torch.matmul"}};

}  // namespace
}  // namespace tr

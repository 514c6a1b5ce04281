// SPDX-License-Identifier: Apache-2.0
// Reductions over axes: sum, mean, amax, amin, prod, var.
#include "ops/reduction.h"

#include <string>

#include "core/check.h"
#include "core/format.h"
#include "renaissance/ops/reduction.h"

namespace tr {

Shape reduced_shape(const Attrs& attrs, const Shape& x) {
  Shape reduced = x;
  const std::vector<std::int64_t>& axes = attrs.ints("axes");
  std::vector<bool> named(std::size_t(x.rank()), axes.empty());
  for (const std::int64_t axis : axes) {
    const auto at = std::size_t(ops::normalised_axis(axis, x));
    TR_CHECK(!named[at], "axis {} is named twice, expected each once", axis);
    named[at] = true;
  }
  for (int i = 0; i < x.rank(); ++i) {
    if (named[std::size_t(i)]) reduced = reduced.with_dim(i, 1);
  }
  return reduced;
}

namespace {

using ops::Ids;
using ops::Types;

BluePrint reduction(const char* op, std::vector<std::int64_t> axes, bool keepdims,
                    std::source_location where) {
  return layer(op, {{"axes", std::move(axes)}, {"keepdims", keepdims}}, 1, where);
}

struct Row {
  const char* name;
  bool saves_x, saves_y;  // for the gradient; x else gives its type only
  bool takes_none;        // has a value for no elements
  int flops;              // an element of x
  const char* doc;
  const char* gradient;
};

const Row kTable[] = {
    {"sum", false, false, true, 1, "Sum over axes, in fp32. torch.sum",
     "dx = dy, repeated along the summed axes"},
    {"mean", false, false, false, 1, "Mean over axes, in fp32. torch.mean",
     "dx = dy / n, repeated; n numbers were averaged"},
    {"amax", true, true, false, 1, "Largest element over axes; NaN wins. torch.amax",
     "dx = dy / k where x is one of the k largest, else 0"},
    {"amin", true, true, false, 1, "Smallest element over axes; NaN wins. torch.amin",
     "dx = dy / k where x is one of the k smallest, else 0"},
    {"prod", true, false, true, 1, "Product over axes, in fp32. torch.prod",
     "dx = dy times the product of the other elements"},
    {"var", true, false, false, 4,
     "Sum of (x - mean)^2 over axes / (n - correction), in fp32. torch.var",
     "dx = 2 dy (x - mean) / (n - correction)"},
};

std::vector<AttrSpec> attrs_of(const Row& row) {
  std::vector<AttrSpec> attrs = {
      {"axes", std::vector<std::int64_t>{}, false, "negative from the back; none: all"},
      {"keepdims", false, false, "reduced axes stay, with length 1"}};
  if (std::string(row.name) == "var") {
    attrs.push_back({"correction", std::int64_t{1}, false, "1: unbiased, 0: biased"});
  }
  return attrs;
}

std::vector<TensorType> infer_row(const Row& row, const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  const Shape& x = in[0].shape;
  const Shape kept = reduced_shape(attrs, x);
  const std::int64_t outputs = kept.num_elements();
  const std::int64_t terms = outputs == 0 ? 1 : x.num_elements() / outputs;
  TR_CHECK(row.takes_none || terms > 0, "x has shape {}, no elements to reduce; expected some", x);
  if (attrs.contains("correction")) {
    const std::int64_t correction = attrs.i64("correction");
    TR_CHECK(correction >= 0 && correction < terms,
             "correction is {}, expected 0 to {} (less than the reduced elements of x {})",
             correction, terms - 1, x);
  }
  if (attrs.flag("keepdims")) return {{kept, in[0].dtype}};
  std::vector<std::int64_t> dims;
  const std::vector<std::int64_t>& axes = attrs.ints("axes");
  for (int i = 0; i < x.rank(); ++i) {
    bool gone = axes.empty();
    for (const std::int64_t axis : axes) gone = gone || ops::normalised_axis(axis, x) == i;
    if (!gone) dims.push_back(x[i]);
  }
  return {{Shape(dims), in[0].dtype}};
}

/// dy, x (its type only where the row does not save it), y if it is saved.
std::vector<TensorType> infer_backward(const Row& row, const Attrs& attrs, Types in) {
  const TensorType y = infer_row(row, attrs, in.subspan(1, 1))[0];
  ops::check_same("dy", in[0], y, "x, reduced");
  if (row.saves_y) ops::check_same("y", in[2], y, "x, reduced");
  return {in[1]};
}

OpDef forward_def(const Row& row) {
  OpDef def;
  def.name = row.name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = attrs_of(row);
  def.infer = [&row](const Attrs& attrs, Types in) { return infer_row(row, attrs, in); };
  def.gradient = [&row](GraphBuilder& builder, const Node& node, Ids dout) {
    std::vector<TensorId> inputs = {dout[0], node.inputs[0]};
    if (row.saves_y) inputs.push_back(node.outputs[0]);
    return std::vector<TensorId>{
        builder.add(std::string(row.name) + "_backward", inputs, node.attrs)};
  };
  def.cost = ops::cost_per_input_element(row.flops);
  def.doc = row.doc;
  return def;
}

OpDef backward_def(const Row& row) {
  OpDef def;
  def.name = std::string(row.name) + "_backward";
  def.inputs = {"dy", "x"};
  if (row.saves_y) def.inputs.push_back("y");
  def.outputs = {"dx"};
  def.attrs = attrs_of(row);
  def.infer = [&row](const Attrs& attrs, Types in) { return infer_backward(row, attrs, in); };
  def.cost = ops::cost_per_element(row.flops, row.saves_x ? -1 : 1);
  if (!row.saves_x) def.type_only_from = 1;
  def.doc = fmt::format("{}.", row.gradient);
  return def;
}

const bool kRegistered = [] {
  for (const Row& row : kTable) {
    OpRegistry::instance().add(forward_def(row));
    OpRegistry::instance().add(backward_def(row));
  }
  return true;
}();

}  // namespace

BluePrint sum(std::vector<std::int64_t> axes, bool keepdims, std::source_location where) {
  return reduction("sum", std::move(axes), keepdims, where);
}
BluePrint mean(std::vector<std::int64_t> axes, bool keepdims, std::source_location where) {
  return reduction("mean", std::move(axes), keepdims, where);
}
BluePrint amax(std::vector<std::int64_t> axes, bool keepdims, std::source_location where) {
  return reduction("amax", std::move(axes), keepdims, where);
}
BluePrint amin(std::vector<std::int64_t> axes, bool keepdims, std::source_location where) {
  return reduction("amin", std::move(axes), keepdims, where);
}
BluePrint prod(std::vector<std::int64_t> axes, bool keepdims, std::source_location where) {
  return reduction("prod", std::move(axes), keepdims, where);
}
BluePrint var(std::vector<std::int64_t> axes, bool keepdims, std::int64_t correction,
              std::source_location where) {
  return layer("var",
               {{"axes", std::move(axes)}, {"keepdims", keepdims}, {"correction", correction}}, 1,
               where);
}

}  // namespace tr

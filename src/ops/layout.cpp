// SPDX-License-Identifier: Apache-2.0
// reshape, permute, transpose, slice: the same elements in another shape or order.
#include "ops/layout.h"

#include <algorithm>
#include <limits>

#include "core/check.h"
#include "core/format.h"
#include "renaissance/ops/shape.h"

namespace tr {
namespace {

std::vector<std::int64_t> dense_steps(const Shape& x) {
  std::vector<std::int64_t> steps(std::size_t(x.rank()));
  std::int64_t step = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    steps[std::size_t(i)] = step;
    step *= x[i];
  }
  return steps;
}

std::vector<int> permutation(const Attrs& attrs, const Shape& x) {
  std::vector<int> order;
  if (attrs.contains("axes")) {
    for (const std::int64_t axis : attrs.ints("axes")) {
      order.push_back(ops::normalised_axis(axis, x));
    }
    std::vector<int> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    bool all = int(sorted.size()) == x.rank();
    for (std::size_t i = 0; all && i < sorted.size(); ++i) all = sorted[i] == int(i);
    TR_CHECK(all, "axes are [{}], expected a permutation of the {} axes of x {}",
             fmt::join(attrs.ints("axes"), ", "), x.rank(), x);
    return order;
  }
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[std::size_t(ops::normalised_axis(attrs.i64("axis0"), x))],
            order[std::size_t(ops::normalised_axis(attrs.i64("axis1"), x))]);
  return order;
}

}  // namespace

StridedView permuted_view(const Attrs& attrs, const Shape& x) {
  const std::vector<std::int64_t> steps = dense_steps(x);
  StridedView view;
  std::vector<std::int64_t> dims;
  for (const int axis : permutation(attrs, x)) {
    dims.push_back(x[axis]);
    view.steps.push_back(steps[std::size_t(axis)]);
  }
  view.shape = Shape(dims);
  return view;
}

StridedView sliced_view(const Attrs& attrs, const Shape& x) {
  const auto &axes = attrs.ints("axes"), &starts = attrs.ints("starts"), &ends = attrs.ints("ends"),
             &steps = attrs.ints("steps");
  TR_CHECK(
      starts.size() == axes.size() && ends.size() == axes.size() && steps.size() == axes.size(),
      "{} axes, {} starts, {} ends and {} steps are given, expected one of each an axis",
      axes.size(), starts.size(), ends.size(), steps.size());
  StridedView view{x, 0, dense_steps(x)};
  std::vector<bool> named(std::size_t(x.rank()));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const int axis = ops::normalised_axis(axes[i], x);
    TR_CHECK(!named[std::size_t(axis)], "axis {} is named twice, expected each once", axes[i]);
    named[std::size_t(axis)] = true;
    TR_CHECK(steps[i] != 0, "the step of axis {} is 0, expected another number", axes[i]);
    // A longer step takes one element too; within these bounds nothing overflows.
    const std::int64_t length = x[axis], longest = std::max<std::int64_t>(1, length);
    const std::int64_t step = std::clamp(steps[i], -longest, longest);
    const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? length : length - 1;
    const auto bound = [&](std::int64_t value) {
      if (value < 0) value = value < -length ? low : value + length;
      return std::clamp(value, std::min(low, high), std::max(low, high));
    };
    const std::int64_t begin = bound(starts[i]), end = bound(ends[i]);
    const std::int64_t span = step > 0 ? end - begin : begin - end;
    const std::int64_t stride = step > 0 ? step : -step;
    const std::int64_t count = span <= 0 ? 0 : (span - 1) / stride + 1;
    view.shape = view.shape.with_dim(axis, count);
    if (count > 0) view.begin += begin * view.steps[std::size_t(axis)];
    view.steps[std::size_t(axis)] *= step;
  }
  return view;
}

namespace {

using ops::Ids;
using ops::Types;
using Ints = std::vector<std::int64_t>;

/// The shape of x with that of a sample, or of all of it, replaced; -1 once: what is left.
Shape reshaped(const Attrs& attrs, const Shape& x) {
  const Ints& wanted = attrs.ints("shape");
  const bool keeps = attrs.flag("keep_batch");
  TR_CHECK(!keeps || x.rank() >= 1, "x has shape {}, expected a batch axis", x);
  Ints dims;
  if (keeps) dims.push_back(x[0]);
  const std::int64_t all = keeps ? x.drop_first().num_elements() : x.num_elements();
  std::int64_t known = 1;
  int open = -1;
  for (const std::int64_t dim : wanted) {
    TR_CHECK(dim >= -1 && (dim >= 0 || open < 0),
             "shape is [{}], expected lengths, -1 at most once", fmt::join(wanted, ", "));
    if (dim == -1) {
      open = int(dims.size());
    } else {
      const bool too_many = dim > 0 && known > all / dim;  // the product itself might overflow
      known = too_many ? all + 1 : known * dim;
    }
    dims.push_back(dim);
  }
  if (open >= 0 && known > 0 && all % known == 0) {
    dims[std::size_t(open)] = all / known;
    known = all;
  }
  TR_CHECK(known == all && (open < 0 || dims[std::size_t(open)] >= 0),
           "shape is [{}], expected {} elements (those of {} {})", fmt::join(wanted, ", "), all,
           keeps ? "a sample of x" : "x", x);
  return Shape(dims);
}

std::vector<TensorType> infer_reshape(const Attrs& attrs, Types in) {
  return {{reshaped(attrs, in[0].shape), in[0].dtype}};
}

std::vector<TensorId> gradient_reshape(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("reshape_like", {dout[0], node.inputs[0]})};
}

std::vector<TensorType> infer_permute(const Attrs& attrs, Types in) {
  return {{permuted_view(attrs, in[0].shape).shape, in[0].dtype}};
}

std::vector<TensorId> gradient_permute(GraphBuilder& builder, const Node& node, Ids dout) {
  const Ints& axes = node.attrs.ints("axes");
  Ints inverse(axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t axis = axes[i] < 0 ? axes[i] + std::int64_t(axes.size()) : axes[i];
    inverse.at(std::size_t(axis)) = std::int64_t(i);
  }
  return {builder.add("permute", {dout[0]}, {{"axes", inverse}})};
}

std::vector<TensorId> gradient_transpose(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("transpose", {dout[0]}, node.attrs)};
}

std::vector<TensorType> infer_slice(const Attrs& attrs, Types in) {
  return {{sliced_view(attrs, in[0].shape).shape, in[0].dtype}};
}

std::vector<TensorId> gradient_slice(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("slice_backward", {dout[0], node.inputs[0]}, node.attrs)};
}

std::vector<TensorType> infer_slice_backward(const Attrs& attrs, Types in) {
  ops::check_floating("dy", in[0]);
  ops::check_dtype("x", in[1], in[0].dtype, "that of dy");
  ops::check_shape("dy", in[0], sliced_view(attrs, in[1].shape).shape, "the slice of x");
  return {in[1]};
}

const std::vector<AttrSpec> kSliceAttrs = {
    {"axes", Ints{}, true, "that are cut, negative from the back"},
    {"starts", Ints{}, true, "first element of each, negative from the back"},
    {"ends", Ints{}, true, "behind the last element of each"},
    {"steps", Ints{}, true, "from element to element, not 0"}};

const OpRegistration kReshape{
    {.name = "reshape",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = {{"shape", Ints{}, true, "the new one; -1 once: what is left"},
               {"keep_batch", false, false, "shape is that of a sample"}},
     .infer = infer_reshape,
     .gradient = gradient_reshape,
     .cost = [](const Attrs&, Types, Types) { return Cost{}; },
     .views = {{0, 0}},
     .doc = "The same elements in another shape. torch.reshape"}};

const OpRegistration kPermute{
    {.name = "permute",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = {{"axes", Ints{}, true, "axis i of y is axis axes[i] of x"}},
     .infer = infer_permute,
     .gradient = gradient_permute,
     .cost = ops::cost_per_element(0),
     .doc = "Axes in another order. torch.permute"}};

const OpRegistration kTranspose{
    {.name = "transpose",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = {{"axis0", std::int64_t{0}, true, "this axis"},
               {"axis1", std::int64_t{0}, true, "and this one change places"}},
     .infer = infer_permute,
     .gradient = gradient_transpose,
     .cost = ops::cost_per_element(0),
     .doc = "Two axes change places. torch.transpose"}};

const OpRegistration kSlice{{.name = "slice",
                             .inputs = {"x"},
                             .outputs = {"y"},
                             .attrs = kSliceAttrs,
                             .infer = infer_slice,
                             .gradient = gradient_slice,
                             .cost =
                                 [](const Attrs&, Types, Types out) {
                                   return Cost{0, 2 * bytes_of(out[0])};
                                 },
                             .doc = "x[start:end:step] on some axes. Python's slices of tensors"}};

const OpRegistration kSliceBackward{{.name = "slice_backward",
                                     .inputs = {"dy", "x"},
                                     .outputs = {"dx"},
                                     .attrs = kSliceAttrs,
                                     .infer = infer_slice_backward,
                                     .cost = ops::cost_per_element(0, 1),
                                     .type_only_from = 1,
                                     .doc = "dy where the slice took its elements, 0 elsewhere."}};

}  // namespace

BluePrint reshape(std::vector<std::int64_t> sample_shape, std::source_location where) {
  return layer("reshape", {{"shape", std::move(sample_shape)}, {"keep_batch", true}}, 1, where);
}

BluePrint permute(std::vector<std::int64_t> axes, std::source_location where) {
  return layer("permute", {{"axes", std::move(axes)}}, 1, where);
}

BluePrint transpose(int axis0, int axis1, std::source_location where) {
  return layer("transpose", {{"axis0", std::int64_t(axis0)}, {"axis1", std::int64_t(axis1)}}, 1,
               where);
}

BluePrint slice(int axis, std::int64_t start, std::int64_t end, std::int64_t step,
                std::source_location where) {
  return layer(
      "slice",
      {{"axes", Ints{axis}}, {"starts", Ints{start}}, {"ends", Ints{end}}, {"steps", Ints{step}}},
      1, where);
}

std::vector<Value> split(const Value& x, const std::vector<std::int64_t>& lengths, int axis,
                         std::source_location where) {
  TR_CHECK(!lengths.empty(), "split: no length is given, expected at least one");
  std::vector<Value> parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    TR_CHECK(lengths[i] >= 1, "split: length {} is {}, expected at least 1", i, lengths[i]);
    parts.push_back(slice(axis, begin, begin + lengths[i], 1, where)(x));
    begin += lengths[i];
  }
  return parts;
}

}  // namespace tr

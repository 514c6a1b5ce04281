// SPDX-License-Identifier: Apache-2.0
// softmax and log_softmax_axis of tensors of any rank; log_softmax, the loss's, is in loss.cpp.
#include <string>

#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/sequence.h"

namespace tr {
namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  const int axis = ops::normalised_axis(attrs.i64("axis"), in[0].shape);
  TR_CHECK(in[0].shape[axis] > 0, "x has shape {}, expected elements along axis {}", in[0].shape,
           attrs.i64("axis"));
  return {in[0]};
}

std::vector<TensorType> infer_backward(const Attrs& attrs, Types in) {
  ops::check_floating("dy", in[0]);
  ops::check_same("y", in[1], in[0], "that of dy");
  return infer(attrs, in.first(1));
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add(node.op + "_backward", {dout[0], node.outputs[0]}, node.attrs)};
}

const std::vector<AttrSpec> kAttrs = {
    {"axis", std::int64_t{-1}, false, "whose elements sum to 1; negative from the back"}};

OpDef forward_def(const char* name, const char* doc) {
  OpDef def;
  def.name = name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = kAttrs;
  def.infer = infer;
  def.gradient = gradient;
  def.cost = ops::cost_per_element(11);
  def.in_place = {{0, 0}};
  def.doc = doc;
  return def;
}

OpDef backward_def(const std::string& name, const char* doc) {
  OpDef def;
  def.name = name + "_backward";
  def.inputs = {"dy", "y"};
  def.outputs = {"dx"};
  def.attrs = kAttrs;
  def.infer = infer_backward;
  def.cost = ops::cost_per_element(4);
  def.in_place = {{0, 0}, {0, 1}};
  def.doc = doc;
  return def;
}

const OpRegistration kSoftmax{
    forward_def("softmax", "y = exp(x) / sum of exp(x) along `axis`, in fp32. torch.softmax")};
const OpRegistration kSoftmaxBackward{
    backward_def("softmax", "dx = y (dy - sum of dy y along `axis`).")};
const OpRegistration kLogSoftmax{forward_def(
    "log_softmax_axis", "y = x - log(sum of exp(x)) along `axis`, in fp32. torch.log_softmax")};
const OpRegistration kLogSoftmaxBackward{
    backward_def("log_softmax_axis", "dx = dy - exp(y) sum of dy along `axis`.")};

}  // namespace
}  // namespace tr

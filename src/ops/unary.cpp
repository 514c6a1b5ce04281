// SPDX-License-Identifier: Apache-2.0
#include "ops/unary.h"

#include "core/format.h"
#include "ops/rules.h"

namespace tr::ops {
namespace {

OpDef forward_def(const Unary& op) {
  OpDef def;
  def.name = op.name;
  def.inputs = {"x"};
  def.outputs = {"y"};
  def.attrs = op.attrs;
  def.infer = [check = op.check](const Attrs& attrs, Types in) {
    check_floating("x", in[0]);
    if (check) check(attrs);
    return std::vector<TensorType>{in[0]};
  };
  def.gradient = [name = op.name + "_backward", saves = op.saves](GraphBuilder& builder,
                                                                  const Node& node, Ids dout) {
    const TensorId saved = saves == Saves::Y ? node.outputs[0] : node.inputs[0];
    return std::vector<TensorId>{builder.add(name, {dout[0], saved}, node.attrs)};
  };
  def.cost = cost_per_element(op.flops);
  def.in_place = {{0, 0}};
  def.elementwise = true;
  def.doc = op.doc;
  return def;
}

OpDef backward_def(const Unary& op) {
  const char* const saved = op.saves == Saves::Y ? "y" : "x";
  OpDef def;
  def.name = op.name + "_backward";
  def.inputs = {"dy", saved};
  def.outputs = {"dx"};
  def.attrs = op.attrs;
  def.infer = [check = op.check, saved](const Attrs& attrs, Types in) {
    check_floating("dy", in[0]);
    check_same(saved, in[1], in[0], "that of dy");
    if (check) check(attrs);
    return std::vector<TensorType>{in[0]};
  };
  def.cost = cost_per_element(op.flops + 2);
  def.in_place = {{0, 0}, {0, 1}};
  def.elementwise = true;
  def.doc = fmt::format("dx = dy * f'(x) of {}, from {}.", op.name, saved);
  return def;
}

}  // namespace

void register_unary(const Unary& op) {
  OpRegistry::instance().add(forward_def(op));
  OpRegistry::instance().add(backward_def(op));
}

}  // namespace tr::ops

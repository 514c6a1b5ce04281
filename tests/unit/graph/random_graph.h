// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "graph/lowered_graph.h"

namespace tr::test {

/// A seeded random graph: 20 to 400 nodes on 1 to 4 streams, views with and without nodes of their
/// own, storages written in parts, in-place pairs (also such as the planner must refuse),
/// workspaces, parameters with a range over them, persistent state that nodes rewrite. Edges are
/// derived. Sizes are arbitrary; offsets and lengths of partial views are multiples of 64 bytes.
class RandomGraph {
 public:
  static LoweredGraph make(std::uint64_t seed, int num_streams = 0) {
    RandomGraph builder(seed);
    builder.run(num_streams);
    derive_dependencies(builder.graph_);
    return std::move(builder.graph_);
  }

 private:
  explicit RandomGraph(std::uint64_t seed) : random_(seed * 7919 + 17) {}

  std::int64_t below(std::int64_t bound) { return std::int64_t(random_() % std::uint64_t(bound)); }
  bool chance(int percent) { return below(100) < percent; }

  void run(int num_streams) {
    const int num_nodes = 20 + int(below(381));
    num_streams_ = num_streams > 0 ? num_streams : 1 + int(below(4));
    for (int p = 0; p < 4; ++p) {
      const TensorId weight =
          add_tensor("weight" + std::to_string(p), Role::WEIGHT, 256 * (1 + below(8)));
      graph_.tensors[std::size_t(weight)].param = p;
      weights_.push_back(weight);
    }
    std::int64_t range_bytes = 0;
    for (const TensorId id : weights_) range_bytes += graph_.tensor(id).bytes;
    range_ = add_tensor("weights", Role::WEIGHT, range_bytes);
    graph_.tensors[std::size_t(range_)].range_role = int(Role::WEIGHT);
    state_ = add_tensor("state", Role::SCALAR, 64);
    const TensorId input = add_tensor("input", Role::INPUT, random_bytes());
    add_node("first", {input}, {fresh()});
    while (int(graph_.nodes.size()) < num_nodes) add_some_node();
  }

  TensorId add_tensor(std::string name, Role role, std::int64_t bytes) {
    LoweredTensor t;
    t.name = std::move(name);
    t.role = role;
    t.type = {Shape{bytes}, DType::UINT8};
    t.bytes = bytes;
    graph_.tensors.push_back(std::move(t));
    return TensorId(graph_.tensors.size() - 1);
  }

  std::int64_t random_bytes() { return 1 + below(std::int64_t{1} << (6 + below(13))); }

  TensorId fresh(std::int64_t bytes = 0) {
    const Role role = chance(70) ? Role::FEATURE : Role::FEATURE_GRAD;
    return add_tensor("t" + std::to_string(graph_.tensors.size()), role,
                      bytes > 0 ? bytes : random_bytes());
  }

  TensorId view_of(TensorId id, std::int64_t offset, std::int64_t bytes) {
    const LoweredTensor& of = graph_.tensor(id);
    const TensorId owner = of.view_of == kNoTensor ? id : of.view_of;
    const std::int64_t start = of.view_offset + offset;
    const TensorId view = add_tensor("v" + std::to_string(graph_.tensors.size()), of.role, bytes);
    graph_.tensors[std::size_t(view)].view_of = owner;
    graph_.tensors[std::size_t(view)].view_offset = start;
    return view;
  }

  LoweredNode& add_node(std::string op, std::vector<TensorId> inputs,
                        std::vector<TensorId> outputs) {
    if (graph_.nodes.empty() || chance(30)) stream_ = int(below(num_streams_));
    LoweredNode node;
    node.op = std::move(op);
    node.layer = "n" + std::to_string(graph_.nodes.size());
    node.inputs = std::move(inputs);
    node.outputs = outputs;
    node.stream = stream_;
    if (chance(10)) node.workspace = add_tensor("workspace", Role::WORKSPACE, random_bytes());
    graph_.nodes.push_back(std::move(node));
    for (const TensorId out : outputs) values_.push_back(out);
    return graph_.nodes.back();
  }

  /// Mostly a recent value, sometimes an old one: long lifetimes.
  TensorId some_value() {
    const std::int64_t count = std::int64_t(values_.size());
    const std::int64_t reach = chance(80) ? std::min<std::int64_t>(count, 6) : count;
    return values_[std::size_t(count - 1 - below(reach))];
  }

  void add_some_node() {
    const int kind = int(below(100));
    if (kind < 8) return add_relabelling();
    if (kind < 14) return add_parts();
    if (kind < 20) return add_partial_view();
    if (kind < 25) return add_state_write();
    add_compute();
  }

  void add_compute() {
    std::vector<TensorId> inputs, outputs;
    for (int i = int(below(3)); i >= 0; --i) inputs.push_back(some_value());
    if (chance(20)) inputs.push_back(weights_[std::size_t(below(4))]);
    if (chance(5)) inputs.push_back(kNoTensor);
    const bool same_size = chance(60);
    outputs.push_back(fresh(same_size ? graph_.tensor(inputs[0]).bytes : 0));
    if (chance(20)) outputs.push_back(fresh());
    LoweredNode& node = add_node("compute", std::move(inputs), std::move(outputs));
    if (!chance(60)) return;
    node.in_place.emplace_back(0, 0);
    if (node.inputs.size() > 1 && node.inputs[1] != kNoTensor && chance(50))
      node.in_place.emplace_back(0, 1);
    if (node.outputs.size() > 1 && chance(50)) node.in_place.emplace_back(1, 0);
  }

  /// A node that only gives its input's bytes another name.
  void add_relabelling() {
    const TensorId in = some_value();
    add_node("view", {in}, {view_of(in, 0, graph_.tensor(in).bytes)});
    graph_.nodes.back().workspace = kNoTensor;
  }

  /// One storage, two writers of parts of it, one reader of the whole (concat without a copy).
  void add_parts() {
    const std::int64_t half = 64 * (1 + below(64));
    const TensorId whole = fresh(2 * half);
    const TensorId low = view_of(whole, 0, half), high = view_of(whole, half, half);
    const TensorId a = some_value(), b = some_value();
    add_node("part", {a}, {low});
    add_node("part", {b}, {high});
    add_node("compute", {whole}, {fresh()});
    values_.push_back(whole);
  }

  void add_partial_view() {
    const TensorId of = some_value();
    const std::int64_t units = graph_.tensor(of).bytes / 64;
    if (units < 1) return;
    const std::int64_t first = below(units), count = 1 + below(units - first);
    values_.push_back(view_of(of, first * 64, count * 64));
  }

  void add_state_write() {
    std::vector<TensorId> inputs{chance(50) ? range_ : state_, some_value()};
    if (chance(30)) inputs.push_back(inputs[0] == range_ ? state_ : range_);
    LoweredNode& node = add_node("update", std::move(inputs), {});
    node.state_writes.push_back(0);
  }

  std::mt19937_64 random_;
  LoweredGraph graph_;
  int num_streams_ = 1;
  int stream_ = 0;
  std::vector<TensorId> weights_;
  std::vector<TensorId> values_;
  TensorId range_ = kNoTensor;
  TensorId state_ = kNoTensor;
};

}  // namespace tr::test

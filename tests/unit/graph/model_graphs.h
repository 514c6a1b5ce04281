// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "graph/lowered_graph.h"

namespace tr::test {

/// Training steps of known networks as lowered graphs, written down directly: what a planner meets
/// in practice (skips, growing concatenations, workspaces), without the compiler. 16-bit NHWC
/// feature maps.
class TrainGraph {
 public:
  struct Map {
    TensorId id = kNoTensor;
    std::int64_t height = 0, channels = 0;
  };

  explicit TrainGraph(std::int64_t batch) : batch_(batch) {}

  Map image(std::int64_t height, std::int64_t channels) {
    return {tensor("image", Role::INPUT, bytes(height, channels)), height, channels};
  }

  Map conv(const Map& x, std::int64_t channels, std::int64_t kernel, std::int64_t stride = 1) {
    const Map y = feature(x.height / stride, channels);
    const TensorId weight = param(kernel * kernel * x.channels * channels * 4);
    node("conv", {x.id, weight}, {y.id}).workspace = workspace();
    backward_.push_back([=, this] {
      const TensorId dy = grad(y);
      node("conv_dweight", {dy, x.id}, {gradient(weight)}).workspace = workspace();
      if (graph_.tensor(x.id).role == Role::INPUT) return;
      const TensorId dx = gradient_map(x);
      node("conv_dx", {dy, weight}, {dx}).workspace = workspace();
      give(x, dx);
    });
    return y;
  }

  Map bn_relu(const Map& x) { return relu(bn(x)); }

  Map bn(const Map& x) {
    const Map y = feature(x.height, x.channels);
    const TensorId weight = param(8 * x.channels);
    const TensorId mean = tensor("mean", Role::FEATURE, 4 * x.channels);
    const TensorId rstd = tensor("rstd", Role::FEATURE, 4 * x.channels);
    node("bn", {x.id, weight}, {y.id, mean, rstd});
    backward_.push_back([=, this] {
      const TensorId dx = gradient_map(x);
      node("bn_backward", {grad(y), x.id, weight, mean, rstd}, {dx, gradient(weight)}).in_place = {
          {0, 0}};
      give(x, dx);
    });
    return y;
  }

  Map relu(const Map& x) {
    const Map y = feature(x.height, x.channels);
    node("relu", {x.id}, {y.id}).in_place = {{0, 0}};
    backward_.push_back([=, this] {
      const TensorId dx = gradient_map(x);
      node("relu_backward", {grad(y), y.id}, {dx}).in_place = {{0, 0}};
      give(x, dx);
    });
    return y;
  }

  Map add(const Map& a, const Map& b) {
    const Map y = feature(a.height, a.channels);
    node("add", {a.id, b.id}, {y.id}).in_place = {{0, 0}, {0, 1}};
    backward_.push_back([=, this] {
      give(a, grad(y));
      give(b, grad(y));
    });
    return y;
  }

  Map pool(const Map& x, std::int64_t stride) {
    const Map y = feature(x.height / stride, x.channels);
    node("pool", {x.id}, {y.id});
    backward_.push_back([=, this] {
      const TensorId dx = gradient_map(x);
      node("pool_backward", {grad(y), x.id, y.id}, {dx});
      give(x, dx);
    });
    return y;
  }

  Map concat(const std::vector<Map>& parts) {
    std::vector<TensorId> inputs;
    std::int64_t channels = 0;
    for (const Map& part : parts) {
      inputs.push_back(part.id);
      channels += part.channels;
    }
    const Map y = feature(parts[0].height, channels);
    node("concat", inputs, {y.id});
    backward_.push_back([=, this] {
      std::vector<TensorId> outputs;
      for (const Map& part : parts) outputs.push_back(gradient_map(part));
      node("concat_backward", {grad(y)}, outputs);
      for (std::size_t i = 0; i < parts.size(); ++i) give(parts[i], outputs[i]);
    });
    return y;
  }

  /// Loss over the last map, then the backward pass.
  LoweredGraph finish(const Map& last) {
    const TensorId seed = gradient_map(last);
    node("loss", {last.id}, {seed});
    give(last, seed);
    for (auto rule = backward_.rbegin(); rule != backward_.rend(); ++rule) (*rule)();
    derive_dependencies(graph_);
    return std::move(graph_);
  }

 private:
  std::int64_t bytes(std::int64_t height, std::int64_t channels) const {
    return batch_ * height * height * channels * 2;
  }

  TensorId tensor(const std::string& name, Role role, std::int64_t size) {
    LoweredTensor t;
    t.name = name + std::to_string(graph_.tensors.size());
    t.role = role;
    t.type = {Shape{size}, DType::UINT8};
    t.bytes = size;
    graph_.tensors.push_back(std::move(t));
    grads_.emplace_back();
    return TensorId(graph_.tensors.size() - 1);
  }

  Map feature(std::int64_t height, std::int64_t channels) {
    return {tensor("y", Role::FEATURE, bytes(height, channels)), height, channels};
  }
  TensorId gradient_map(const Map& of) {
    return tensor("d", Role::FEATURE_GRAD, bytes(of.height, of.channels));
  }
  TensorId param(std::int64_t size) { return tensor("w", Role::WEIGHT, size); }
  TensorId gradient(TensorId weight) {
    return tensor("dw", Role::GRADIENT, graph_.tensor(weight).bytes);
  }
  TensorId workspace() { return tensor("workspace", Role::WORKSPACE, 32 << 20); }

  LoweredNode& node(std::string op, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    LoweredNode n;
    n.op = std::move(op);
    n.layer = "l" + std::to_string(graph_.nodes.size());
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    graph_.nodes.push_back(std::move(n));
    return graph_.nodes.back();
  }

  void give(const Map& to, TensorId gradient) { grads_[std::size_t(to.id)].push_back(gradient); }

  /// Sum of the gradients given to `of` so far.
  TensorId grad(const Map& of) {
    const std::vector<TensorId> parts = grads_[std::size_t(of.id)];
    TensorId sum = parts.at(0);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      const TensorId next = gradient_map(of);
      node("add", {sum, parts[i]}, {next}).in_place = {{0, 0}, {0, 1}};
      sum = next;
    }
    grads_[std::size_t(of.id)] = {sum};
    return sum;
  }

  std::int64_t batch_;
  LoweredGraph graph_;
  std::vector<std::function<void()>> backward_;
  std::vector<std::vector<TensorId>> grads_;  // by tensor
};

inline LoweredGraph resnet50_graph(std::int64_t batch) {
  TrainGraph g(batch);
  TrainGraph::Map x = g.pool(g.bn_relu(g.conv(g.image(224, 4), 64, 7, 2)), 2);
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage) {
    for (int b = 0; b < blocks[stage]; ++b) {
      const std::int64_t width = 64 << stage, stride = (b == 0 && stage > 0) ? 2 : 1;
      TrainGraph::Map body = g.bn_relu(g.conv(x, width, 1));
      body = g.bn_relu(g.conv(body, width, 3, stride));
      body = g.bn(g.conv(body, 4 * width, 1));
      const TrainGraph::Map skip = b == 0 ? g.bn(g.conv(x, 4 * width, 1, stride)) : x;
      x = g.relu(g.add(body, skip));
    }
  }
  return g.finish(g.conv(g.pool(x, 7), 1000, 1));
}

inline LoweredGraph vgg16_graph(std::int64_t batch) {
  TrainGraph g(batch);
  TrainGraph::Map x = g.image(224, 4);
  const std::vector<std::vector<int>> stages{
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  for (const auto& widths : stages) {
    for (const int width : widths) x = g.bn_relu(g.conv(x, width, 3));
    x = g.pool(x, 2);
  }
  x = g.relu(g.conv(g.pool(x, 7), 4096, 1));
  return g.finish(g.conv(g.relu(g.conv(x, 4096, 1)), 1000, 1));
}

inline LoweredGraph densenet121_graph(std::int64_t batch) {
  TrainGraph g(batch);
  TrainGraph::Map x = g.pool(g.bn_relu(g.conv(g.image(224, 4), 64, 7, 2)), 2);
  const int layers[] = {6, 12, 24, 16};
  for (int block = 0; block < 4; ++block) {
    std::vector<TrainGraph::Map> features{x};
    for (int l = 0; l < layers[block]; ++l) {
      const TrainGraph::Map all = features.size() == 1 ? x : g.concat(features);
      features.push_back(g.conv(g.bn_relu(g.conv(g.bn_relu(all), 128, 1)), 32, 3));
    }
    x = g.bn_relu(g.concat(features));
    if (block < 3) x = g.pool(g.conv(x, x.channels / 2, 1), 2);
  }
  return g.finish(g.conv(g.pool(x, 7), 1000, 1));
}

inline LoweredGraph mlp_graph(std::int64_t batch) {
  TrainGraph g(batch);
  TrainGraph::Map x = g.image(1, 784);
  for (const int width : {512, 256}) x = g.relu(g.conv(x, width, 1));
  return g.finish(g.conv(x, 10, 1));
}

}  // namespace tr::test

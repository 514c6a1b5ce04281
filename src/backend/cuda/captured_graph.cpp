// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/captured_graph.h"

#include <algorithm>

#include "backend/cuda/check.h"

namespace tr::cuda {

GraphCapture::GraphCapture(cudaStream_t stream) : stream_(stream) {
  TR_CUDA(cudaGraphCreate(&graph_, 0));
}

GraphCapture::~GraphCapture() { cudaGraphDestroy(graph_); }

GraphCapture::Tail GraphCapture::add(const Tail& after, const std::function<void()>& body) {
  // Relaxed: a kernel's first use may load its module, which the stricter modes forbid.
  TR_CUDA(cudaStreamBeginCaptureToGraph(stream_, graph_, after.data(), nullptr, after.size(),
                                        cudaStreamCaptureModeRelaxed));
  cudaGraph_t captured = nullptr;
  try {
    body();
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* last = nullptr;
    std::size_t count = 0;
    TR_CUDA(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, nullptr, &count));
    Tail tail(last, last + count);
    TR_CUDA(cudaStreamEndCapture(stream_, &captured));
    return tail;
  } catch (...) {
    if (captured == nullptr) cudaStreamEndCapture(stream_, &captured);
    cudaGetLastError();
    throw;
  }
}

namespace {

void append(GraphCapture::Tail& to, const GraphCapture::Tail& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void make_unique(GraphCapture::Tail& tail) {
  std::sort(tail.begin(), tail.end());
  tail.erase(std::unique(tail.begin(), tail.end()), tail.end());
}

}  // namespace

std::vector<GraphCapture::Tail> GraphCapture::add(const LoweredGraph& graph,
                                                  const std::function<Tail(int)>& after,
                                                  const std::function<void(int)>& run) {
  std::vector<Tail> tails(graph.nodes.size());
  for (int i = 0; i < int(graph.nodes.size()); ++i) {
    Tail before = after(i);
    for (const int dep : graph.nodes[std::size_t(i)].deps) append(before, tails[std::size_t(dep)]);
    make_unique(before);
    tails[std::size_t(i)] = add(before, [&] { run(i); });
  }
  return tails;
}

GraphCapture::Tail GraphCapture::ends(const LoweredGraph& graph, const std::vector<Tail>& tails) {
  std::vector<bool> waited_for(graph.nodes.size(), false);
  for (const LoweredNode& node : graph.nodes) {
    for (const int dep : node.deps) waited_for[std::size_t(dep)] = true;
  }
  Tail last;
  for (std::size_t i = 0; i < tails.size(); ++i) {
    if (!waited_for[i]) append(last, tails[i]);
  }
  make_unique(last);
  return last;
}

std::size_t GraphCapture::num_nodes() const {
  std::size_t count = 0;
  TR_CUDA(cudaGraphGetNodes(graph_, nullptr, &count));
  return count;
}

cudaGraphExec_t GraphCapture::instantiate() const {
  cudaGraphExec_t exec = nullptr;
  TR_CUDA(cudaGraphInstantiate(&exec, graph_, 0));
  return exec;
}

}  // namespace tr::cuda

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

GraphCapture::Tail GraphCapture::add(const LoweredGraph& graph, const Tail& after,
                                     const std::function<void(int)>& run) {
  const int count = int(graph.nodes.size());
  std::vector<Tail> tails(graph.nodes.size());
  std::vector<bool> waited_for(graph.nodes.size(), false);
  for (int i = 0; i < count; ++i) {
    const LoweredNode& node = graph.nodes[std::size_t(i)];
    Tail before;
    for (const int dep : node.deps) {
      const Tail& tail = tails[std::size_t(dep)];
      before.insert(before.end(), tail.begin(), tail.end());
      waited_for[std::size_t(dep)] = true;
    }
    if (node.deps.empty()) before = after;
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    tails[std::size_t(i)] = add(before, [&] { run(i); });
  }
  Tail last;
  for (int i = 0; i < count; ++i) {
    if (waited_for[std::size_t(i)]) continue;
    const Tail& tail = tails[std::size_t(i)];
    last.insert(last.end(), tail.begin(), tail.end());
  }
  std::sort(last.begin(), last.end());
  last.erase(std::unique(last.begin(), last.end()), last.end());
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

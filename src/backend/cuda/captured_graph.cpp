// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/captured_graph.h"

#include <algorithm>

#include "backend/cuda/launch.h"

namespace tr::cuda {
namespace {

void append(GraphCapture::Tail& to, const GraphCapture::Tail& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void make_unique(GraphCapture::Tail& tail) {
  std::sort(tail.begin(), tail.end());
  tail.erase(std::unique(tail.begin(), tail.end()), tail.end());
}

void remove(GraphCapture::Tail& from, const GraphCapture::Tail& what) {
  std::erase_if(from, [&](cudaGraphNode_t node) {
    return std::find(what.begin(), what.end(), node) != what.end();
  });
}

}  // namespace

GraphCapture::GraphCapture(cudaStream_t stream)
    : stream_(stream), starts_early_(code_capability() >= 90) {
  TR_CUDA(cudaGraphCreate(&graph_, 0));
}

GraphCapture::~GraphCapture() { cudaGraphDestroy(graph_); }

GraphCapture::Tail GraphCapture::add(const Tail& after, const std::function<void()>& body,
                                     const Tail& started) {
  Tail before = after;
  append(before, started);
  std::vector<cudaGraphEdgeData> edges(before.size());
  for (std::size_t i = after.size(); starts_early_ && i < edges.size(); ++i) {
    edges[i].from_port = cudaGraphKernelNodePortProgrammatic;
    edges[i].type = cudaGraphDependencyTypeProgrammatic;
  }
  // Relaxed: a kernel's first use may load its module, which the stricter modes forbid.
  TR_CUDA(cudaStreamBeginCaptureToGraph(stream_, graph_, before.data(), edges.data(), before.size(),
                                        cudaStreamCaptureModeRelaxed));
  cudaGraph_t captured = nullptr;
  try {
    body();
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* last = nullptr;
    const cudaGraphEdgeData* kinds = nullptr;  // asked for, since the answer may hold some
    std::size_t count = 0;
    TR_CUDA(cudaStreamGetCaptureInfo(stream_, &status, nullptr, nullptr, &last, &kinds, &count));
    Tail tail(last, last + count);
    TR_CUDA(cudaStreamEndCapture(stream_, &captured));
    return tail;
  } catch (...) {
    if (captured == nullptr) cudaStreamEndCapture(stream_, &captured);
    cudaGetLastError();
    throw;
  }
}

std::vector<GraphCapture::Tail> GraphCapture::add(PreparedGraph& graph,
                                                  const std::function<Tail(int)>& after) {
  std::vector<Tail> tails(std::size_t(graph.num_nodes()));
  std::vector<bool> launched(tails.size(), false);  // a node without work hands its tail on
  for (int i = 0; i < graph.num_nodes(); ++i) {
    Tail ended = after(i), started;
    for (const int dep : graph.graph().nodes[std::size_t(i)].deps) {
      const bool early =
          graph.starts_early(i) && graph.starts_early(dep) && launched[std::size_t(dep)];
      append(early ? started : ended, tails[std::size_t(dep)]);
    }
    make_unique(ended);
    make_unique(started);
    remove(started, ended);
    const std::size_t before = num_nodes();
    tails[std::size_t(i)] = add(
        ended, [&] { graph.run(i, i + 1); }, started);
    launched[std::size_t(i)] = num_nodes() > before;
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

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#include "backend/prepared_graph.h"

namespace tr::cuda {

/// A CUDA graph under construction: pieces of work are captured one by one and joined by the edges
/// that their callers name, so that the graph's edges are the plan's and no stream adds one of its
/// own.
class GraphCapture {
 public:
  using Tail = std::vector<cudaGraphNode_t>;  // what has to end before a successor may start

  explicit GraphCapture(cudaStream_t stream);
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  /// Captures what `body` enqueues on the stream, after all of `after`. It may begin while the
  /// kernels of `started` still run (early_start.cuh). Returns its last nodes; work that enqueues
  /// nothing returns `after` and `started`.
  Tail add(const Tail& after, const std::function<void()>& body, const Tail& started = {});
  /// The whole of a prepared graph, node by node along its edges; node i also waits for after(i).
  /// Returns each node's tail.
  std::vector<Tail> add(PreparedGraph& graph, const std::function<Tail(int)>& after);
  /// Tails of the nodes that no other node of the graph waits for.
  static Tail ends(const LoweredGraph& graph, const std::vector<Tail>& tails);

  std::size_t num_nodes() const;
  /// @throws DeviceError  CUDA refuses the graph.
  cudaGraphExec_t instantiate() const;

 private:
  cudaStream_t stream_;
  bool starts_early_;  // kernels wait for predecessors that still run; else none begins before
  cudaGraph_t graph_ = nullptr;
};

}  // namespace tr::cuda

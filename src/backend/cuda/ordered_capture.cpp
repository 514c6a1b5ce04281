// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/ordered_capture.h"

#include "backend/cuda/captured_graph.h"
#include "backend/step_timing.h"

namespace tr::cuda {

GraphExec capture_in_order(cudaStream_t stream, PreparedGraph& step, const StepProbe& probe,
                           const StepFrame& frame) {
  GraphCapture graph(stream);
  graph.add({}, [&] {
    probe.begin();
    if (frame.feed) frame.feed();
    probe.behind(NodeSpan::kInputs);
    for (int node = 0; node < step.num_nodes(); ++node) {
      step.run(node, node + 1);
      probe.behind(node);
    }
    if (frame.finish) frame.finish();
  });
  return GraphExec(graph.instantiate());
}

}  // namespace tr::cuda

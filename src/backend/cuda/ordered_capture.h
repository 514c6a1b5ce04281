// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "backend/cuda/handles.h"
#include "backend/prepared_graph.h"

namespace tr::cuda {

/// What is enqueued between the nodes of a step that is captured for diagnosis.
struct StepProbe {
  std::function<void()> begin;           // before everything
  std::function<void(int node)> behind;  // behind a node; NodeSpan::kInputs: behind the feed
};

/// What surrounds the nodes of a step whose batch is assembled on the device; empty: nothing does.
struct StepFrame {
  std::function<void()> feed, finish;
};

/// Captures a step whose nodes run one after another, whatever the edges allow, with a probe behind
/// each.
GraphExec capture_in_order(cudaStream_t stream, PreparedGraph& step, const StepProbe& probe,
                           const StepFrame& frame = {});

}  // namespace tr::cuda

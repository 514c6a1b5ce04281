// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/kernel.h"
#include "graph/lowered_graph.h"
#include "graph/memory_plan.h"

namespace tr {

/// What every launch of a rank shares.
struct LaunchContext {
  DeviceKind device = DeviceKind::CPU;
  std::byte* arena = nullptr;
  ThreadPool* pool = nullptr;  // CPU
  void* stream = nullptr;      // of a device
  Communicator* communicator = nullptr;
};

/// One lowered graph ready to run: a table of addresses by tensor, and each node's kernel with its
/// arguments. Addresses are the device's; on one that works asynchronously a run only enqueues. The
/// graph must outlive it.
class PreparedGraph {
 public:
  /// @throws InternalError  a node names a kernel that does not exist, or a used tensor has no
  /// place.
  PreparedGraph(const LoweredGraph& graph, const MemoryPlan& plan, const LaunchContext& context);
  PreparedGraph(const PreparedGraph&) = delete;
  PreparedGraph& operator=(const PreparedGraph&) = delete;

  /// Runs nodes [first, last). @throws DeviceError  naming the node that failed.
  void run(int first, int last);
  void run_all() { run(0, int(launches_.size())); }
  /// Runs, of all nodes before and including the writer of `tensor`, those that it needs.
  void run_for(TensorId tensor);

  /// Points an input field, and every view of it, to another place.
  void bind_input(const std::string& field, const void* data);
  const void* address(TensorId tensor) const { return pointers_[std::size_t(tensor)]; }
  const LoweredGraph& graph() const { return graph_; }
  /// KernelDef::early_start of the node's kernel.
  bool starts_early(int node) const { return launches_[std::size_t(node)].kernel->early_start; }
  int num_nodes() const { return int(launches_.size()); }
  /// "012 fc_dx 2": the key of a node in profiles.
  std::string label_of(int node) const;
  /// Node in a sentence: "node 012, layer "2" (fc_dx), built at ..."; -1 is the step's batch, the
  /// number behind the last node what follows them.
  std::string words_for(int node) const;

  void set_profiling(bool on) { profiling_ = on; }
  /// Seconds by node ("012 fc_dx 2") since the last call.
  std::map<std::string, double> take_node_seconds();

 private:
  struct Launch {
    const KernelDef* kernel = nullptr;
    std::unique_ptr<PreparedKernel> prepared;
    KernelArgs args;
    double seconds = 0;
  };
  struct BoundView {
    TensorId tensor;
    std::int64_t offset;
  };

  void place_tensors(const MemoryPlan& plan, std::byte* arena);
  Launch make_launch(const LoweredNode& node, const LaunchContext& context) const;
  void find_settled_inputs(const MemoryPlan& plan);
  std::int32_t slot_of(const LoweredNode& node, TensorId tensor) const;
  void run_node(std::size_t index);
  static void run_kernel(const Launch& launch);

  const LoweredGraph& graph_;
  std::vector<void*> pointers_;  // by tensor
  std::map<std::string, std::vector<BoundView>, std::less<>> fields_;
  std::vector<Launch> launches_;  // by node
  bool profiling_ = false;
};

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "backend/prepared_graph.h"

#include <algorithm>

#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"

namespace tr {
namespace {

const KernelDef& kernel_named(std::string_view name, const LoweredNode& node, DeviceKind device) {
  for (const KernelDef* kernel : kernels_of(node.op, device)) {
    if (kernel->name == name) return *kernel;
  }
  throw_as<InternalError>("{}: {} was lowered to kernel '{}', which does not exist", node.layer,
                          node.op, name);
}

std::string described(const LoweredNode& node) {
  std::string text = node.layer.empty() ? node.op : fmt::format("{} ({})", node.layer, node.op);
  if (!node.where.empty()) text += fmt::format(", built at {}", node.where);
  return text;
}

}  // namespace

PreparedGraph::PreparedGraph(const LoweredGraph& graph, const MemoryPlan& plan,
                             const LaunchContext& context)
    : graph_(graph) {
  place_tensors(plan, context.arena);
  launches_.reserve(graph.nodes.size());
  for (const LoweredNode& node : graph.nodes) launches_.push_back(make_launch(node, context));
  find_settled_inputs(plan);
  // Set last: the addresses of the vectors are final now.
  for (Launch& launch : launches_) launch.args.pointers_ = pointers_.data();
}

void PreparedGraph::place_tensors(const MemoryPlan& plan, std::byte* arena) {
  TR_ASSERT(plan.offsets.size() == graph_.tensors.size());
  pointers_.resize(graph_.tensors.size(), nullptr);
  for (std::size_t id = 0; id < graph_.tensors.size(); ++id) {
    if (plan.offsets[id] >= 0) pointers_[id] = arena + plan.offsets[id];
    const LoweredTensor& tensor = graph_.tensors[id];
    const TensorId owner = tensor.view_of == kNoTensor ? TensorId(id) : tensor.view_of;
    const LoweredTensor& whole = graph_.tensor(owner);
    if (whole.role == Role::INPUT)
      fields_[whole.name].push_back({TensorId(id), tensor.view_offset});
  }
}

std::int32_t PreparedGraph::slot_of(const LoweredNode& node, TensorId tensor) const {
  if (tensor == kNoTensor) return -1;
  if (pointers_.at(std::size_t(tensor)) == nullptr && graph_.tensor(tensor).bytes > 0) {
    throw_as<InternalError>("{}: tensor '{}' has no place in memory", described(node),
                            graph_.tensor(tensor).name);
  }
  return tensor;
}

PreparedGraph::Launch PreparedGraph::make_launch(const LoweredNode& node,
                                                 const LaunchContext& context) const {
  Launch launch;
  const EngineText engine(node.kernel);
  launch.kernel = &kernel_named(engine.kernel, node, context.device);
  KernelArgs& args = launch.args;
  args.attrs_ = &node.attrs;
  const auto add = [&](TensorId id, std::vector<TensorType>& types,
                       std::vector<std::int32_t>& slots) {
    types.push_back(id == kNoTensor ? TensorType{} : graph_.tensor(id).type);
    slots.push_back(slot_of(node, id));
  };
  for (const TensorId id : node.inputs) add(id, args.in_types_, args.in_slots_);
  for (const TensorId id : node.outputs) add(id, args.out_types_, args.out_slots_);
  args.workspace_slot_ = slot_of(node, node.workspace);
  if (node.workspace != kNoTensor) args.workspace_bytes_ = graph_.tensor(node.workspace).bytes;
  args.pool_ = context.pool;
  args.stream_ = context.stream;
  args.communicator_ = context.communicator;
  if (launch.kernel->prepare) {
    const KernelQuery query{node.attrs, args.in_types_, args.out_types_, engine.config};
    const int threads = context.pool != nullptr ? context.pool->num_threads() : 1;
    launch.prepared = launch.kernel->prepare(query, threads);
  }
  return launch;
}

void PreparedGraph::find_settled_inputs(const MemoryPlan& plan) {
  std::vector<std::pair<std::int64_t, std::int64_t>>
      written;  // bytes of the arena, by nodes so far
  const auto bytes_of_tensor = [&](TensorId id) {
    const std::int64_t begin = plan.offsets[std::size_t(id)];
    return std::pair(begin, begin + graph_.tensor(id).bytes);
  };
  const auto settled = [&](TensorId id) {
    if (id == kNoTensor || !is_persistent(graph_.tensor(id).role)) return false;
    const auto [begin, end] = bytes_of_tensor(id);
    return std::none_of(written.begin(), written.end(), [begin = begin, end = end](const auto& w) {
      return w.first < end && begin < w.second;
    });
  };
  for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
    const LoweredNode& node = graph_.nodes[i];
    for (const TensorId id : node.inputs) launches_[i].args.settled_.push_back(settled(id));
    for (const TensorId id : node.outputs) {
      if (id != kNoTensor) written.push_back(bytes_of_tensor(id));
    }
    for (const int state : node.state_writes) {
      written.push_back(bytes_of_tensor(node.inputs[std::size_t(state)]));
    }
  }
}

void PreparedGraph::run_kernel(const Launch& launch) {
  if (launch.prepared) {
    launch.prepared->run(launch.args);
  } else {
    launch.kernel->launch(launch.args);
  }
}

void PreparedGraph::run_node(std::size_t index) {
  Launch& launch = launches_[index];
  if (!profiling_) {
    run_kernel(launch);
    return;
  }
  const Stopwatch watch;
  run_kernel(launch);
  launch.seconds += watch.seconds();
}

void PreparedGraph::run(int first, int last) {
  int node = first;
  try {
    for (; node < last; ++node) run_node(std::size_t(node));
  } catch (const std::exception& error) {
    throw_as<DeviceError>("{} failed: {}", described(graph_.nodes[std::size_t(node)]),
                          error.what());
  }
}

void PreparedGraph::run_for(TensorId tensor) {
  std::vector<bool> wanted(graph_.tensors.size(), false);
  const auto want = [&](TensorId id) {
    if (id == kNoTensor) return;
    const TensorId owner = graph_.tensor(id).view_of;
    wanted[std::size_t(owner == kNoTensor ? id : owner)] = true;
  };
  want(tensor);
  std::vector<int> needed;
  for (int i = int(graph_.nodes.size()) - 1; i >= 0; --i) {
    const LoweredNode& node = graph_.nodes[std::size_t(i)];
    const bool writes = std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId id) {
      return id != kNoTensor && wanted[std::size_t(id)];
    });
    if (!writes) continue;
    needed.push_back(i);
    // Persistent inputs hold what the last run left; only transient ones are made again.
    for (const TensorId id : node.inputs) {
      if (id != kNoTensor && !is_persistent(graph_.tensor(id).role)) want(id);
    }
  }
  for (auto node = needed.rbegin(); node != needed.rend(); ++node) run(*node, *node + 1);
}

void PreparedGraph::bind_input(const std::string& field, const void* data) {
  const auto found = fields_.find(field);
  if (found == fields_.end()) return;
  for (const BoundView& view : found->second) {
    pointers_[std::size_t(view.tensor)] =
        const_cast<std::byte*>(static_cast<const std::byte*>(data)) + view.offset;
  }
}

std::string PreparedGraph::label_of(int index) const {
  const LoweredNode& node = graph_.nodes.at(std::size_t(index));
  return fmt::format("{:03} {} {}", index, node.op, node.layer);
}

std::string PreparedGraph::words_for(int index) const {
  if (index < 0) return "where its batch is assembled";
  if (index >= num_nodes()) return "behind its last node";
  const LoweredNode& node = graph_.nodes[std::size_t(index)];
  std::string text = fmt::format("node {:03}, ", index);
  text += node.layer.empty() ? node.op : fmt::format("layer \"{}\" ({})", node.layer, node.op);
  if (!node.where.empty()) text += fmt::format(", built at {}", node.where);
  return text;
}

std::map<std::string, double> PreparedGraph::take_node_seconds() {
  std::map<std::string, double> seconds;
  for (int i = 0; i < num_nodes(); ++i) {
    seconds[label_of(i)] = std::exchange(launches_[std::size_t(i)].seconds, 0.0);
  }
  return seconds;
}

}  // namespace tr

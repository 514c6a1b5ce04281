// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/format.h"
#include "graph/compiler.h"
#include "graph/param_layout.h"
#include "graph/recompute.h"

namespace tr {
namespace {

constexpr std::int64_t align(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

bool is_buffer_role(Role role) { return role == Role::BUFFER || role == Role::BUFFER_NEXT; }

bool has_param_range(Role role) { return role >= Role::WEIGHT && role <= Role::EMA; }

/// Lies in the range of its role, at its parameter's element offset or as (a bucket of) the range
/// itself.
bool lies_in_range(const LoweredTensor& t) {
  return t.range_role >= 0 || (has_param_range(t.role) && t.param >= 0);
}

Role range_role_of(const LoweredTensor& t) {
  return t.range_role >= 0 ? Role(t.range_role) : t.role;
}

/// Gives every persistent tensor of all variants its place.
class PersistentLayout {
 public:
  PersistentLayout(std::span<const LoweredGraph> graphs, const ParamLayout& params,
                   const std::map<std::string, std::int64_t>& slot_bytes, ArenaPlan& plan)
      : params_(params), slot_bytes_(slot_bytes), plan_(plan) {
    range_offset_.fill(-1);
    for (const LoweredGraph& graph : graphs) {
      for (const LoweredTensor& t : graph.tensors) collect(t);
    }
    if (params.range_elements > 0) range_dtype_[Role::WEIGHT] = DType::FP32;
    if (params.buffer_elements > 0) range_dtype_[Role::BUFFER] = DType::FP32;
    place_inputs();
    for (int r = int(Role::WEIGHT); is_persistent(Role(r)); ++r) place_role(Role(r));
    plan_.persistent_bytes = end_;
  }

  /// -1 for what is not a persistent owner.
  std::int64_t offset(const LoweredTensor& t) const {
    if (!is_persistent(t.role) || t.view_of != kNoTensor) return -1;
    return lies_in_range(t) ? offset_in_range(t) : place_of_.at(t.name);
  }

 private:
  struct Loose {
    std::string name;
    DType dtype;
  };

  void collect(const LoweredTensor& t) {
    if (!is_persistent(t.role) || t.view_of != kNoTensor) return;
    if (lies_in_range(t)) {
      const auto [known, first] = range_dtype_.emplace(range_role_of(t), t.type.dtype);
      if (!first && known->second != t.type.dtype) {
        throw_as<InternalError>("create_memory_plans: \"{}\" is {}, the range of {} is {}", t.name,
                                t.type, name_of(range_role_of(t)), known->second);
      }
      return;
    }
    const auto [known, first] = loose_type_.emplace(t.name, std::pair(t.role, t.type.dtype));
    if (first) {
      loose_[t.role].push_back({t.name, t.type.dtype});
    } else if (known->second != std::pair(t.role, t.type.dtype)) {
      throw_as<InternalError>(
          "create_memory_plans: \"{}\" is {} {} in one variant, {} {} in another", t.name,
          name_of(t.role), t.type.dtype, name_of(known->second.first), known->second.second);
    }
  }

  void add_region(Role role, DType dtype, int bucket, std::int64_t bytes) {
    plan_.regions.push_back({role, dtype, bucket, end_, align(bytes)});
    end_ += align(bytes);
  }

  /// One region a dtype, in order of dtype; tensors in order of first appearance.
  void place_loose(Role role, int bucket) {
    std::map<DType, std::vector<std::string>> by_dtype;
    for (const Loose& t : loose_[role]) by_dtype[t.dtype].push_back(t.name);
    for (const auto& [dtype, names] : by_dtype) {
      std::int64_t bytes = 0;
      for (const std::string& name : names) {
        const auto slot = slot_bytes_.find(name);
        if (slot == slot_bytes_.end()) {
          throw_as<InternalError>("create_memory_plans: no slot size is known for \"{}\"", name);
        }
        place_of_.emplace(name, end_ + bytes);
        bytes += align(slot->second);
      }
      add_region(role, dtype, bucket, bytes);
    }
  }

  void place_inputs() {
    place_loose(Role::INPUT, 0);
    plan_.input_zone_bytes = end_;
    // Zone B repeats zone A; its places follow from input_zone_bytes.
    const std::vector<Region> zone_a = plan_.regions;
    for (const Region& r : zone_a) add_region(r.role, r.dtype, 1, r.bytes);
  }

  void place_role(Role role) {
    const auto range = range_dtype_.find(role);
    int num_buckets = 0;
    if (range != range_dtype_.end()) {
      range_offset_[std::size_t(role)] = end_;
      for (const auto& [begin, last] : buckets_of(role)) {
        add_region(role, range->second, num_buckets++,
                   (last - begin) * std::int64_t(size_of(range->second)));
      }
    }
    place_loose(role, num_buckets);
  }

  std::vector<std::pair<std::int64_t, std::int64_t>> buckets_of(Role role) const {
    if (is_buffer_role(role)) return {{0, params_.buffer_elements}};
    return params_.buckets;
  }

  std::int64_t offset_in_range(const LoweredTensor& t) const {
    const Role role = range_role_of(t);
    const auto element_bytes = std::int64_t(size_of(t.type.dtype));
    std::int64_t begin = 0;
    std::int64_t end = is_buffer_role(role) ? params_.buffer_elements : params_.range_elements;
    if (t.range_role >= 0 && t.bucket >= 0) {
      std::tie(begin, end) = buckets_of(role).at(std::size_t(t.bucket));
    } else if (t.range_role < 0) {
      begin = (is_buffer_role(role) ? params_.buffer_offset : params_.element_offset)
                  .at(std::size_t(t.param));
    }
    if (begin < 0 || begin * element_bytes + t.bytes > end * element_bytes) {
      throw_as<InternalError>(
          "create_memory_plans: \"{}\" takes {} bytes from element {}, the range of {} ends at "
          "element {}",
          t.name, t.bytes, begin, name_of(role), end);
    }
    return range_offset_.at(std::size_t(role)) + begin * element_bytes;
  }

  const ParamLayout& params_;
  const std::map<std::string, std::int64_t>& slot_bytes_;
  ArenaPlan& plan_;
  std::int64_t end_ = 0;
  std::map<Role, DType> range_dtype_;
  std::array<std::int64_t, kNumRoles> range_offset_{};
  std::map<Role, std::vector<Loose>> loose_;  // outside ranges, in order of appearance
  std::map<std::string, std::pair<Role, DType>> loose_type_;
  std::map<std::string, std::int64_t> place_of_;
};

void add_persistent_offsets(const LoweredGraph& graph, const PersistentLayout& layout,
                            MemoryPlan& plan) {
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    const std::int64_t offset = layout.offset(graph.tensors[id]);
    if (offset >= 0) plan.offsets[id] = offset;
  }
  for (std::size_t id = 0; id < graph.tensors.size(); ++id) {
    const LoweredTensor& t = graph.tensors[id];
    if (t.view_of == kNoTensor || !is_persistent(t.role)) continue;
    plan.offsets[id] = plan.offsets[std::size_t(t.view_of)] + t.view_offset;
  }
}

/// A parameter that the loss does not reach has no gradient in any graph: no optimizer touches it, as
/// PyTorch's skip parameters whose grad is None.
void freeze_unreached(std::span<const LoweredGraph> graphs, std::vector<Segment>& segments) {
  std::set<int> reached;
  bool trains = false;
  for (const LoweredGraph& graph : graphs) {
    for (const LoweredTensor& tensor : graph.tensors) {
      if (tensor.role != Role::GRADIENT) continue;
      trains = true;
      if (tensor.range_role < 0) reached.insert(tensor.param);
    }
  }
  if (!trains) return;
  for (Segment& segment : segments) {
    if (!reached.contains(segment.param)) segment.frozen = 1;
  }
}

MemoryPlan plan_variant(LoweredGraph& graph, std::int64_t base, const PlanOptions& options) {
  if (options.recompute_bytes == 0) return plan_transients(graph, base, options);
  const std::int64_t goal = std::min(options.recompute_bytes, options.budget_bytes);
  RecomputedPlan planned = plan_with_recomputation(graph, base, goal, options);
  graph = std::move(planned.graph);
  return std::move(planned.plan);
}

}  // namespace

std::int64_t ArenaPlan::role_offset(Role role) const {
  const auto found = std::find_if(regions.begin(), regions.end(),
                                  [&](const Region& r) { return r.role == role && r.bucket == 0; });
  return found == regions.end() ? -1 : found->offset;
}

ArenaPlan create_memory_plans(std::span<LoweredGraph> graphs, const ArchPlan& plan,
                              const GraphOptions& graph_options,
                              const std::map<std::string, std::int64_t>& slot_bytes,
                              const PlanOptions& options) {
  const ParamLayout params = layout_params(plan, graph_options);
  ArenaPlan arena;
  arena.segments = params.segments;
  freeze_unreached(graphs, arena.segments);
  arena.param_element_offset = params.element_offset;
  arena.range_elements = params.range_elements;
  arena.buffer_element_offset = params.buffer_offset;
  arena.buffer_elements = params.buffer_elements;
  const PersistentLayout layout(graphs, params, slot_bytes, arena);

  const std::vector<int> first_equal = share_or_clone(graphs);
  for (std::size_t v = 0; v < graphs.size(); ++v) {
    const auto same = std::size_t(first_equal[v]);
    if (same != v) {
      graphs[v] = graphs[same];  // with the edges that its plan added
      arena.variants.push_back(arena.variants[same]);
      continue;
    }
    MemoryPlan transients = plan_variant(graphs[v], arena.persistent_bytes, options);
    add_persistent_offsets(graphs[v], layout, transients);
    arena.transient_bytes = std::max(arena.transient_bytes, transients.transient_bytes);
    arena.variants.push_back(std::move(transients));
  }
  arena.regions.push_back(
      {Role::FEATURE, DType::UINT8, 0, arena.persistent_bytes, arena.transient_bytes});
  return arena;
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

#include "graph/compiler.h"
#include "graph/param_layout.h"
#include "graph/plan_report.h"
#include "renaissance/core/error.h"

namespace tr {
namespace {

Param param(const std::string& name, Shape shape, int layer, ParamKind kind) {
  Param p;
  p.name = name;
  p.spec.name = name.substr(name.rfind('.') + 1);
  p.spec.type = {shape, DType::FP32};
  p.spec.kind = kind;
  p.layer = layer;
  return p;
}

/// conv, bn, conv, fc: every kind of parameter.
ArchPlan small_arch() {
  ArchPlan arch;
  const char* ops[] = {"conv", "bn", "conv", "fc"};
  for (int i = 0; i < 4; ++i) {
    ArchLayer layer;
    layer.name = std::to_string(i);
    layer.op = ops[i];
    arch.layers.push_back(layer);
  }
  arch.params = {param("0.weight", {16, 3, 3, 4}, 0, ParamKind::WEIGHT),
                 param("1.weight", {16}, 1, ParamKind::NORM_WEIGHT),
                 param("1.bias", {16}, 1, ParamKind::NORM_BIAS),
                 param("1.running_mean", {16}, 1, ParamKind::BUFFER),
                 param("1.running_var", {16}, 1, ParamKind::BUFFER),
                 param("2.weight", {32, 3, 3, 16}, 2, ParamKind::WEIGHT),
                 param("3.weight", {10, 32}, 3, ParamKind::WEIGHT),
                 param("3.bias", {10}, 3, ParamKind::BIAS)};
  for (int p = 0; p < int(arch.params.size()); ++p) {
    arch.layers[std::size_t(arch.params[std::size_t(p)].layer)].params.push_back(p);
  }
  return arch;
}

/// A training or evaluation step of that model by hand: reads and writes what a real one does.
class StepGraph {
 public:
  StepGraph(const ArchPlan& arch, const ParamLayout& layout, std::int64_t batch)
      : arch_(arch), layout_(layout) {
    image_ = add("image", Role::INPUT, {Shape{batch, 8, 8, 4}, DType::FP16});
    label_ = add("label", Role::INPUT, {Shape{batch}, DType::INT32});
    feature_ = {Shape{batch, 8, 8, 16}, DType::FP16};
  }

  LoweredGraph train() {
    const TensorId y = forward();
    const TensorId dy = add("dy", Role::FEATURE_GRAD, feature_);
    node("loss", {y, label_}, {dy, add("loss_sum", Role::FEATURE, {Shape{}, DType::FP32})});
    for (const int p : {7, 6, 5, 2, 1, 0}) {
      node("dweight", {dy, y}, {add_param("d", Role::GRADIENT, p, DType::FP32)});
    }
    node("sgd",
         {add_range("weights", Role::WEIGHT, DType::FP32),
          add_range("gradients", Role::GRADIENT, DType::FP32),
          add_range("moments", Role::MOMENT1, DType::FP32),
          add_range("casts", Role::WEIGHT_CAST, DType::FP16),
          add("segments", Role::TABLE, {Shape{6 * std::int64_t(sizeof(Segment))}, DType::UINT8})},
         {})
        .state_writes = {0, 2, 3};
    node("commit",
         {add_range("buffers", Role::BUFFER, DType::FP32),
          add_range("next", Role::BUFFER_NEXT, DType::FP32)},
         {})
        .state_writes = {0};
    node("record", {add("results", Role::RESULT, {Shape{8, 8}, DType::FP32}), counters()}, {})
        .state_writes = {0};
    derive_dependencies(graph_);
    return std::move(graph_);
  }

  LoweredGraph eval() {
    node("record",
         {add("eval_results", Role::RESULT, {Shape{4, 8}, DType::FP32}), forward(), counters()}, {})
        .state_writes = {0};
    derive_dependencies(graph_);
    return std::move(graph_);
  }

 private:
  TensorId forward() {
    const TensorId y0 = add("0.y", Role::FEATURE, feature_),
                   y1 = add("1.y", Role::FEATURE, feature_);
    node("conv", {image_, add_param("", Role::WEIGHT_CAST, 0, DType::FP16)}, {y0}).workspace =
        add("workspace", Role::WORKSPACE, {Shape{4096}, DType::UINT8});
    node("bn",
         {y0, add_param("", Role::WEIGHT, 1, DType::FP32),
          add_param("", Role::BUFFER, 3, DType::FP32)},
         {y1, add("1.mask", Role::FEATURE, {Shape{100}, DType::UINT8}),
          add_param("next ", Role::BUFFER_NEXT, 3, DType::FP32)});
    return y1;
  }
  TensorId counters() { return add("counters", Role::SCALAR, {Shape{8}, DType::INT64}); }

  TensorId add(const std::string& name, Role role, TensorType type) {
    LoweredTensor t;
    t.name = name;
    t.role = role;
    t.type = type;
    t.bytes = bytes_of(type);
    graph_.tensors.push_back(t);
    return TensorId(graph_.tensors.size() - 1);
  }
  TensorId add_param(const std::string& prefix, Role role, int p, DType dtype) {
    const Param& of = arch_.params[std::size_t(p)];
    const TensorId id =
        add(prefix + of.name + std::string(name_of(role)), role, {of.spec.type.shape, dtype});
    graph_.tensors.back().param = p;
    return id;
  }
  TensorId add_range(const std::string& name, Role role, DType dtype) {
    const bool buffers = role == Role::BUFFER || role == Role::BUFFER_NEXT;
    const TensorId id =
        add(name, role, {Shape{buffers ? layout_.buffer_elements : layout_.range_elements}, dtype});
    graph_.tensors.back().range_role = int(role);
    return id;
  }
  LoweredNode& node(const std::string& op, std::vector<TensorId> inputs,
                    std::vector<TensorId> outputs) {
    LoweredNode n;
    n.op = op;
    n.layer = std::to_string(graph_.nodes.size());
    n.inputs = std::move(inputs);
    n.outputs = std::move(outputs);
    graph_.nodes.push_back(std::move(n));
    return graph_.nodes.back();
  }

  const ArchPlan& arch_;
  const ParamLayout& layout_;
  LoweredGraph graph_;
  TensorId image_, label_;
  TensorType feature_;
};

class CreateMemoryPlans : public testing::Test {
 protected:
  CreateMemoryPlans() : arch(small_arch()) {
    options.world_size = 2;
    options.bucket_bytes = 8192;
    layout = layout_params(arch, options);
    graphs = {StepGraph(arch, layout, 32).train(), StepGraph(arch, layout, 7).train(),
              StepGraph(arch, layout, 64).eval(), StepGraph(arch, layout, 32).train()};
    for (const LoweredGraph& graph : graphs) verify(graph, "test");
    plan = create_memory_plans(graphs, arch, options, compute_max_slot_bytes(graphs), {});
  }

  std::int64_t offset(std::size_t variant, const std::string& name) const {
    for (std::size_t id = 0; id < graphs[variant].tensors.size(); ++id) {
      if (graphs[variant].tensors[id].name == name) return plan.variants[variant].offsets[id];
    }
    return -2;
  }

  ArchPlan arch;
  GraphOptions options;
  ParamLayout layout;
  std::vector<LoweredGraph> graphs;
  ArenaPlan plan;
};

TEST_F(CreateMemoryPlans, RegionsLieSideBySideAndFillTheArena) {
  std::int64_t end = 0;
  for (const Region& r : plan.regions) {
    EXPECT_EQ(r.offset, end);
    EXPECT_EQ(r.offset % kAlignment, 0);
    end = r.offset + r.bytes;
  }
  EXPECT_EQ(end, plan.peak_bytes());
  EXPECT_EQ(plan.regions.back().offset, plan.persistent_bytes);
  EXPECT_EQ(plan.regions.back().bytes, plan.transient_bytes);
}

TEST_F(CreateMemoryPlans, EveryTensorHasAPlaceInsideARegionOfItsRole) {
  for (std::size_t v = 0; v < graphs.size(); ++v) {
    for (std::size_t id = 0; id < graphs[v].tensors.size(); ++id) {
      const LoweredTensor& t = graphs[v].tensors[id];
      const std::int64_t at = plan.variants[v].offsets[id];
      ASSERT_GE(at, 0) << t.name;
      if (!is_persistent(t.role)) continue;
      EXPECT_LE(at + t.bytes, plan.persistent_bytes) << t.name;
      EXPECT_TRUE(std::any_of(plan.regions.begin(), plan.regions.end(), [&](const Region& r) {
        return r.role == t.role && r.dtype == t.type.dtype && r.offset <= at &&
               at < r.offset + r.bytes;
      })) << t.name;
    }
  }
}

TEST_F(CreateMemoryPlans, PersistentPlacesAreEqualInAllVariants) {
  std::map<std::string, std::int64_t> known;
  for (std::size_t v = 0; v < graphs.size(); ++v) {
    for (std::size_t id = 0; id < graphs[v].tensors.size(); ++id) {
      const LoweredTensor& t = graphs[v].tensors[id];
      if (!is_persistent(t.role)) continue;
      const auto [former, first] = known.emplace(t.name, plan.variants[v].offsets[id]);
      EXPECT_EQ(former->second, plan.variants[v].offsets[id]) << t.name;
    }
  }
  EXPECT_GT(known.size(), 10u);
}

TEST_F(CreateMemoryPlans, ParametersHaveOneElementOffsetInEveryRole) {
  const std::int64_t weights = plan.role_offset(Role::WEIGHT),
                     casts = plan.role_offset(Role::WEIGHT_CAST);
  EXPECT_EQ(offset(0, "weights"), weights);
  EXPECT_EQ(offset(0, "0.weightweight_cast") - casts, 2 * layout.element_offset[0]);
  EXPECT_EQ(offset(0, "d0.weightgradient") - offset(0, "gradients"), 4 * layout.element_offset[0]);
  EXPECT_EQ(offset(0, "1.weightweight") - weights, 4 * layout.element_offset[1]);
  EXPECT_EQ(offset(0, "1.running_meanbuffer"), offset(0, "buffers"));
  EXPECT_EQ(plan.param_element_offset, layout.element_offset);
  EXPECT_EQ(plan.buffer_element_offset, layout.buffer_offset);
  EXPECT_EQ(plan.range_elements, layout.range_elements);
  EXPECT_EQ(plan.role_offset(Role::EMA), -1);
}

TEST_F(CreateMemoryPlans, ParameterRolesHaveOneRegionABucket) {
  ASSERT_GT(layout.buckets.size(), 1u);
  for (const Role role : {Role::WEIGHT, Role::GRADIENT, Role::MOMENT1, Role::WEIGHT_CAST}) {
    std::int64_t bytes = 0;
    std::size_t buckets = 0;
    for (const Region& r : plan.regions) {
      if (r.role != role) continue;
      EXPECT_EQ(std::size_t(r.bucket), buckets++);
      bytes += r.bytes;
    }
    EXPECT_EQ(buckets, layout.buckets.size());
    EXPECT_EQ(bytes, layout.range_elements * (role == Role::WEIGHT_CAST ? 2 : 4));
  }
}

TEST_F(CreateMemoryPlans, InputsHaveTwoZonesSizedForTheLargestVariant) {
  std::int64_t zone_a = 0, zone_b = 0;
  for (const Region& r : plan.regions) {
    if (r.role == Role::INPUT) (r.bucket == 0 ? zone_a : zone_b) += r.bytes;
  }
  EXPECT_EQ(zone_a, zone_b);
  EXPECT_EQ(zone_a, plan.input_zone_bytes);
  EXPECT_EQ(zone_a, 64 * 8 * 8 * 4 * 2 + 256);
  EXPECT_LT(offset(2, "image"), plan.input_zone_bytes);
}

TEST_F(CreateMemoryPlans, PersistentTensorsDoNotOverlap) {
  std::vector<std::pair<std::int64_t, std::int64_t>> taken;
  for (std::size_t id = 0; id < graphs[0].tensors.size(); ++id) {
    const LoweredTensor& t = graphs[0].tensors[id];
    if (!is_persistent(t.role) || t.range_role >= 0) continue;
    taken.emplace_back(plan.variants[0].offsets[id], plan.variants[0].offsets[id] + t.bytes);
  }
  std::sort(taken.begin(), taken.end());
  for (std::size_t i = 1; i < taken.size(); ++i) EXPECT_LE(taken[i - 1].second, taken[i].first);
}

TEST_F(CreateMemoryPlans, EqualGraphsArePlannedOnce) {
  EXPECT_EQ(share_or_clone(graphs), (std::vector<int>{0, 1, 2, 0}));
  EXPECT_EQ(plan.variants[3].offsets, plan.variants[0].offsets);
  std::vector<LoweredGraph> changed = graphs;
  changed[3].nodes[0].attrs.set("kernel", std::int64_t{3});
  EXPECT_EQ(share_or_clone(changed)[3], 3);
  changed = graphs;
  changed[3].nodes[1].in_place = {{0, 0}};
  EXPECT_EQ(share_or_clone(changed)[3], 3);
}

TEST_F(CreateMemoryPlans, TransientRangeIsTheLargestVariants) {
  std::int64_t most = 0;
  for (const MemoryPlan& variant : plan.variants) most = std::max(most, variant.transient_bytes);
  EXPECT_EQ(plan.transient_bytes, most);
  EXPECT_GT(most, plan.variants[1].transient_bytes);
}

TEST_F(CreateMemoryPlans, RefusesANameWithTwoRolesAndARangeTooLarge) {
  std::vector<LoweredGraph> bad = graphs;
  for (LoweredTensor& t : bad[2].tensors) {
    if (t.name == "counters") t.role = Role::TABLE;
  }
  EXPECT_THROW(create_memory_plans(bad, arch, options, compute_max_slot_bytes(bad), {}),
               InternalError);
  bad = graphs;
  for (LoweredTensor& t : bad[0].tensors) {
    if (t.name == "gradients") t.bytes += 4;
  }
  EXPECT_THROW(create_memory_plans(bad, arch, options, compute_max_slot_bytes(bad), {}),
               InternalError);
}

TEST_F(CreateMemoryPlans, BudgetCountsPersistentBytesToo) {
  std::vector<LoweredGraph> again = graphs;
  EXPECT_NO_THROW(create_memory_plans(again, arch, options, compute_max_slot_bytes(again),
                                      {.budget_bytes = plan.peak_bytes()}));
  EXPECT_THROW(create_memory_plans(again, arch, options, compute_max_slot_bytes(again),
                                   {.budget_bytes = plan.peak_bytes() - 1}),
               OutOfMemory);
}

TEST_F(CreateMemoryPlans, ArticleNamesCountEveryByteOnce) {
  const std::vector<NamedRegion> names = article_regions(graphs[0], arch, plan, 0);
  ASSERT_EQ(names.size(), 69u);
  std::map<std::string, std::int64_t> bytes;
  std::int64_t sum = 0;
  for (const NamedRegion& r : names) {
    EXPECT_TRUE(bytes.emplace(r.name, r.bytes).second) << r.name << " appears twice";
    EXPECT_GE(r.bytes, 0) << r.name;
    sum += r.bytes;
  }
  EXPECT_EQ(sum, plan.peak_bytes());
  EXPECT_EQ(names.front().name, "B_PREV_MEAN");
  EXPECT_EQ(names.back().name, "UNNAMED");
  const std::map<std::string, std::int64_t> expected{{"B_PREV_MEAN", 64},
                                                     {"B_PREV_VAR", 64},
                                                     {"B_NEXT_MEAN", 64},
                                                     {"W_FIRST_CONV", 16 * 36 * 4},
                                                     {"W_DEEP_CONV", 32 * 144 * 4},
                                                     {"W_FC_WEIGHT", 1280},
                                                     {"W_FC_BIAS", 40},
                                                     {"W_BN_WEIGHT", 64},
                                                     {"W_BN_BIAS", 64},
                                                     {"A_DEEP_CONV", 32 * 144 * 2},
                                                     {"G_FC_WEIGHT", 1280},
                                                     {"M_FIRST_CONV", 16 * 36 * 4},
                                                     {"V_FC_WEIGHT", 0},
                                                     {"E_FC_WEIGHT", 0},
                                                     {"N_FC_WEIGHT", 0},
                                                     {"I_A_LABEL", 32 * 4},
                                                     {"I_B_DATA", 32 * 256 * 2},
                                                     {"W_EQ_BIAS", 0}};
  for (const auto& [name, count] : expected) EXPECT_EQ(bytes.at(name), count) << name;
  EXPECT_GT(bytes.at("F_FEATURE_FP16"), 0);
  EXPECT_GT(bytes.at("R_RESULT"), 0);
  EXPECT_GT(bytes.at("S_SCALAR_INT32"), 0);
}

TEST_F(CreateMemoryPlans, ReportIsCompleteInTextAndJson) {
  const PlanReport report = report_plan(graphs, arch, plan);
  EXPECT_EQ(report.peak_bytes, plan.peak_bytes());
  EXPECT_GE(report.transient_bytes, report.lower_bound_bytes);
  EXPECT_GE(report.ratio(), 1.0);
  const auto json = nlohmann::json::parse(report.json());
  for (const char* key :
       {"peak_bytes", "persistent_bytes", "transient_bytes", "lower_bound_bytes"}) {
    EXPECT_TRUE(json.at(key).is_number_integer()) << key;
  }
  EXPECT_EQ(json.at("regions").size(), plan.regions.size());
  EXPECT_EQ(json.at("regions").at(0).at("role"), "input");
  EXPECT_EQ(json.at("largest").size(), report.largest.size());
  EXPECT_GT(report.largest.size(), 1u);
  std::int64_t named = 0;
  for (const auto& r : json.at("article_regions")) named += r.at("bytes").get<std::int64_t>();
  EXPECT_EQ(named, plan.peak_bytes());
  const std::string text = report.text();
  for (const char* word :
       {"gradient", "peak ", "lower bound", "largest tensors at the peak (step ", "W_FIRST_CONV"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
}

// Batch norm of features does not take a batch of one, nor a set that leaves one for the end.
TEST(LargestBatch, PassesOverBatchesThatAreRefused) {
  for (const std::int64_t want : {2, 4, 7, 8, 30}) {
    const auto peak = [](std::int64_t batch) {
      if (batch == 1 || batch == 3 || batch % 10 == 9) throw InvalidArgument("refused");
      return 100 + 7 * batch;
    };
    EXPECT_EQ(largest_batch(100 + 7 * want, peak, 1000), want);
    EXPECT_EQ(largest_batch(100 + 7 * 9, peak, 1000), 8) << "what fits is one that is taken";
  }
  EXPECT_EQ(largest_batch(107, [](std::int64_t) -> std::int64_t { throw InvalidArgument("no"); }),
            0);
}

TEST(LargestBatch, IsExact) {
  for (const std::int64_t want : {1, 2, 3, 63, 64, 65, 1000}) {
    int calls = 0;
    const auto peak = [&](std::int64_t batch) {
      ++calls;
      return 100 + 7 * batch;
    };
    EXPECT_EQ(largest_batch(100 + 7 * want, peak), want);
    EXPECT_EQ(largest_batch(100 + 7 * want + 6, peak), want);
    EXPECT_LE(calls, 50);
  }
  EXPECT_EQ(largest_batch(106, [](std::int64_t batch) { return 100 + 7 * batch; }), 0);
  EXPECT_EQ(largest_batch(
                100, [](std::int64_t) { return std::int64_t{1}; }, 1000),
            1000);
}

}  // namespace
}  // namespace tr

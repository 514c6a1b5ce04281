// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "graph/arch_plan.h"
#include "graph/memory_plan.h"

namespace tr {
namespace {

// In the articles' order; the sentinel last.
constexpr std::array<std::string_view, 69> kNames{"B_PREV_MEAN",
                                                  "B_PREV_VAR",
                                                  "B_NEXT_MEAN",
                                                  "B_NEXT_VAR",
                                                  "W_EQ_BIAS",
                                                  "W_EQ_SCALE",
                                                  "W_BN_BIAS",
                                                  "W_BN_WEIGHT",
                                                  "W_FC_BIAS",
                                                  "W_FC_WEIGHT",
                                                  "W_FIRST_CONV",
                                                  "W_DEEP_CONV",
                                                  "E_BN_BIAS",
                                                  "E_BN_WEIGHT",
                                                  "E_FC_BIAS",
                                                  "E_FC_WEIGHT",
                                                  "E_FIRST_CONV",
                                                  "E_DEEP_CONV",
                                                  "E_FC_WEIGHT_FP16",
                                                  "E_FIRST_CONV_FP16",
                                                  "E_DEEP_CONV_FP16",
                                                  "A_FC_WEIGHT",
                                                  "A_FIRST_CONV",
                                                  "A_DEEP_CONV",
                                                  "G_BN_BIAS",
                                                  "G_BN_WEIGHT",
                                                  "G_FC_BIAS",
                                                  "G_FC_WEIGHT",
                                                  "G_FIRST_CONV",
                                                  "G_DEEP_CONV",
                                                  "R_RESULT",
                                                  "G_FC_WEIGHT_FP16",
                                                  "G_FIRST_CONV_FP16",
                                                  "G_DEEP_CONV_FP16",
                                                  "M_BN_BIAS",
                                                  "M_BN_WEIGHT",
                                                  "M_FC_BIAS",
                                                  "M_FC_WEIGHT",
                                                  "M_FIRST_CONV",
                                                  "M_DEEP_CONV",
                                                  "V_BN_BIAS",
                                                  "V_BN_WEIGHT",
                                                  "V_FC_BIAS",
                                                  "V_FC_WEIGHT",
                                                  "V_FIRST_CONV",
                                                  "V_DEEP_CONV",
                                                  "N_FC_WEIGHT",
                                                  "N_FIRST_CONV",
                                                  "N_DEEP_CONV",
                                                  "I_A_LABEL",
                                                  "I_A_DATA",
                                                  "I_B_LABEL",
                                                  "I_B_DATA",
                                                  "F_FEATURE_FP32",
                                                  "F_GRAD_SLOT_FP32",
                                                  "F_FEATURE_FP16",
                                                  "F_GRAD_SLOT_FP16",
                                                  "S_SCALAR_FP32",
                                                  "S_SCALAR_FP16",
                                                  "S_SCALAR_INT32",
                                                  "S_SCALAR_INT8",
                                                  "S_MASK",
                                                  "T_TEMP_FP32",
                                                  "T_TEMP_FP16",
                                                  "T_TEMP_INT32",
                                                  "T_TEMP_INT8",
                                                  "R_PREDICTED_LABEL",
                                                  "R_RESULT_ACCUMULATED",
                                                  "UNNAMED"};

/// "FP32", "FP16" (both 16-bit formats), "INT32" (and INT64), "INT8" (all of one byte).
std::string dtype_suffix(DType dtype) {
  switch (size_of(dtype)) {
    case 1: return "INT8";
    case 2: return "FP16";
    default: return dtype == DType::FP32 ? "FP32" : "INT32";
  }
}

/// The part of a parameter's name after the role's letter: "FC_WEIGHT".
std::string param_part(const ArchPlan& arch, const Param& param, int first_conv) {
  if (param.spec.kind == ParamKind::NORM_WEIGHT) return "BN_WEIGHT";
  if (param.spec.kind == ParamKind::NORM_BIAS) return "BN_BIAS";
  if (param.spec.kind == ParamKind::BIAS) return "FC_BIAS";
  const bool is_conv =
      param.layer >= 0 &&
      arch.layers.at(std::size_t(param.layer)).op.find("conv") != std::string::npos;
  if (!is_conv) return "FC_WEIGHT";
  return param.layer == first_conv ? "FIRST_CONV" : "DEEP_CONV";
}

std::string_view letter_of(Role role) {
  switch (role) {
    case Role::WEIGHT: return "W_";
    case Role::WEIGHT_CAST: return "A_";
    case Role::GRADIENT: return "G_";
    case Role::MOMENT1: return "M_";
    case Role::MOMENT2: return "V_";
    case Role::EMA: return "E_";
    default: return "";
  }
}

bool is_known(std::string_view name) {
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

std::string transient_name(const LoweredTensor& t) {
  const std::string suffix = dtype_suffix(t.type.dtype);
  const bool floating = is_floating(t.type.dtype);
  if (t.role == Role::WORKSPACE || (!floating && suffix == "INT32")) return "T_TEMP_" + suffix;
  if (!floating) return "S_MASK";
  return (t.role == Role::FEATURE ? "F_FEATURE_" : "F_GRAD_SLOT_") + suffix;
}

/// Adds up bytes by name.
class View {
 public:
  View(const LoweredGraph& graph, const ArchPlan& arch, const ArenaPlan& plan,
       const MemoryPlan& variant)
      : graph_(graph), arch_(arch), plan_(plan), variant_(variant) {
    for (const ArchLayer& layer : arch.layers) {
      const bool is_conv = layer.op.find("conv") != std::string::npos && !layer.params.empty();
      if (is_conv && first_conv_ < 0) first_conv_ = int(&layer - arch.layers.data());
    }
    for (const auto name : kNames) counted_[std::string(name)];
  }

  std::vector<NamedRegion> count() {
    std::array<bool, kNumRoles> done{};
    for (const Region& region : plan_.regions) {
      if (!is_persistent(region.role)) continue;
      count_whole_region(region);
      if (!std::exchange(done.at(std::size_t(region.role)), true)) count_params(region);
    }
    count_inputs();
    count_transients();
    std::vector<NamedRegion> result;
    std::int64_t named = 0;
    for (const auto name : kNames) {
      result.push_back(counted_.at(std::string(name)));
      result.back().name = name;
      named += result.back().bytes;
    }
    TR_ASSERT(named <= plan_.peak_bytes());
    result.back().bytes = plan_.peak_bytes() - named;
    return result;
  }

 private:
  void add(const std::string& name, std::int64_t bytes) {
    NamedRegion& region = counted_.at(name);
    region.bytes += bytes;
    ++region.num_tensors;
  }

  void count_whole_region(const Region& r) {
    if (r.role == Role::SCALAR || r.role == Role::TABLE)
      add("S_SCALAR_" + dtype_suffix(r.dtype), r.bytes);
    if (r.role == Role::RESULT) add("R_RESULT", r.bytes);
  }

  void count_params(const Region& region) {
    const bool buffers = region.role == Role::BUFFER || region.role == Role::BUFFER_NEXT;
    if (!buffers && letter_of(region.role).empty()) return;
    for (const Param& param : arch_.params) {
      if ((param.spec.kind == ParamKind::BUFFER) != buffers) continue;
      const std::string name =
          buffers ? buffer_name(region.role, param) : param_name(region, param);
      const std::int64_t elements = param.spec.type.shape.num_elements();
      if (is_known(name)) add(name, elements * std::int64_t(size_of(region.dtype)));
    }
  }

  std::string param_name(const Region& region, const Param& param) const {
    return std::string(letter_of(region.role)) + param_part(arch_, param, first_conv_);
  }

  std::string buffer_name(Role role, const Param& param) const {
    const std::string when = role == Role::BUFFER ? "B_PREV_" : "B_NEXT_";
    if (param.spec.name.find("mean") != std::string::npos) return when + "MEAN";
    return param.spec.name.find("var") != std::string::npos ? when + "VAR" : "";
  }

  void count_inputs() {
    for (const LoweredTensor& t : graph_.tensors) {
      if (t.role != Role::INPUT || t.view_of != kNoTensor) continue;
      const bool is_label = t.name.find("label") != std::string::npos;
      add(is_label ? "I_A_LABEL" : "I_A_DATA", t.bytes);
      add(is_label ? "I_B_LABEL" : "I_B_DATA", t.bytes);
    }
  }

  void count_transients() {
    std::vector<Placement> live = live_at_peak(graph_, variant_, -1);
    std::sort(live.begin(), live.end(), [](const Placement& a, const Placement& b) {
      return std::pair(a.offset, a.tensor) < std::pair(b.offset, b.tensor);
    });
    std::int64_t counted_to = 0;
    for (const Placement& p : live) {
      const LoweredTensor& t = graph_.tensor(p.tensor);
      const std::int64_t begin = std::max(p.offset, counted_to), end = p.offset + t.bytes;
      if (end <= begin) continue;
      add(transient_name(t), end - begin);
      counted_to = end;
    }
  }

  const LoweredGraph& graph_;
  const ArchPlan& arch_;
  const ArenaPlan& plan_;
  const MemoryPlan& variant_;
  int first_conv_ = -1;
  std::map<std::string, NamedRegion> counted_;
};

}  // namespace

std::vector<NamedRegion> article_regions(const LoweredGraph& graph, const ArchPlan& arch,
                                         const ArenaPlan& plan, int variant) {
  return View(graph, arch, plan, plan.variants.at(std::size_t(variant))).count();
}

}  // namespace tr

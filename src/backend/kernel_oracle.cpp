// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "backend/executor.h"
#include "backend/kernel.h"
#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr {
namespace {

std::string types_text(std::span<const TensorType> types) {
  std::string text;
  for (const TensorType& type : types) text += (text.empty() ? "" : ", ") + to_string(type);
  return "(" + text + ")";
}

std::string refusal(const KernelDef& kernel, const KernelQuery& query) {
  return kernel.refuse ? kernel.refuse(query) : std::string();
}

constexpr std::string_view kFusedUpdate = "fc_update";  // src/ops/fused_step.cpp

class RegistryOracle final : public KernelOracle {
 public:
  RegistryOracle(DeviceKind device, TuningTable& tuning, const KernelLicence& licence)
      : device_(device), tuning_(tuning), licence_(licence) {}

  KernelChoice choose(const std::string& op, const Attrs& attrs, std::span<const TensorType> in,
                      std::span<const TensorType> out) const override {
    const std::vector<const KernelDef*> candidates = allowed_kernels(op);
    if (candidates.empty())
      throw_as<Unsupported>("{}: there is no {} kernel of this op", op, device_);
    const KernelQuery query{attrs, in, out};
    const KernelDef* kernel = stored_choice(op, query, candidates);
    if (kernel == nullptr) kernel = first_taker(op, query, candidates);
    if (candidates.size() > 1) tuning_.set(key_of(op, query), kernel->name);
    return {kernel->name, kernel->workspace_bytes ? kernel->workspace_bytes(query) : 0};
  }

  bool knows(const std::string& op) const override { return !allowed_kernels(op).empty(); }

  bool fuses(const std::string& op, const Attrs& attrs,
             std::span<const TensorType> in) const override {
    const OpDef* def = OpRegistry::instance().find(op);
    if (def == nullptr) return false;
    const Attrs complete = complete_attrs(*def, attrs);
    const std::vector<TensorType> out = def->infer(complete, in);
    for (const KernelDef* kernel : allowed_kernels(op)) {
      if (refusal(*kernel, {complete, in, out}).empty()) return true;
    }
    return false;
  }

  DeviceKind device() const override { return device_; }

 private:
  std::vector<const KernelDef*> allowed_kernels(const std::string& op) const {
    std::vector<const KernelDef*> kernels = kernels_of(op, device_);
    if (licence_.keep_gradients && op == kFusedUpdate) kernels.clear();
    if (!licence_.unrepeatable) {
      std::erase_if(kernels, [](const KernelDef* k) { return !k->repeatable; });
    }
    if (!licence_.tf32)
      std::erase_if(kernels, [](const KernelDef* k) { return k->name.ends_with("_tf32"); });
    return kernels;
  }

  /// With another licence other kernels were compared.
  std::string key_of(const std::string& op, const KernelQuery& query) const {
    return fmt::format("{}{}{} {} {} {} -> {}", device_, licence_.tf32 ? " tf32" : "",
                       licence_.unrepeatable ? " unrepeatable" : "", op, query.attrs.text(),
                       types_text(query.in), types_text(query.out));
  }

  /// The table's kernel, if it still exists and still takes the node; a stale entry is logged.
  const KernelDef* stored_choice(const std::string& op, const KernelQuery& query,
                                 const std::vector<const KernelDef*>& candidates) const {
    if (candidates.size() < 2) return nullptr;
    const std::string stored = tuning_.find(key_of(op, query));
    if (stored.empty()) return nullptr;
    std::string reason = "no such kernel";
    for (const KernelDef* kernel : candidates) {
      if (kernel->name != stored) continue;
      reason = refusal(*kernel, query);
      if (reason.empty()) return kernel;
    }
    log_warning("tuning: {} was stored for {}, but: {}; choosing anew", stored, key_of(op, query),
                reason);
    return nullptr;
  }

  const KernelDef* first_taker(const std::string& op, const KernelQuery& query,
                               const std::vector<const KernelDef*>& candidates) const {
    std::string reasons;
    for (const KernelDef* kernel : candidates) {
      const std::string reason = refusal(*kernel, query);
      if (reason.empty()) return kernel;
      log(LogLevel::DEBUG, "{} refuses {}: {}", kernel->name, key_of(op, query), reason);
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", kernel->name, reason);
    }
    throw_as<Unsupported>("{}: no {} kernel takes {} {} -> {}: {}", op, device_, query.attrs.text(),
                          types_text(query.in), types_text(query.out), reasons);
  }

  DeviceKind device_;
  TuningTable& tuning_;
  KernelLicence licence_;
};

}  // namespace

std::unique_ptr<KernelOracle> make_kernel_oracle(DeviceKind device, TuningTable& tuning,
                                                 const KernelLicence& licence) {
  return std::make_unique<RegistryOracle>(device, tuning, licence);
}

}  // namespace tr

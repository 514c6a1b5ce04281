// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <string>

#include "backend/engine_search.h"
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

/// Running the node again on other values tells its time: it changes no state, and no input is an
/// index or a place. A gate of bytes is one bit an element, so any byte may stand there.
bool can_be_timed(const std::string& op, std::span<const TensorType> in) {
  const OpDef* def = OpRegistry::instance().find(op);
  if (def == nullptr || !def->state_writes.empty()) return false;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool bits =
        in[i].dtype == DType::UINT8 && i < def->inputs.size() && def->inputs[i] == "gate";
    if (!is_floating(in[i].dtype) && !bits) return false;
  }
  return true;
}

constexpr std::string_view kFusedUpdate = "fc_update";  // src/ops/fused_step.cpp

class RegistryOracle final : public KernelOracle {
 public:
  RegistryOracle(DeviceKind device, TuningTable& tuning, const KernelLicence& licence,
                 EngineSearch* search)
      : device_(device), tuning_(tuning), licence_(licence), search_(search) {}

  KernelChoice choose(const std::string& op, const Attrs& attrs, std::span<const TensorType> in,
                      std::span<const TensorType> out) const override {
    const std::vector<const KernelDef*> candidates = allowed_kernels(op);
    if (candidates.empty())
      throw_as<Unsupported>("{}: there is no {} kernel of this op", op, device_);
    const KernelQuery query{attrs, in, out};
    Engine engine;
    if (candidates.size() == 1 && !candidates[0]->configs) {
      engine.kernel = takers(op, query, candidates)[0];
    } else {
      engine = choose_engine(op, query, candidates);
    }
    const KernelQuery configured{attrs, in, out, engine.config};
    const KernelDef& kernel = *engine.kernel;
    return {engine.text(), kernel.workspace_bytes ? kernel.workspace_bytes(configured) : 0};
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

  /// What the run's table says, else the cache of former runs, else a measurement, else the rank.
  Engine choose_engine(const std::string& op, const KernelQuery& query,
                       const std::vector<const KernelDef*>& candidates) const {
    const std::string key = key_of(op, query);
    if (const auto engine = stored_choice(tuning_, key, query, candidates)) return *engine;
    if (search_ != nullptr) {
      if (const auto engine = stored_choice(search_->cache(), key, query, candidates)) {
        tuning_.set(key, engine->text(), search_->cache().us_of(key));
        return *engine;
      }
    }
    const std::vector<const KernelDef*> kernels = takers(op, query, candidates);
    if (search_ != nullptr && can_be_timed(op, query.in)) {
      if (const auto found = search_->fastest(key, query, kernels)) {
        if (found->complete) search_->cache().set(key, found->engine, found->us);
        tuning_.set(key, found->engine, found->us);
        return engine_named(found->engine, kernels);
      }
    }
    tuning_.set(key, kernels[0]->name);
    return {kernels[0], ""};
  }

  static Engine engine_named(const std::string& text, const std::vector<const KernelDef*>& among) {
    const EngineText parts(text);
    for (const KernelDef* kernel : among) {
      if (kernel->name == parts.kernel) return {kernel, std::string(parts.config)};
    }
    throw_as<InternalError>("there is no engine '{}'", text);
  }

  /// The table's engine, if it still exists and still takes the node; a stale entry is logged.
  static std::optional<Engine> stored_choice(const TuningTable& table, const std::string& key,
                                             const KernelQuery& query,
                                             const std::vector<const KernelDef*>& candidates) {
    const std::string stored = table.find(key);
    if (stored.empty()) return std::nullopt;
    const EngineText parts(stored);
    std::string reason = "no such kernel";
    for (const KernelDef* kernel : candidates) {
      if (kernel->name != parts.kernel) continue;
      reason = why_not(*kernel, {query.attrs, query.in, query.out, parts.config});
      if (reason.empty()) return Engine{kernel, std::string(parts.config)};
    }
    log_warning("tuning: {} was stored for {}, but: {}; choosing anew", stored, key, reason);
    return std::nullopt;
  }

  /// refuse() sees the config too, so that a kernel need not look for another one first.
  static std::string why_not(const KernelDef& kernel, const KernelQuery& query) {
    const std::string reason = refusal(kernel, query);
    if (!reason.empty() || query.config.empty()) return reason;
    if (!kernel.refuse_config) return "it has no configs";
    try {
      return kernel.refuse_config(query);
    } catch (const Error& error) {
      return error.what();
    }
  }

  /// Those that take the node, best first. @throws Unsupported  none does.
  std::vector<const KernelDef*> takers(const std::string& op, const KernelQuery& query,
                                       const std::vector<const KernelDef*>& candidates) const {
    std::vector<const KernelDef*> kernels;
    std::string reasons;
    for (const KernelDef* kernel : candidates) {
      const std::string reason = refusal(*kernel, query);
      if (reason.empty()) {
        kernels.push_back(kernel);
        continue;
      }
      log(LogLevel::DEBUG, "{} refuses {}: {}", kernel->name, key_of(op, query), reason);
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", kernel->name, reason);
    }
    if (!kernels.empty()) return kernels;
    throw_as<Unsupported>("{}: no {} kernel takes {} {} -> {}: {}", op, device_, query.attrs.text(),
                          types_text(query.in), types_text(query.out), reasons);
  }

  DeviceKind device_;
  TuningTable& tuning_;
  KernelLicence licence_;
  EngineSearch* search_;
};

}  // namespace

std::unique_ptr<KernelOracle> make_kernel_oracle(DeviceKind device, TuningTable& tuning,
                                                 const KernelLicence& licence,
                                                 EngineSearch* search) {
  return std::make_unique<RegistryOracle>(device, tuning, licence, search);
}

}  // namespace tr

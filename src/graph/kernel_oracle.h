// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "graph/op_def.h"

namespace tr {

struct KernelChoice {
  std::string kernel;  // name of the chosen kernel
  std::int64_t workspace_bytes = 0;
};

/// What the compiler asks of a backend without knowing it: which kernel runs a node.
class KernelOracle {
 public:
  virtual ~KernelOracle() = default;
  /// @throws Unsupported  no kernel of the device takes this node; the message gives each one's
  /// reason.
  virtual KernelChoice choose(const std::string& op, const Attrs& attrs,
                              std::span<const TensorType> in,
                              std::span<const TensorType> out) const = 0;
  /// True if some kernel of the op exists at all: lets compile() refuse a model before it looks at
  /// data.
  virtual bool knows(const std::string& op) const = 0;
  /// True if the fused form is offered: passes ask before they rewrite.
  virtual bool fuses(const std::string& op, const Attrs& attrs,
                     std::span<const TensorType> in) const = 0;
  virtual DeviceKind device() const = 0;
};

/// For plans without a device: takes every node; each convolution gets 32 MiB of workspace. Offers the
/// fused forms that every backend has: not the ops that only lowering makes.
class PlanningOracle final : public KernelOracle {
 public:
  explicit PlanningOracle(DeviceKind device) : device_(device) {}
  KernelChoice choose(const std::string& op, const Attrs& attrs, std::span<const TensorType> in,
                      std::span<const TensorType> out) const override;
  bool knows(const std::string&) const override { return true; }
  bool fuses(const std::string& op, const Attrs&, std::span<const TensorType>) const override {
    const OpDef* def = OpRegistry::instance().find(op);
    return def != nullptr && !def->fused;
  }
  DeviceKind device() const override { return device_; }

 private:
  DeviceKind device_;
};

}  // namespace tr

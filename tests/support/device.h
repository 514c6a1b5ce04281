// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "backend/device_backend.h"
#include "core/format.h"

namespace tr::test {

/// Why tests of that device cannot run here; empty if they can.
inline std::string why_no_device(DeviceKind kind) {
  if (kind == DeviceKind::CPU) return "";
  const DeviceBackend* backend = find_backend(kind);
  if (backend == nullptr) return "no CUDA device: this build has no CUDA backend";
  return backend->devices().empty() ? fmt::format("no CUDA device: {}", backend->why_none()) : "";
}

/// Tests that compute on a device, or skip with the reason.
template <DeviceKind kKind, typename Base = testing::Test>
class DeviceTest : public Base {
 protected:
  static constexpr DeviceKind kDevice = kKind;

  void SetUp() override {
    if (const std::string reason = why_no_device(kKind); !reason.empty()) GTEST_SKIP() << reason;
  }
};

}  // namespace tr::test

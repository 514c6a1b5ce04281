// SPDX-License-Identifier: Apache-2.0
#include "backend/device_backend.h"

#include <list>

namespace tr {
namespace {

/// The last registered first; entries never move.
std::list<DeviceBackend>& backends() {
  static std::list<DeviceBackend> all;
  return all;
}

}  // namespace

DeviceBackendRegistration::DeviceBackendRegistration(DeviceBackend backend)
    : own_(&backends().emplace_front(std::move(backend))) {}

DeviceBackendRegistration::~DeviceBackendRegistration() {
  backends().remove_if([this](const DeviceBackend& backend) { return &backend == own_; });
}

const DeviceBackend* find_backend(DeviceKind kind) {
  for (const DeviceBackend& backend : backends()) {
    if (backend.kind == kind) return &backend;
  }
  return nullptr;
}

}  // namespace tr

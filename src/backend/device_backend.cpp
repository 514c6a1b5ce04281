// SPDX-License-Identifier: Apache-2.0
#include "backend/device_backend.h"

#include <deque>

namespace tr {
namespace {

std::deque<DeviceBackend>& backends() {
  static std::deque<DeviceBackend> all;  // entries never move
  return all;
}

}  // namespace

DeviceBackendRegistration::DeviceBackendRegistration(DeviceBackend backend) {
  backends().push_back(std::move(backend));
}

const DeviceBackend* find_backend(DeviceKind kind) {
  for (const DeviceBackend& backend : backends()) {
    if (backend.kind == kind) return &backend;
  }
  return nullptr;
}

}  // namespace tr

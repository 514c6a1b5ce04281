// SPDX-License-Identifier: Apache-2.0
#include "backend/kernel.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include <set>

#include "core/check.h"
#include "core/format.h"

namespace tr {
namespace {

struct Entry {
  KernelDef def;
  int priority = 0;
};

struct Registry {
  std::mutex mutex;
  std::map<std::pair<std::string, DeviceKind>, std::deque<Entry>> kernels;  // entries never move
};

Registry& registry() {
  static Registry instance;
  return instance;
}

void add(KernelDef def, int priority) {
  TR_CHECK(!def.op.empty(), "a kernel is registered without the name of its op");
  if (def.name.empty()) def.name = fmt::format("{}.{}", def.device, def.op);
  const bool one_way = (def.launch != nullptr) != bool(def.prepare);
  TR_CHECK(one_way, "kernel '{}': expected exactly one of launch and prepare", def.name);
  TR_CHECK(bool(def.configs) == bool(def.refuse_config) && def.name.find(' ') == std::string::npos,
           "kernel '{}': expected configs and refuse_config together, and a name without spaces",
           def.name);
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  auto& entries = all.kernels[{def.op, def.device}];
  const bool taken = std::any_of(entries.begin(), entries.end(),
                                 [&](const Entry& entry) { return entry.def.name == def.name; });
  TR_CHECK(!taken, "kernel '{}' is registered twice for op '{}'", def.name, def.op);
  entries.push_back({std::move(def), priority});
}

}  // namespace

EngineText::EngineText(std::string_view text)
    : kernel(text.substr(0, text.find(' '))), config(text.substr(kernel.size())) {
  if (!config.empty()) config.remove_prefix(1);
}

KernelRegistration::KernelRegistration(std::string op, DeviceKind device,
                                       void (*launch)(const KernelArgs&)) {
  KernelDef def;
  def.op = std::move(op);
  def.device = device;
  def.launch = launch;
  add(std::move(def), 0);
}

KernelRegistration::KernelRegistration(KernelDef def, int priority) {
  add(std::move(def), priority);
}

std::vector<const KernelDef*> kernels_of(const std::string& op, DeviceKind device) {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.kernels.find({op, device});
  if (found == all.kernels.end()) return {};
  std::vector<const Entry*> entries;
  for (const Entry& entry : found->second) entries.push_back(&entry);
  // Equal priorities: by name, since the order of registration is the linker's.
  std::sort(entries.begin(), entries.end(), [](const Entry* a, const Entry* b) {
    return a->priority != b->priority ? a->priority > b->priority : a->def.name < b->def.name;
  });
  std::vector<const KernelDef*> kernels;
  for (const Entry* entry : entries) kernels.push_back(&entry->def);
  return kernels;
}

std::vector<std::pair<std::string, DeviceKind>> all_kernel_keys() {
  Registry& all = registry();
  const std::scoped_lock lock(all.mutex);
  std::vector<std::pair<std::string, DeviceKind>> keys;
  for (const auto& [key, entries] : all.kernels) keys.push_back(key);
  return keys;
}

}  // namespace tr

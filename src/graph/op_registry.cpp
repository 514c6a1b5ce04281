// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <mutex>

#include "core/check.h"
#include "core/nearest_name.h"
#include "graph/op_def.h"
#include "graph/unknown_op.h"

namespace tr {

struct OpRegistry::Impl {
  std::mutex mutex;
  // Nodes of a map never move: get() gives references.
  std::map<std::string, OpDef, std::less<>> ops;
  int seals = 0;
};

OpRegistry::OpRegistry() : impl_(new Impl) {}
OpRegistry::~OpRegistry() { delete impl_; }

OpRegistry& OpRegistry::instance() {
  static OpRegistry registry;
  return registry;
}

void OpRegistry::add(OpDef def) {
  const std::scoped_lock lock(impl_->mutex);
  TR_CHECK(impl_->seals == 0,
           "op '{}' is registered while a compile runs, expected before or after it", def.name);
  TR_CHECK(!def.name.empty(), "an op is registered without a name");
  TR_CHECK(def.infer, "op '{}' is registered without a shape rule (infer)", def.name);
  const std::string name = def.name;
  const bool is_new = impl_->ops.try_emplace(name, std::move(def)).second;
  TR_CHECK(is_new, "op '{}' is registered twice, names must be unique", name);
}

const OpDef* OpRegistry::find(std::string_view name) const {
  const std::scoped_lock lock(impl_->mutex);
  const auto it = impl_->ops.find(name);
  return it == impl_->ops.end() ? nullptr : &it->second;
}

const OpDef& OpRegistry::get(std::string_view name) const {
  if (const OpDef* def = find(name)) return *def;
  throw_as<InvalidArgument>("{}", unknown_op_message(name));
}

std::vector<std::string> OpRegistry::names() const {
  const std::scoped_lock lock(impl_->mutex);
  std::vector<std::string> names;
  for (const auto& [name, def] : impl_->ops) names.push_back(name);
  return names;
}

OpRegistry::Seal::Seal() {
  OpRegistry::Impl& impl = *OpRegistry::instance().impl_;
  const std::scoped_lock lock(impl.mutex);
  ++impl.seals;
}

OpRegistry::Seal::~Seal() {
  OpRegistry::Impl& impl = *OpRegistry::instance().impl_;
  const std::scoped_lock lock(impl.mutex);
  --impl.seals;
}

OpRegistration::OpRegistration(OpDef def) { OpRegistry::instance().add(std::move(def)); }

namespace {

constexpr std::string_view kTypeNames[] = {"bool", "integer", "number", "text", "list of integers"};

/// The value in the type of its default; an integer is taken where a number is wanted.
AttrValue converted(const OpDef& def, const AttrSpec& spec, const AttrValue& value) {
  if (value.index() == spec.default_value.index()) return value;
  const auto* integer = std::get_if<std::int64_t>(&value);
  if (integer != nullptr && std::holds_alternative<double>(spec.default_value))
    return double(*integer);
  throw_as<InvalidArgument>("{}: attribute '{}' is given as {}, expected {}", def.name, spec.name,
                            kTypeNames[value.index()], kTypeNames[spec.default_value.index()]);
}

}  // namespace

Attrs complete_attrs(const OpDef& def, const Attrs& given) {
  Attrs out;
  for (const AttrSpec& spec : def.attrs) {
    if (given.contains(spec.name)) {
      out.set(spec.name, converted(def, spec, given.values().find(spec.name)->second));
    } else {
      TR_CHECK(!spec.required, "{}: attribute '{}' is missing, it has no default", def.name,
               spec.name);
      out.set(spec.name, spec.default_value);
    }
  }
  for (const auto& [name, value] : given.values()) {
    if (out.contains(name)) continue;
    std::vector<std::string> known;
    for (const AttrSpec& spec : def.attrs) known.push_back(spec.name);
    throw_as<InvalidArgument>("{}", unknown_name_message(def.name + ": attribute", name, known));
  }
  return out;
}

}  // namespace tr

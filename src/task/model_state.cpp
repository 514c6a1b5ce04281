// SPDX-License-Identifier: Apache-2.0
#include "task/model_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "algo/fill_param.h"
#include "core/check.h"
#include "core/format.h"
#include "core/log.h"
#include "core/sha256.h"
#include "task/checkpoint.h"
#include "task/file_layout.h"

namespace tr {

namespace {

constexpr Role kModelRoles[] = {Role::WEIGHT, Role::EMA, Role::BUFFER};
constexpr Role kParamRoles[] = {Role::WEIGHT, Role::EMA, Role::MOMENT1, Role::MOMENT2,
                                Role::MOMENT3};

const char* suffix_of(Role role) {
  if (role == Role::EMA) return ".ema";
  if (role == Role::WEIGHT_CAST) return ".cast";
  return "";
}

std::span<const std::byte> bytes_of_tensor(const Tensor& t) {
  return {static_cast<const std::byte*>(t.raw()), t.num_bytes()};
}

std::string list(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 8;
  const auto shown = std::span(names).first(std::min(names.size(), kShown));
  std::string text = fmt::format("{}", fmt::join(shown, ", "));
  if (names.size() > kShown) text += fmt::format(" and {} more", names.size() - kShown);
  return text;
}

/// Number of elements that are not finite.
std::int64_t count_not_finite(const Tensor& tensor) {
  if (tensor.dtype() != DType::FP32) return 0;
  const auto values = tensor.values<float>();
  return std::count_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
}

/// Every rule of the initializer holds for a parameter. @throws InvalidArgument  one matches none.
void check_rules(const Initializer& initializer, const ArchPlan& arch) {
  for (const Initializer::Rule& rule : initializer.options().rules) {
    const bool matches = std::any_of(
        arch.params.begin(), arch.params.end(),
        [&](const Param& param) { return std::string_view(param.name).starts_with(rule.prefix); });
    if (matches) continue;
    std::vector<std::string> names;
    for (const Param& param : arch.params) names.push_back(param.name);
    throw_as<InvalidArgument>("Initializer: no parameter begins with \"{}\", expected one of {}",
                              rule.prefix, list(names));
  }
}

/// A parameter as its rule's file has it. @throws InvalidArgument, DataError
Tensor first_value(const Param& about, const Initializer::Rule& rule, const SafetensorsFile& file) {
  const std::string name = rule.prefix_in_file + about.name.substr(rule.prefix.size());
  TR_CHECK(file.contains(name), "Initializer: {} has no \"{}\", expected it for \"{}\"", rule.path,
           name, about.name);
  Tensor value = from_file_layout(file.at(name), about.spec);
  if (const std::int64_t bad = count_not_finite(value)) {
    throw_as<DataError>("{}: {} of {} elements of \"{}\" are not finite", rule.path, bad,
                        value.num_elements(), name);
  }
  return value;
}

}  // namespace

ModelState::ModelState(const CompileResult& compiled, Executor& executor)
    : compiled_(compiled), executor_(executor) {
  for (const LoweredGraph& graph : compiled.lowered) {
    for (const LoweredTensor& tensor : graph.tensors) {
      if (is_persistent(tensor.role) && tensor.view_of == kNoTensor)
        tensors_.emplace(tensor.name, &tensor);
    }
  }
}

Tensor ModelState::copy_at(std::int64_t place, const TensorType& type) const {
  Tensor copy(type.shape, type.dtype);
  executor_.read(place, copy.raw(), std::int64_t(copy.num_bytes()));
  return copy;
}

Tensor ModelState::copy_of(const std::string& name) const {
  const std::int64_t place = executor_.place(name);
  return copy_at(place, tensors_.at(name)->type);
}

/// The parameter's own tensor where a graph reads it, else its part of the role's range; -1 if
/// neither is.
std::int64_t ModelState::place_of(int param, Role role) const {
  const Param& about = compiled_.arch.params[std::size_t(param)];
  const bool named_role = role == Role::WEIGHT || role == Role::BUFFER || role == Role::EMA ||
                          role == Role::WEIGHT_CAST;
  const std::string name = about.name + suffix_of(role);
  const auto own = tensors_.find(name);
  if (named_role && own != tensors_.end() && own->second->role == role)
    return executor_.place(name);
  const std::string range = fmt::format("range({})", name_of(role));
  if (role == Role::BUFFER || !tensors_.contains(range)) return -1;
  const std::int64_t offset = compiled_.memory.param_element_offset[std::size_t(param)];
  const std::int64_t element = std::int64_t(size_of(tensors_.at(range)->type.dtype));
  return offset < 0 ? -1 : executor_.place(range) + offset * element;
}

bool ModelState::has_ema() const {
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p) {
    if (place_of(p, Role::EMA) >= 0) return true;
  }
  return false;
}

void ModelState::write_cast(int param, const Tensor& memory) {
  const std::int64_t cast = place_of(param, Role::WEIGHT_CAST);
  if (cast < 0) return;
  const Param& about = compiled_.arch.params[std::size_t(param)];
  const auto own = tensors_.find(about.name + ".cast");
  const std::string range = fmt::format("range({})", name_of(Role::WEIGHT_CAST));
  const DType dtype =
      own != tensors_.end() ? own->second->type.dtype : tensors_.at(range)->type.dtype;
  const Tensor low = memory.to(dtype);
  executor_.write(cast, low.raw(), std::int64_t(low.num_bytes()));
}

void ModelState::set_param(int param, const Tensor& memory, bool average_too) {
  const bool buffer = compiled_.arch.params[std::size_t(param)].spec.kind == ParamKind::BUFFER;
  const auto write = [&](Role role) {
    const std::int64_t place = place_of(param, role);
    if (place >= 0) executor_.write(place, memory.raw(), std::int64_t(memory.num_bytes()));
  };
  write(buffer ? Role::BUFFER : Role::WEIGHT);
  if (buffer) return;
  write_cast(param, memory);
  if (average_too) write(Role::EMA);
}

void ModelState::initialise(const Initializer& initializer, std::uint64_t seed, float loss_scale) {
  check_rules(initializer, compiled_.arch);
  std::map<std::string, SafetensorsFile> files;
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p) {
    const Param& about = compiled_.arch.params[std::size_t(p)];
    const Initializer::Rule* rule = rule_of(initializer, about.name);
    if (rule != nullptr && !rule->path.empty()) {
      if (!files.contains(rule->path)) files.emplace(rule->path, load_safetensors(rule->path));
      set_param(p, first_value(about, *rule, files.at(rule->path)), true);
      continue;
    }
    Tensor value(about.spec.type.shape, about.spec.type.dtype);
    fill_param(about.spec, about.name, initializer, seed, value);
    set_param(p, value, true);
  }
  write_segments(compiled_.memory.segments);
  for (const auto& [name, value] : compiled_.constants) {
    if (has_persistent(name))
      executor_.write(executor_.place(name), value.raw(), std::int64_t(value.num_bytes()));
  }
  if (has_persistent("loss_scale"))
    executor_.write(executor_.place("loss_scale"), &loss_scale, sizeof loss_scale);
}

Tensor ModelState::weight(const std::string& name, WeightKind kind) const {
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p) {
    if (compiled_.arch.params[std::size_t(p)].name == name) return weight_of(p, kind);
  }
  throw_as<InvalidArgument>("there is no parameter \"{}\"", name);
}

Tensor ModelState::weight_of(int param, WeightKind kind) const {
  const Param& about = compiled_.arch.params[std::size_t(param)];
  const bool buffer = about.spec.kind == ParamKind::BUFFER;
  const Role role = buffer ? Role::BUFFER : kind == WeightKind::EMA ? Role::EMA : Role::WEIGHT;
  const std::int64_t place = place_of(param, role);
  TR_CHECK(place >= 0, "{}: the task holds no {} of this parameter", about.name, name_of(role));
  return to_file_layout(copy_at(place, about.spec.type), about.spec);
}

std::vector<NamedTensor> ModelState::weights(WeightKind kind) const {
  std::vector<NamedTensor> result;
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p)
    result.push_back({compiled_.arch.params[std::size_t(p)].name, weight_of(p, kind)});
  return result;
}

/// The weights inside a checkpoint, as a weights file would have them; averaged ones where there
/// are any. `misfits`: by name, why a parameter of another shape is left out.
SafetensorsFile ModelState::weights_of_checkpoint(
    SafetensorsFile file, const std::string& source,
    std::map<std::string, std::string>& misfits) const {
  const SafetensorsFile content{Checkpoint::from_file(std::move(file), source).tensors, {}};
  SafetensorsFile weights;
  for (const Role role : {Role::EMA, Role::WEIGHT, Role::BUFFER}) {
    const std::string prefix = fmt::format("{}/", name_of(role));
    for (const NamedTensor& entry : content.tensors) {
      if (!entry.name.starts_with(prefix)) continue;
      const std::string name = entry.name.substr(prefix.size());
      if (weights.contains(name) || misfits.contains(name)) continue;  // the average is there
      const auto about = std::find_if(compiled_.arch.params.begin(), compiled_.arch.params.end(),
                                      [&](const Param& param) { return param.name == name; });
      if (about == compiled_.arch.params.end()) {
        weights.tensors.push_back({name, entry.tensor});  // told as one that the model lacks
      } else if (entry.tensor.type() == about->spec.type) {
        weights.tensors.push_back({name, to_file_layout(entry.tensor, about->spec)});
      } else {
        misfits[name] = fmt::format("the checkpoint has {} in memory, expected {}",
                                    entry.tensor.type(), about->spec.type);
      }
    }
  }
  return weights;
}

void ModelState::load_weights(const SafetensorsFile& given, bool strict,
                              const std::string& source) {
  const bool checkpoint = Checkpoint::is_one(given);
  std::map<std::string, std::string> misfits;
  const SafetensorsFile file = checkpoint ? weights_of_checkpoint(given, source, misfits) : given;
  std::vector<std::string> missing, wrong, unknown;
  std::vector<std::pair<int, Tensor>> loaded;
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p) {
    const Param& about = compiled_.arch.params[std::size_t(p)];
    if (!file.contains(about.name)) {
      const auto misfit = misfits.find(about.name);
      if (misfit == misfits.end()) {
        missing.push_back(about.name);
      } else {
        wrong.push_back(fmt::format("{} ({})", about.name, misfit->second));
      }
      continue;
    }
    try {
      loaded.emplace_back(p, from_file_layout(file.at(about.name), about.spec));
      if (const std::int64_t bad = count_not_finite(loaded.back().second)) {
        throw_as<DataError>("{}: {} of {} elements of \"{}\" are not finite", source, bad,
                            loaded.back().second.num_elements(), about.name);
      }
    } catch (const InvalidArgument& error) {
      wrong.push_back(fmt::format("{} ({})", about.name, error.what()));
    }
  }
  for (const NamedTensor& tensor : file.tensors) {
    const bool known = std::any_of(compiled_.arch.params.begin(), compiled_.arch.params.end(),
                                   [&](const Param& param) { return param.name == tensor.name; });
    // PyTorch counts batches in batch norm; the count has no use where momentum is fixed.
    const bool counter = tensor.name.ends_with("num_batches_tracked");
    if (!known && !counter) unknown.push_back(tensor.name);
  }
  std::string faults;
  if (!missing.empty()) faults += "\n  missing in the file: " + list(missing);
  if (!wrong.empty()) faults += "\n  of another shape or type: " + list(wrong);
  if (!unknown.empty()) faults += "\n  not in the model: " + list(unknown);
  TR_CHECK(!strict || faults.empty(), "{}: the weights do not fit the model{}", source, faults);
  TR_CHECK(!loaded.empty(), "{}: nothing in it fits the model{}", source, faults);
  if (!faults.empty())
    log_warning("{}: loaded {} tensors, left out what does not fit{}", source, loaded.size(),
                faults);
  for (const auto& [param, memory] : loaded) set_param(param, memory, true);
}

std::string ModelState::weights_sha256() const {
  std::vector<NamedTensor> trained;
  const std::vector<NamedTensor> all = weights(WeightKind::CURRENT);
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (compiled_.arch.params[p].spec.kind != ParamKind::BUFFER) trained.push_back(all[p]);
  }
  std::sort(trained.begin(), trained.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  Sha256 hash;
  for (const NamedTensor& w : trained) {
    hash.update(std::string_view(w.name));
    hash.update(bytes_of_tensor(w.tensor));
  }
  return hash.hex();
}

std::vector<ModelState::Slot> ModelState::slots() const {
  std::vector<Slot> result;
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p) {
    const Param& about = compiled_.arch.params[std::size_t(p)];
    const auto add = [&](Role role) {
      const std::int64_t place = place_of(p, role);
      if (place >= 0)
        result.push_back({fmt::format("{}/{}", name_of(role), about.name), about.spec.type, place});
    };
    if (about.spec.kind == ParamKind::BUFFER) {
      add(Role::BUFFER);
    } else {
      for (const Role role : kParamRoles) add(role);
    }
  }
  for (const auto& [name, tensor] : tensors_) {
    if (tensor->role != Role::SCALAR && tensor->role != Role::OPTIMIZER_STATE) continue;
    result.push_back(
        {fmt::format("{}/{}", name_of(tensor->role), name), tensor->type, executor_.place(name)});
  }
  return result;
}

std::vector<NamedTensor> ModelState::snapshot() const {
  std::vector<NamedTensor> result;
  for (const Slot& slot : slots()) result.push_back({slot.name, copy_at(slot.place, slot.type)});
  return result;
}

std::vector<NamedTensor> ModelState::model_snapshot() const {
  std::vector<NamedTensor> result;
  for (const Slot& slot : slots()) {
    const bool kept = std::any_of(std::begin(kModelRoles), std::end(kModelRoles), [&](Role role) {
      return slot.name.starts_with(fmt::format("{}/", name_of(role)));
    });
    if (kept) result.push_back({slot.name, copy_at(slot.place, slot.type)});
  }
  return result;
}

void ModelState::restore_model(const std::vector<NamedTensor>& tensors) {
  const std::vector<Slot> all = slots();
  for (const NamedTensor& given : tensors) {
    const auto slot =
        std::find_if(all.begin(), all.end(), [&](const Slot& s) { return s.name == given.name; });
    TR_CHECK(slot != all.end() && slot->type == given.tensor.type(),
             "\"{}\" is {}, which the model does not have", given.name, given.tensor.type());
    executor_.write(slot->place, given.tensor.raw(), bytes_of(slot->type));
  }
  write_casts();
}

std::vector<std::pair<std::int64_t, TensorType>> ModelState::buffer_places(Role role) const {
  std::vector<std::pair<std::int64_t, TensorType>> places;
  for (const Param& about : compiled_.arch.params) {
    if (about.spec.kind != ParamKind::BUFFER) continue;
    const std::string name = about.name + (role == Role::BUFFER_NEXT ? ".next" : "");
    if (has_persistent(name)) places.emplace_back(executor_.place(name), about.spec.type);
  }
  return places;
}

std::vector<Tensor> ModelState::buffers(Role role) const {
  std::vector<Tensor> values;
  for (const auto& [place, type] : buffer_places(role)) values.push_back(copy_at(place, type));
  return values;
}

void ModelState::set_buffers(Role role, const std::vector<Tensor>& values) {
  const auto places = buffer_places(role);
  TR_ASSERT(places.size() == values.size());
  for (std::size_t i = 0; i < places.size(); ++i)
    executor_.write(places[i].first, values[i].raw(), bytes_of(places[i].second));
}

void ModelState::freeze(const std::vector<std::string>& prefixes) {
  std::vector<Segment> segments = compiled_.memory.segments;
  for (Segment& segment : segments) {
    const Param& about = compiled_.arch.params[std::size_t(segment.param)];
    const bool frozen =
        std::any_of(prefixes.begin(), prefixes.end(),
                    [&](const std::string& prefix) { return about.name.starts_with(prefix); });
    if (!frozen) continue;
    segment.frozen = 1;
    // What a step of another state left there counts in no norm.
    const std::int64_t gradient = place_of(segment.param, Role::GRADIENT);
    const std::vector<float> zeros(std::size_t(segment.count), 0.0f);
    if (gradient >= 0)
      executor_.write(gradient, zeros.data(), std::int64_t(zeros.size() * sizeof(float)));
  }
  write_segments(segments);
}

/// The table that every optimizer reads, or that of each objective: all but its group stand still.
void ModelState::write_segments(const std::vector<Segment>& segments) {
  const auto write = [&](const std::string& name, const std::vector<Segment>& table) {
    executor_.write(executor_.place(name), table.data(),
                    std::int64_t(table.size() * sizeof(Segment)));
  };
  if (has_persistent("segments")) write("segments", segments);
  for (int objective = 0;; ++objective) {
    const std::string name = fmt::format("segments.{}", objective);
    if (!has_persistent(name)) return;
    std::vector<Segment> own = segments;
    for (Segment& segment : own) {
      if (segment.group != objective) segment.frozen = 1;
    }
    write(name, own);
  }
}

void ModelState::restore(const SafetensorsFile& file) {
  const std::vector<Slot> all = slots();
  for (const Slot& slot : all) {
    TR_CHECK(file.contains(slot.name),
             "the checkpoint has no \"{}\": it is of another model or optimizer", slot.name);
    const Tensor& tensor = file.at(slot.name);
    TR_CHECK(tensor.type() == slot.type, "the checkpoint's \"{}\" is {}, expected {}", slot.name,
             tensor.type(), slot.type);
  }
  TR_CHECK(file.tensors.size() == all.size(),
           "the checkpoint has {} tensors, expected {}: it is of another model",
           file.tensors.size(), all.size());
  for (const Slot& slot : all)
    executor_.write(slot.place, file.at(slot.name).raw(), bytes_of(slot.type));
  write_casts();
}

/// The 16-bit copies of all weights.
void ModelState::write_casts() {
  for (int p = 0; p < int(compiled_.arch.params.size()); ++p) {
    const Param& about = compiled_.arch.params[std::size_t(p)];
    if (about.spec.kind == ParamKind::BUFFER) continue;
    const std::int64_t place = place_of(p, Role::WEIGHT);
    if (place >= 0) write_cast(p, copy_at(place, about.spec.type));
  }
}

}  // namespace tr

// SPDX-License-Identifier: Apache-2.0
#include "task/sample_check.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/format.h"
#include "core/half.h"

namespace tr {

namespace {

template <typename T>
std::int64_t first_not_finite(const std::byte* data, std::int64_t count) {
  const T* values = reinterpret_cast<const T*>(data);
  const T* bad =
      std::find_if(values, values + count, [](T v) { return !std::isfinite(to_float(v)); });
  return bad == values + count ? -1 : bad - values;
}

/// Its place and value; {-1, 0} if all are finite.
std::pair<std::int64_t, float> first_not_finite(const std::byte* data, const TensorType& type) {
  const std::int64_t count = type.shape.num_elements();
  const auto found = [&]<typename T>(T) -> std::pair<std::int64_t, float> {
    const std::int64_t at = first_not_finite<T>(data, count);
    return {at, at < 0 ? 0 : to_float(reinterpret_cast<const T*>(data)[at])};
  };
  if (type.dtype == DType::FP16) return found(Half{});
  if (type.dtype == DType::BF16) return found(BFloat16{});
  return found(float{});
}

/// Number of classes that the model's first output has; 0: it is one of the model's inputs.
std::int64_t num_outputs(const ArchPlan& arch) {
  for (const ArchLayer& layer : arch.layers) {
    for (std::size_t i = 0; i < layer.outputs.size(); ++i) {
      if (layer.outputs[i] == arch.outputs.front()) return layer.types[i].shape.back();
    }
  }
  return 0;
}

/// The layer that reads the field first, or the loss.
std::string reader_of(const ArchPlan& arch, const std::string& field) {
  for (std::size_t input = 0; input < arch.inputs.size(); ++input) {
    if (arch.inputs[input].field != field) continue;
    for (const ArchLayer& layer : arch.layers) {
      const bool reads =
          std::find(layer.inputs.begin(), layer.inputs.end(), int(input)) != layer.inputs.end();
      if (!reads) continue;
      return fmt::format("layer \"{}\" ({}){}", layer.name, layer.op,
                         layer.where.empty() ? "" : ", built at " + layer.where.str());
    }
  }
  return "the loss";
}

const char* split_name(data::Split split) {
  return split == data::Split::TRAIN ? "training" : "validation";
}

/// A set with more classes than outputs may still hold none of the classes that are too many.
void check_known_labels(const Dataset& set, std::int64_t outputs, data::Split split) {
  for (std::int64_t id = 0; id < set.num_samples(); ++id) {
    const std::int64_t label = set.known_label(id);
    TR_CHECK(label >= 0,
             "the model has {} outputs, the {} set has {} classes, and it does not say which of "
             "them occur",
             outputs, split_name(split), set.num_classes());
    TR_CHECK(label < outputs,
             "label of {} of the {} set is {}, expected 0 to {} (the model has {} outputs, the set "
             "has {} classes)",
             set.sample_name(id), split_name(split), label, outputs - 1, outputs,
             set.num_classes());
  }
}

void check_split(const CompiledRun& run, data::Split split) {
  const Dataset& set = split == data::Split::TRAIN ? *run.data.train : *run.data.val;
  const bool in_memory = set.name() == "memory";
  const std::int64_t outputs = run.classification ? num_outputs(run.compiled.arch) : 0;
  if (outputs > 0 && set.num_classes() > outputs) check_known_labels(set, outputs, split);
  SampleCheck check(run, split);
  const bool labels = outputs > 0 && (set.num_classes() == 0 || in_memory);
  const bool values = in_memory && check.has_floating();
  const bool may_skip = run.bad_samples->policy() != BadSamplePolicy::FAIL;
  for (std::int64_t id = 0; (labels || values) && id < set.num_samples(); ++id) {
    try {
      if (labels) check.check_label(id, outputs);
    } catch (const DataError&) {  // it is counted when its turn comes
      if (!may_skip) throw;
      continue;
    }
    const std::string fault = values ? check.not_finite(id) : "";
    if (!fault.empty()) throw_as<DataError>("{}", fault);
  }
}

}  // namespace

SampleCheck::SampleCheck(const CompiledRun& run, data::Split split)
    : arch_(run.compiled.arch),
      set_(split == data::Split::TRAIN ? *run.data.train : *run.data.val),
      split_(split_name(split)),
      fields_(set_.fields()) {
  for (const LossTerm& term : run.config.train.loss.terms) {
    if (term.ignore_index) ignored_.push_back(*term.ignore_index);
  }
  const auto read_by_graphs = input_fields(run.compiled);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const TensorType& type = fields_[i].type;
    bytes_.emplace_back(std::size_t(bytes_of(type)));
    pointers_.push_back(bytes_.back().data());
    checked_.push_back(is_floating(type.dtype) && read_by_graphs.contains(fields_[i].name));
    has_floating_ = has_floating_ || checked_.back();
    const bool integer = type.dtype == DType::INT32 || type.dtype == DType::INT64;
    if (fields_[i].name == "label" && integer && type.shape.rank() == 0) label_ = int(i);
  }
}

void SampleCheck::read(std::int64_t id) {
  if (id == last_read_) return;
  set_.read(id, pointers_);
  last_read_ = id;
}

std::string SampleCheck::not_finite(std::int64_t id) {
  read(id);
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    if (!checked_[i]) continue;
    const TensorType& type = fields_[i].type;
    const auto [at, value] = first_not_finite(pointers_[i], type);
    if (at < 0) continue;
    const std::string& field = fields_[i].name;
    return fmt::format(
        "the data's field \"{}\" is not finite: sample {} of the {} set has {} as element {} of "
        "{}; "
        "it is read by {}",
        field, id, split_, value, at, type, reader_of(arch_, field));
  }
  return "";
}

void SampleCheck::check_label(std::int64_t id, std::int64_t num_classes) {
  if (label_ < 0) return;
  read(id);
  const std::byte* bytes = pointers_[std::size_t(label_)];
  const bool wide = fields_[std::size_t(label_)].type.dtype == DType::INT64;
  const std::int64_t value = wide ? *reinterpret_cast<const std::int64_t*>(bytes)
                                  : *reinterpret_cast<const std::int32_t*>(bytes);
  if (std::find(ignored_.begin(), ignored_.end(), value) != ignored_.end()) return;
  TR_CHECK(value >= 0 && value < num_classes,
           "label of sample {} of the {} set is {}, expected 0 to {} (the model has {} outputs)",
           id, split_, value, num_classes - 1, num_classes);
}

std::map<std::string, std::int64_t> input_fields(const CompileResult& compiled,
                                                 std::optional<Mode> mode) {
  std::map<std::string, std::int64_t> bytes;
  for (std::size_t v = 0; v < compiled.variants.size(); ++v) {
    if (mode && compiled.variants[v].mode != *mode) continue;
    const int graph = compiled.atlas.whole(int(v));
    for (const LoweredTensor& tensor : compiled.lowered[std::size_t(graph)].tensors) {
      const bool owner = tensor.view_of == kNoTensor;
      if (tensor.role == Role::INPUT && owner)
        bytes[tensor.name] = std::max(bytes[tensor.name], tensor.bytes);
    }
  }
  return bytes;
}

void check_samples(const CompiledRun& run) {
  if (run.data.train) check_split(run, data::Split::TRAIN);
  if (run.data.val) check_split(run, data::Split::VAL);
}

}  // namespace tr

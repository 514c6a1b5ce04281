// SPDX-License-Identifier: Apache-2.0
#include "data/memory_dataset.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/format.h"
#include "data/picture_memory.h"

namespace tr::data {

MemoryDataset::MemoryDataset(std::string name, std::vector<NamedTensor> tensors, int num_classes)
    : name_(std::move(name)), tensors_(std::move(tensors)), num_classes_(num_classes) {
  TR_CHECK(!tensors_.empty(), "dataset {}: there are no fields", name_);
  TR_CHECK(num_classes >= 0, "dataset {}: num_classes is {}, must not be negative", name_,
           num_classes);
  for (const NamedTensor& t : tensors_) {
    const Shape& shape = t.tensor.shape();
    TR_CHECK(!t.tensor.empty() && shape.rank() >= 1 && shape[0] >= 1,
             "dataset {}: the field \"{}\" has shape {}, expected [samples, ...]", name_, t.name,
             shape);
    TR_CHECK(shape[0] == tensors_[0].tensor.shape()[0],
             "dataset {}: the field \"{}\" has {} samples, \"{}\" has {}", name_, t.name, shape[0],
             tensors_[0].name, tensors_[0].tensor.shape()[0]);
    for (const Field& field : fields_) {
      TR_CHECK(field.name != t.name, "dataset {}: two fields are named \"{}\"", name_, t.name);
    }
    fields_.push_back({t.name, {shape.drop_first(), t.tensor.dtype()}});
    sample_bytes_.push_back(std::size_t(bytes_of(fields_.back().type)));
    const bool integer = t.tensor.dtype() == DType::INT32 || t.tensor.dtype() == DType::INT64;
    if (t.name == "label" && integer && shape.rank() == 1) label_ = int(fields_.size()) - 1;
  }
  num_samples_ = tensors_[0].tensor.shape()[0];
}

void MemoryDataset::read(std::int64_t id, std::span<std::byte* const> out) const {
  TR_ASSERT(id >= 0 && id < num_samples_ && out.size() == tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto* bytes = static_cast<const std::byte*>(tensors_[i].tensor.raw());
    std::memcpy(out[i], bytes + std::size_t(id) * sample_bytes_[i], sample_bytes_[i]);
  }
}

void MemoryDataset::prefetch(std::int64_t id) const {
  constexpr std::size_t kLine = 64, kMost = 1024;  // of a field: the processor goes on by itself
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const auto* bytes = static_cast<const char*>(tensors_[i].tensor.raw());
    const std::size_t count = std::min(sample_bytes_[i], kMost);
    for (std::size_t at = 0; at < count; at += kLine)
      __builtin_prefetch(bytes + std::size_t(id) * sample_bytes_[i] + at);
  }
}

std::int64_t MemoryDataset::known_label(std::int64_t id) const {
  return label_ < 0 ? -1 : std::int64_t(tensors_[std::size_t(label_)].tensor.at(id));
}

bool is_in_memory(const Dataset& dataset) {
  return dynamic_cast<const MemoryDataset*>(&dataset) != nullptr;
}

std::shared_ptr<const Dataset> load_into_memory(std::shared_ptr<const Dataset> dataset,
                                                std::int64_t most_bytes) {
  if (is_in_memory(*dataset)) return dataset;
  if (dynamic_cast<const PictureMemory*>(dataset.get()) != nullptr) return dataset;
  std::vector<NamedTensor> tensors;
  std::vector<std::byte*> next;
  for (const Field& field : dataset->fields()) {
    if (field.encoded) return std::make_shared<PictureMemory>(std::move(dataset), most_bytes);
    Tensor tensor(field.type.shape.prepend(dataset->num_samples()), field.type.dtype);
    next.push_back(static_cast<std::byte*>(tensor.raw()));
    tensors.push_back({field.name, std::move(tensor)});
  }
  for (std::int64_t id = 0; id < dataset->num_samples(); ++id) {
    dataset->read(id, next);
    for (std::size_t i = 0; i < next.size(); ++i) {
      next[i] += tensors[i].tensor.num_bytes() / std::size_t(dataset->num_samples());
    }
  }
  return std::make_shared<MemoryDataset>(dataset->name(), std::move(tensors),
                                         dataset->num_classes());
}

std::vector<std::string> label_faults(const std::string& who, const Tensor& labels, int num_classes,
                                      std::size_t limit) {
  std::vector<std::string> faults;
  std::size_t num_faults = 0;
  for (std::int64_t i = 0; i < labels.num_elements(); ++i) {
    const double label = labels.at(i);
    if (label >= 0 && label < num_classes) continue;
    if (++num_faults > limit) continue;
    faults.push_back(
        fmt::format("{}: label {} of sample {} is outside 0..{}", who, label, i, num_classes - 1));
  }
  if (num_faults > limit) {
    faults.push_back(fmt::format("{}: {} more labels are outside 0..{}", who, num_faults - limit,
                                 num_classes - 1));
  }
  return faults;
}

}  // namespace tr::data

namespace tr {

void Dataset::read_encoded(std::int64_t, EncodedPicture&, std::span<std::byte* const>) const {
  throw_as<InternalError>(
      "dataset {}: it says that its image is encoded, but has no read_encoded()", name());
}

std::string Dataset::sample_name(std::int64_t id) const {
  return fmt::format("sample {} of {}", id, name());
}

std::shared_ptr<const Dataset> make_tensor_dataset(std::vector<NamedTensor> fields,
                                                   int num_classes) {
  for (const NamedTensor& field : fields) {
    if (field.name != "label" || num_classes <= 0 || is_floating(field.tensor.dtype())) continue;
    const auto faults = data::label_faults("dataset memory", field.tensor, num_classes, 1);
    if (!faults.empty()) throw_as<DataError>("{}", faults.front());
  }
  return std::make_shared<data::MemoryDataset>("memory", std::move(fields), num_classes);
}

}  // namespace tr

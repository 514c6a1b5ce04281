// SPDX-License-Identifier: Apache-2.0
#include "data/resident_set.h"

#include <algorithm>
#include <cstddef>

#include "core/check.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "core/thread_pool.h"

namespace tr::data {
namespace {

constexpr std::int64_t kChunk = 256;  // samples that one task reads

bool is_float_image(const Field& field) {
  return field.name == "image" && field.type.dtype == DType::FP32;
}

void read_sample(const Dataset& dataset, std::int64_t id, std::vector<std::byte*>& out) {
  try {
    dataset.read(id, out);
  } catch (const DataError& error) {
    throw_as<DataError>("sample {} of {}, read into memory for the device: {}", id, dataset.name(),
                        error.what());
  }
}

}  // namespace

ResidentSet::ResidentSet(const Dataset& dataset, DType image_dtype, int num_threads)
    : num_samples_(dataset.num_samples()) {
  TR_CHECK(num_samples_ >= 1, "resident set: {} has {} samples, at least 1 is needed",
           dataset.name(), num_samples_);
  TR_CHECK(is_floating(image_dtype), "resident set: image_dtype is {}, expected fp32, fp16 or bf16",
           image_dtype);
  for (const Field& field : dataset.fields()) {
    TR_CHECK(!field.encoded, "resident set: the samples of {} are picture files", dataset.name());
    TR_CHECK(field.name != "image" || field.type.dtype == DType::UINT8 || is_float_image(field),
             "resident set: the field \"image\" of {} is {}, expected uint8 or fp32",
             dataset.name(), field.type);
    fields_.push_back(
        {field.name, Tensor(field.type.shape.prepend(num_samples_), field.type.dtype)});
  }
  read(dataset, num_threads);
  for (NamedTensor& field : fields_) {
    const bool convert = field.name == "image" && field.tensor.dtype() == DType::FP32;
    if (convert && image_dtype != DType::FP32) field.tensor = field.tensor.to(image_dtype);
  }
}

void ResidentSet::read(const Dataset& dataset, int num_threads) {
  std::vector<std::byte*> base;
  std::vector<std::size_t> sample_bytes;
  for (NamedTensor& field : fields_) {
    base.push_back(static_cast<std::byte*>(field.tensor.raw()));
    sample_bytes.push_back(field.tensor.num_bytes() / std::size_t(num_samples_));
  }
  ThreadPool pool(num_threads > 0 ? num_threads : default_num_threads());
  pool.parallel_for((num_samples_ + kChunk - 1) / kChunk, [&](std::int64_t chunk, int) {
    std::vector<std::byte*> out(base.size());
    const std::int64_t end = std::min(num_samples_, (chunk + 1) * kChunk);
    for (std::int64_t id = chunk * kChunk; id < end; ++id) {
      for (std::size_t i = 0; i < out.size(); ++i) {
        out[i] = base[i] + std::size_t(id) * sample_bytes[i];
      }
      read_sample(dataset, id, out);
    }
  });
}

std::int64_t ResidentSet::num_bytes() const {
  std::int64_t bytes = 0;
  for (const NamedTensor& field : fields_) bytes += std::int64_t(field.tensor.num_bytes());
  return bytes;
}

std::int64_t resident_bytes(const Dataset& dataset, DType image_dtype) {
  std::int64_t bytes = 0;
  for (const Field& field : dataset.fields()) {
    const TensorType stored{field.type.shape,
                            is_float_image(field) ? image_dtype : field.type.dtype};
    bytes += bytes_of(stored) * dataset.num_samples();
  }
  return bytes;
}

}  // namespace tr::data

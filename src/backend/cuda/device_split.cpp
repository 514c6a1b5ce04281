// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/device_split.h"

#include <vector>

#include "backend/cuda/arena.h"
#include "backend/cuda/check.h"
#include "backend/cuda/feed.h"
#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kImageAlignment = 16;  // images are loaded as vectors of 16 bytes
constexpr std::int64_t kPartAlignment = 256;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// [channels, 256] entries of the program's type.
std::vector<std::byte> table_of(const pixel::Program& program) {
  const std::size_t width = size_of(program.dtype);
  std::vector<std::byte> table;
  for (int c = 0; c < program.channels; ++c) {
    for (int x = 0; x < 256; ++x) {
      const std::uint32_t bits = pixel::normalized_bits(program, c, std::uint8_t(x));
      for (std::size_t i = 0; i < width; ++i) table.push_back(std::byte(bits >> (8 * i)));
    }
  }
  return table;
}

void check_split(const ResidentSplit& split) {
  TR_CHECK(split.num_samples >= 1, "data on the device: {} samples, at least 1 is needed",
           split.num_samples);
  TR_CHECK(!split.fields.empty() && split.fields.size() <= kMaxFeedFields,
           "data on the device: {} fields, expected 1 to {}", split.fields.size(), kMaxFeedFields);
  bool has_image = false;
  for (const ResidentField& field : split.fields) {
    TR_CHECK(field.data != nullptr && field.sample_bytes >= 1,
             "data on the device: a sample of the field \"{}\" has {} bytes, at least 1 is needed",
             field.name, field.sample_bytes);
    if (field.name != "image" || split.image == nullptr) continue;
    has_image = true;
    TR_CHECK(field.sample_bytes == split.image->in_bytes(),
             "data on the device: an image has {} bytes, the transforms were prepared for {}",
             field.sample_bytes, split.image->in_bytes());
  }
  TR_CHECK(has_image || split.image == nullptr,
           "data on the device: there is no field \"image\" for the transforms");
  if (split.image == nullptr) return;
  const std::string reason = refuse_feed(*split.image);
  if (!reason.empty()) throw_as<Unsupported>("data on the device: {}", reason);
}

}  // namespace

DeviceSplit::DeviceSplit(const ResidentSplit& split) {
  check_split(split);
  std::int64_t num_bytes = 0;
  const auto take = [&num_bytes](std::int64_t bytes) {
    const std::int64_t place = num_bytes;
    num_bytes += rounded_up(bytes, kPartAlignment);
    return place;
  };
  std::vector<std::int64_t> places;
  source_.num_fields = std::int32_t(split.fields.size());
  for (std::size_t i = 0; i < split.fields.size(); ++i) {
    const ResidentField& field = split.fields[i];
    FeedSource::Field& on_device = source_.fields[i];
    on_device.bytes = on_device.stride = field.sample_bytes;
    if (split.image != nullptr && field.name == "image") {
      source_.image_field = std::int32_t(i);
      on_device.stride = rounded_up(field.sample_bytes, kImageAlignment);
    }
    places.push_back(take(on_device.stride * split.num_samples));
  }
  std::vector<std::byte> table;
  std::int64_t program_place = 0, table_place = 0;
  if (split.image != nullptr) {
    program_ = std::make_unique<const pixel::Program>(*split.image);
    table = table_of(*program_);
    program_place = take(sizeof(pixel::Program));
    table_place = take(std::int64_t(table.size()));
  }
  memory_ = make_device_arena(num_bytes);
  source_.num_samples = split.num_samples;
  source_.seed = split.seed;
  source_.split = split.split;
  for (std::size_t i = 0; i < places.size(); ++i) {
    FeedSource::Field& on_device = source_.fields[i];
    std::byte* to = memory_->base() + places[i];
    on_device.data = to;
    const auto bytes = std::size_t(on_device.bytes);
    TR_CUDA(cudaMemcpy2D(to, std::size_t(on_device.stride), split.fields[i].data, bytes, bytes,
                         std::size_t(split.num_samples), cudaMemcpyHostToDevice));
  }
  if (program_) {
    std::byte* const base = memory_->base();
    source_.program = reinterpret_cast<const pixel::Program*>(base + program_place);
    source_.table = base + table_place;
    TR_CUDA(cudaMemcpy(base + program_place, program_.get(), sizeof(pixel::Program),
                       cudaMemcpyHostToDevice));
    TR_CUDA(cudaMemcpy(base + table_place, table.data(), table.size(), cudaMemcpyHostToDevice));
  }
  // A copy from pageable memory may end after the call, and other streams do not wait for it.
  TR_CUDA(cudaStreamSynchronize(cudaStreamLegacy));
  prepare_feed();
}

}  // namespace tr::cuda

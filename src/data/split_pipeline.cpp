// SPDX-License-Identifier: Apache-2.0
#include "data/split_pipeline.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/half.h"

namespace tr::data {
namespace {

constexpr std::size_t kFieldAlignment = 256;
enum CacheState : std::uint8_t { kEmpty, kWriting, kFull };

std::size_t aligned(std::size_t bytes, std::size_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// FP32 values to the batch's type.
void convert_floats(const float* src, std::size_t count, DType dtype, std::byte* dst) {
  if (dtype == DType::FP32) {
    std::memcpy(dst, src, count * sizeof(float));
    return;
  }
  auto* out = reinterpret_cast<std::uint16_t*>(dst);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] =
        dtype == DType::BF16 ? from_float<BFloat16>(src[i]).bits : from_float<Half>(src[i]).bits;
  }
}

}  // namespace

SamplerConfig sampler_config(const LoaderConfig& loader, Split split) {
  const SplitConfig& config = loader.of(split);
  return {.num_samples = config.dataset->num_samples(),
          .batch_size = config.batch_size,
          .global_batch = config.global_batch,
          .rank = loader.rank,
          .world_size = loader.world_size,
          .shuffle = config.shuffle,
          .drop_last = config.drop_last,
          .seed = loader.seed,
          .split = std::uint64_t(split)};
}

SplitPipeline::SplitPipeline(std::string who, const SplitConfig& config, const LoaderConfig& loader,
                             Split split)
    : who_(std::move(who)),
      config_(config),
      split_(split),
      seed_(loader.seed),
      image_dtype_(loader.image_dtype) {
  TR_CHECK(config.dataset != nullptr, "{} data: there is no set", who_);
  TR_CHECK(!config.cache_processed || !config.transforms.is_random(),
           "{} data: processed samples can be kept (using_cpvs) for deterministic transforms only, "
           "the chain is {}",
           who_, config.transforms.str());
  sampler_.emplace(sampler_config(loader, split));
  plan_fields(loader);
  if (config.cache_processed) {
    cache_ = std::make_unique<Cache>(std::size_t(config.dataset->num_samples()), sample_bytes_);
  }
}

void SplitPipeline::plan_fields(const LoaderConfig& loader) {
  for (const Field& field : config_.dataset->fields()) {
    FieldPlan plan;
    plan.name = field.name;
    plan.input_bytes = plan.sample_bytes = std::size_t(bytes_of(field.type));
    if (field.name == "image") {
      image_field_ = int(fields_.size());
      plan_image(plan, field, loader);
    }
    plan.offset = slot_bytes_;
    slot_bytes_ += aligned(plan.sample_bytes * std::size_t(config_.batch_size), kFieldAlignment);
    sample_bytes_ += plan.sample_bytes;
    fields_.push_back(plan);
  }
  TR_CHECK(image_field_ >= 0 || config_.transforms.transforms.empty(),
           "{} data: the set {} has no field \"image\" for the transforms {}", who_,
           config_.dataset->name(), config_.transforms.str());
}

void SplitPipeline::plan_image(FieldPlan& plan, const Field& field, const LoaderConfig& loader) {
  TR_CHECK(is_floating(loader.image_dtype),
           "{} data: image_dtype is {}, expected fp32, fp16 or bf16", who_, loader.image_dtype);
  plan.buffered = true;
  if (field.type.dtype == DType::UINT8) {
    chain_.emplace(config_.transforms, field.type.shape, loader.image_dtype);
    plan.sample_bytes = chain_->output_bytes();
    input_stride_ = aligned(chain_->input_buffer_bytes(), 64);
    return;
  }
  const Normalization& norm = config_.transforms.normalization;
  TR_CHECK(field.type.dtype == DType::FP32,
           "{} data: the field \"image\" is {}, expected uint8 or fp32", who_, field.type);
  TR_CHECK(
      config_.transforms.transforms.empty() && norm.mode == NormMode::NO_NORM && norm.mean.empty(),
      "{} data: the field \"image\" is fp32 and is taken as it is; transforms and normalisation "
      "({}) "
      "need uint8 pixels",
      who_, config_.transforms.str());
  plan.sample_bytes = std::size_t(field.type.shape.num_elements()) * size_of(loader.image_dtype);
  input_stride_ = aligned(plan.input_bytes, 64);
}

std::map<std::string, const void*> SplitPipeline::field_pointers(const std::byte* base) const {
  std::map<std::string, const void*> pointers;
  for (const FieldPlan& field : fields_) pointers[field.name] = base + field.offset;
  return pointers;
}

void SplitPipeline::reserve(WorkerScratch& scratch) const {
  const std::size_t inputs = input_stride_ * std::size_t(kChunk);
  const std::size_t steps = chain_ ? chain_->scratch_bytes() : 0;
  scratch.inputs.resize(std::max(scratch.inputs.size(), inputs));
  scratch.steps.resize(std::max(scratch.steps.size(), steps));
  scratch.outputs.resize(std::max(scratch.outputs.size(), fields_.size()));
}

void SplitPipeline::fill(const WorkItem& item, WorkerScratch& scratch, WorkProgress& progress) {
  for (std::int64_t first = 0; first < item.count; first += kChunk) {
    fill_chunk(item, first, std::min(kChunk, item.count - first), scratch, progress);
  }
}

void SplitPipeline::fill_chunk(const WorkItem& item, std::int64_t first, std::int64_t count,
                               WorkerScratch& scratch, WorkProgress& progress) {
  std::int64_t ids[kChunk];
  bool cached[kChunk];
  const std::int64_t start_ns = now_ns();
  std::byte* input = scratch.inputs.data();
  for (std::int64_t i = 0; i < count; ++i, input += input_stride_) {
    progress.row = item.first_row + first + i;
    ids[i] = sampler_->sample_at(*item.order, item.first_position + first + i);
    cached[i] = cache_ && copy_from_cache(ids[i], progress.row, item.slot);
    if (!cached[i]) read_sample(ids[i], progress.row, item.slot, input, scratch);
  }
  const std::int64_t read_ns = now_ns();
  input = scratch.inputs.data();
  for (std::int64_t i = 0; i < count; ++i, input += input_stride_) {
    if (cached[i]) continue;
    const std::int64_t row = item.first_row + first + i;
    convert_image(item, ids[i], row, input, scratch);
    if (cache_) copy_to_cache(ids[i], row, item.slot);
  }
  progress.read_ns += read_ns - start_ns;
  progress.transform_ns += now_ns() - read_ns;
}

void SplitPipeline::read_sample(std::int64_t id, std::int64_t row, std::byte* slot,
                                std::byte* input, WorkerScratch& scratch) const {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    const FieldPlan& field = fields_[i];
    scratch.outputs[i] =
        field.buffered ? input : slot + field.offset + std::size_t(row) * field.sample_bytes;
  }
  config_.dataset->read(id, {scratch.outputs.data(), fields_.size()});
}

void SplitPipeline::convert_image(const WorkItem& item, std::int64_t id, std::int64_t row,
                                  const std::byte* input, WorkerScratch& scratch) const {
  if (image_field_ < 0) return;
  const FieldPlan& field = fields_[std::size_t(image_field_)];
  std::byte* out = item.slot + field.offset + std::size_t(row) * field.sample_bytes;
  if (!chain_) {
    convert_floats(reinterpret_cast<const float*>(input), field.input_bytes / sizeof(float),
                   image_dtype_, out);
    return;
  }
  const DrawAddress address = pixel::augment_address(seed_, std::uint64_t(split_), item.epoch, id);
  chain_->run(reinterpret_cast<const std::uint8_t*>(input), out, address, scratch.steps.data());
}

bool SplitPipeline::copy_from_cache(std::int64_t id, std::int64_t row, std::byte* slot) const {
  if (cache_->state[std::size_t(id)].load(std::memory_order_acquire) != kFull) return false;
  const std::byte* src = cache_->bytes.data() + std::size_t(id) * sample_bytes_;
  for (const FieldPlan& field : fields_) {
    std::memcpy(slot + field.offset + std::size_t(row) * field.sample_bytes, src,
                field.sample_bytes);
    src += field.sample_bytes;
  }
  return true;
}

void SplitPipeline::copy_to_cache(std::int64_t id, std::int64_t row, const std::byte* slot) {
  // The same sample of the next phase may be on its way in another worker: the first one writes.
  std::uint8_t expected = kEmpty;
  std::atomic<std::uint8_t>& state = cache_->state[std::size_t(id)];
  if (!state.compare_exchange_strong(expected, kWriting, std::memory_order_relaxed)) return;
  std::byte* dst = cache_->bytes.data() + std::size_t(id) * sample_bytes_;
  for (const FieldPlan& field : fields_) {
    std::memcpy(dst, slot + field.offset + std::size_t(row) * field.sample_bytes,
                field.sample_bytes);
    dst += field.sample_bytes;
  }
  state.store(kFull, std::memory_order_release);
}

}  // namespace tr::data

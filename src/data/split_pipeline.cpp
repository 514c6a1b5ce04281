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
constexpr std::size_t kInputAlignment = 64;
constexpr std::size_t kUnitBytes = 16
                                   << 10;  // of samples as they are read: half a first-level cache

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
      image_dtype_(loader.image_dtype),
      bad_samples_(loader.bad_samples) {
  TR_CHECK(config.dataset != nullptr, "{} data: there is no set", who_);
  TR_CHECK(!config.cache_processed || !config.transforms.is_random(),
           "{} data: processed samples can be kept (using_cpvs) for deterministic transforms only, "
           "the chain is {}",
           who_, config.transforms.str());
  sampler_.emplace(sampler_config(loader, split));
  plan_fields(loader);
  if (config.cache_processed) {
    cache_ =
        std::make_unique<ProcessedCache>(std::size_t(config.dataset->num_samples()), sample_bytes_);
  }
}

void SplitPipeline::plan_fields(const LoaderConfig& loader) {
  const std::vector<Field> fields = config_.dataset->fields();
  TR_CHECK(fields.size() <= kMostFields,
           "{} data: the set {} has {} fields, at most {} are possible", who_,
           config_.dataset->name(), fields.size(), kMostFields);
  for (const Field& field : fields) {
    FieldPlan plan;
    plan.name = field.name;
    plan.input_bytes = plan.sample_bytes = std::size_t(bytes_of(field.type));
    if (field.name == "image") {
      image_field_ = int(fields_.size());
      encoded_ = field.encoded;
      plan_image(plan, field, loader);
    }
    plan.input_offset = input_stride_;
    input_stride_ += aligned(plan.input_bytes, kInputAlignment);
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
  if (field.type.dtype == DType::UINT8) {
    chain_.emplace(config_.transforms, field.type.shape, loader.image_dtype);
    plan.sample_bytes = chain_->output_bytes();
    plan.input_bytes = chain_->input_buffer_bytes();
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
}

std::map<std::string, const void*> SplitPipeline::field_pointers(const std::byte* base) const {
  std::map<std::string, const void*> pointers;
  for (const FieldPlan& field : fields_) pointers[field.name] = base + field.offset;
  return pointers;
}

bool SplitPipeline::reads_files() const { return encoded_; }

std::int64_t SplitPipeline::unit_samples(std::int64_t most) const {
  const auto fit =
      encoded_ ? 1 : std::int64_t(kUnitBytes / std::max<std::size_t>(1, input_stride_));
  return std::clamp<std::int64_t>(std::min(fit, most), 1, kMostUnitSamples);
}

void SplitPipeline::reserve(WorkerScratch& scratch) const {
  const std::size_t steps = chain_ ? chain_->scratch_bytes() : 0;
  scratch.steps.resize(std::max(scratch.steps.size(), steps));
  if (encoded_) {
    const Field image = config_.dataset->fields()[std::size_t(image_field_)];
    scratch.pictures[std::size_t(split_)] =
        std::make_unique<PictureStage>(int(image.type.shape.back()));
  }
}

void SplitPipeline::read(const Unit& unit, UnitBuffer& buffer, StageTimes& times) const {
  const std::int64_t start_ns = now_ns();
  buffer.skipped.clear();
  for (std::int64_t i = 0; i < unit.count; ++i) {
    const std::int64_t id = sampler_->sample_at(*unit.order, unit.first_position + i);
    buffer.ids[std::size_t(i)] = buffer.sources[std::size_t(i)] = id;
    const std::byte*& processed = buffer.processed[std::size_t(i)];
    processed = cache_ ? cache_->find(id) : nullptr;
    if (processed == nullptr) config_.dataset->prefetch(id);
  }
  std::byte* input = buffer.bytes;
  for (std::int64_t i = 0; i < unit.count; ++i, input += input_stride_) {
    buffer.row = unit.first_row + i;
    if (buffer.processed[std::size_t(i)] != nullptr) continue;
    buffer.sources[std::size_t(i)] = fetch(buffer.ids[std::size_t(i)], input,
                                           encoded_ ? &buffer.pictures[std::size_t(i)] : nullptr);
  }
  times[Stage::READ] += now_ns() - start_ns;
}

void SplitPipeline::read_sample(std::int64_t id, std::byte* input, EncodedPicture* picture) const {
  std::array<std::byte*, kMostFields> outputs;
  for (std::size_t i = 0; i < fields_.size(); ++i) outputs[i] = input + fields_[i].input_offset;
  const std::span<std::byte* const> out(outputs.data(), fields_.size());
  picture == nullptr ? config_.dataset->read(id, out)
                     : config_.dataset->read_encoded(id, *picture, out);
}

template <typename Use>
std::int64_t SplitPipeline::stand_in(std::int64_t id, std::int64_t source, const std::string& what,
                                     Use&& use) const {
  const Dataset& set = *config_.dataset;
  bad_samples_->note(who_, source, set.sample_name(source), what);
  if (bad_samples_->policy() == BadSamplePolicy::SKIP) return -1;
  for (int attempt = 0; attempt < kReplacementTries; ++attempt) {
    const std::int64_t other =
        replacement_for(seed_, std::uint64_t(split_), id, attempt, set.num_samples());
    try {
      use(other);
      return other;
    } catch (const DataError& error) {
      bad_samples_->note(who_, other, set.sample_name(other), error.what());
    }
  }
  throw_as<DataError>("{}: cannot be read, nor {} others that were drawn in its place: {}",
                      set.sample_name(id), kReplacementTries, what);
}

std::int64_t SplitPipeline::fetch(std::int64_t id, std::byte* input,
                                  EncodedPicture* picture) const {
  try {
    read_sample(id, input, picture);
    return id;
  } catch (const DataError& error) {
    const bool stopped = picture != nullptr && picture->stop.stop_requested();
    if (!bad_samples_ || bad_samples_->policy() == BadSamplePolicy::FAIL || stopped) throw;
    return stand_in(id, id, error.what(),
                    [&](std::int64_t other) { read_sample(other, input, picture); });
  }
}

void SplitPipeline::write(const Unit& unit, UnitBuffer& buffer, std::byte* slot,
                          WorkerScratch& scratch, StageTimes& times) {
  const std::int64_t start_ns = now_ns();
  // Where a sample's pixels are done is looked at in the first one only: a clock costs as much as a
  // small picture's step.
  std::int64_t pixels_ns = 0, sample_ns = 0;
  std::byte* input = buffer.bytes;
  for (std::int64_t i = 0; i < unit.count; ++i, input += input_stride_) {
    const std::int64_t id = buffer.ids[std::size_t(i)];
    buffer.row = unit.first_row + i;
    if (buffer.processed[std::size_t(i)] != nullptr) {
      copy_processed(buffer.processed[std::size_t(i)], buffer.row, slot);
      continue;
    }
    if (buffer.sources[std::size_t(i)] < 0) {
      buffer.skipped.push_back(buffer.row);
      continue;
    }
    const bool timed = sample_ns == 0;
    const std::int64_t sample_start_ns = timed ? now_ns() : 0;
    const Row row{id,
                  buffer.row,
                  input,
                  slot,
                  encoded_ ? &buffer.pictures[std::size_t(i)] : nullptr,
                  buffer.sources[std::size_t(i)]};
    if (!write_or_stand_in(row, unit.epoch, scratch, timed ? &pixels_ns : nullptr)) {
      buffer.skipped.push_back(buffer.row);
      continue;
    }
    if (timed) {
      pixels_ns -= sample_start_ns;
      sample_ns = now_ns() - sample_start_ns;
    }
    if (cache_) keep_processed(id, buffer.row, slot);
  }
  const std::int64_t decode_ns =
      encoded_ ? scratch.pictures[std::size_t(split_)]->take_decode_ns() : 0;
  times[Stage::DECODE] += decode_ns;
  const std::int64_t all_ns = now_ns() - start_ns - decode_ns;
  const double share =
      sample_ns > decode_ns ? double(pixels_ns - decode_ns) / double(sample_ns - decode_ns) : 0.0;
  const auto transform_ns = std::int64_t(double(all_ns) * share);
  times[Stage::TRANSFORM] += transform_ns;
  times[Stage::NORMALISE] += all_ns - transform_ns;
}

bool SplitPipeline::write_or_stand_in(const Row& row, std::int64_t epoch, WorkerScratch& scratch,
                                      std::int64_t* pixels_done_ns) const {
  try {
    write_sample(row, epoch, scratch, pixels_done_ns);
    return true;
  } catch (const DataError& error) {  // a picture that cannot be decoded
    if (!bad_samples_ || bad_samples_->policy() == BadSamplePolicy::FAIL) throw;
    const auto use = [&](std::int64_t other) {
      read_sample(other, row.input, row.picture);
      Row instead = row;
      instead.source = other;
      write_sample(instead, epoch, scratch, pixels_done_ns);
    };
    return stand_in(row.id, row.source, error.what(), use) >= 0;
  }
}

ImageRef SplitPipeline::picture_pixels(const Row& row, const DrawAddress& address,
                                       WorkerScratch& scratch) const {
  PictureStage& stage = *scratch.pictures[std::size_t(split_)];
  const std::string who = config_.dataset->sample_name(row.source);
  const ImageRef pixels = stage.run_pixels(*chain_, row.picture->bytes, who, address);
  if (!stage.warning().empty() && bad_samples_) {
    bad_samples_->warn(who_, row.source, who, stage.warning());
  }
  return pixels;
}

void SplitPipeline::write_sample(const Row& row, std::int64_t epoch, WorkerScratch& scratch,
                                 std::int64_t* pixels_done_ns) const {
  const std::uint8_t* pixels = nullptr;
  const DrawAddress address = pixel::augment_address(seed_, std::uint64_t(split_), epoch, row.id);
  ImageRef picture;
  if (encoded_) {
    picture = picture_pixels(row, address, scratch);
  } else if (chain_) {
    const std::byte* image = row.input + fields_[std::size_t(image_field_)].input_offset;
    pixels = chain_->run_pixels(reinterpret_cast<const std::uint8_t*>(image), address,
                                scratch.steps.data());
  }
  if (pixels_done_ns != nullptr) *pixels_done_ns = now_ns();
  for (std::size_t f = 0; f < fields_.size(); ++f) {
    const FieldPlan& field = fields_[f];
    std::byte* out = field.row(row.slot, row.row);
    const std::byte* in = row.input + field.input_offset;
    if (int(f) != image_field_) {
      std::memcpy(out, in, field.sample_bytes);
    } else if (encoded_) {
      chain_->normalise(picture, out, address);
    } else if (chain_) {
      chain_->normalise(pixels, out, address);
    } else {
      convert_floats(reinterpret_cast<const float*>(in), field.input_bytes / sizeof(float),
                     image_dtype_, out);
    }
  }
}

void SplitPipeline::copy_row(std::byte* slot, std::int64_t from, std::int64_t to) const {
  for (const FieldPlan& field : fields_) {
    std::memcpy(field.row(slot, to), field.row(slot, from), field.sample_bytes);
  }
}

void SplitPipeline::copy_processed(const std::byte* processed, std::int64_t row,
                                   std::byte* slot) const {
  for (const FieldPlan& field : fields_) {
    std::memcpy(field.row(slot, row), processed, field.sample_bytes);
    processed += field.sample_bytes;
  }
}

void SplitPipeline::keep_processed(std::int64_t id, std::int64_t row, std::byte* slot) {
  std::byte* to = cache_->begin(id);
  if (to == nullptr) return;
  for (const FieldPlan& field : fields_) {
    std::memcpy(to, field.row(slot, row), field.sample_bytes);
    to += field.sample_bytes;
  }
  cache_->done(id);
}

}  // namespace tr::data

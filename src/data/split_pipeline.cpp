// SPDX-License-Identifier: Apache-2.0
#include "data/split_pipeline.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/check.h"
#include "core/clock.h"
#include "core/format.h"
#include "core/half.h"
#include "core/host_memory.h"
#include "core/human.h"
#include "core/log.h"

namespace tr::data {
namespace {

constexpr std::size_t kFieldAlignment = 256;
constexpr std::size_t kInputAlignment = 64;
constexpr std::size_t kUnitBytes = 16
                                   << 10;  // of samples as they are read: half a first-level cache
constexpr std::int64_t kMarksShare = 16;   // of the machine's memory

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
      raw_images_(loader.raw_images),
      decode_(loader.decode),
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
  plan_marks(loader.world_size);
}

void SplitPipeline::plan_marks(int ranks) {
  if (!encoded_ || !config_.transforms.is_random() || !chain_->takes_a_part()) return;
  if (!decode_.remember_rows || !decode_.decode_crop_only || !decode_.own_huffman) return;
  const std::int64_t samples = config_.dataset->num_samples();
  const std::int64_t bytes = ScanMarkStore::bytes_for(samples) * ranks;
  if (bytes > host_memory_bytes() / kMarksShare) {
    log_info(
        "{} data: where rows of {} pictures begin is not remembered: {} are more than 1/{} of "
        "the memory",
        who_, samples, format_bytes(bytes), kMarksShare);
    return;
  }
  try {
    marks_ = std::make_unique<ScanMarkStore>(samples);
  } catch (const std::bad_alloc&) {
    log_info("{} data: where rows of pictures begin is not remembered: {} cannot be had", who_,
             format_bytes(bytes));
  }
}

void SplitPipeline::plan_fields(const LoaderConfig& loader) {
  const std::vector<Field> fields = config_.dataset->fields();
  TR_CHECK(fields.size() <= kMostFields,
           "{} data: the set {} has {} fields, at most {} are possible", who_,
           config_.dataset->name(), fields.size(), kMostFields);
  const bool mixes = mixes_batches(config_.transforms);
  const std::int64_t rows = config_.batch_size + (mixes ? 1 : 0);
  for (const Field& field : fields) {
    FieldPlan plan;
    plan.name = field.name;
    plan.input_bytes = plan.sample_bytes = std::size_t(bytes_of(field.type));
    if (field.name == "image") {
      image_field_ = int(fields_.size());
      encoded_ = field.encoded;
      plan_image(plan, field, loader);
    }
    if (field.name == "label") {
      label_field_ = int(fields_.size());
      label_dtype_ = field.type.dtype;
    }
    plan.input_offset = input_stride_;
    input_stride_ += aligned(plan.input_bytes, kInputAlignment);
    place_rows(plan, rows);
    sample_bytes_ += plan.sample_bytes;
    fields_.push_back(plan);
  }
  TR_CHECK(image_field_ >= 0 || config_.transforms.transforms.empty(),
           "{} data: the set {} has no field \"image\" for the transforms {}", who_,
           config_.dataset->name(), config_.transforms.str());
  if (raw_images_) plan_tail();
  if (mixes) plan_mixing(fields, loader);
}

void SplitPipeline::plan_tail() {
  TR_CHECK(chain_, "{} data: the set {} has no images of type uint8 that a graph could normalise",
           who_, config_.dataset->name());
  FieldPlan plan;
  plan.name = "image_tail";
  plan.sample_bytes = sizeof(pixel::ImageTail);
  plan.input_offset = input_stride_;
  tail_field_ = int(fields_.size());
  place_rows(plan, config_.batch_size);
  sample_bytes_ += plan.sample_bytes;
  fields_.push_back(plan);
}

void SplitPipeline::place_rows(FieldPlan& plan, std::int64_t rows) {
  plan.offset = slot_bytes_;
  slot_bytes_ += aligned(plan.sample_bytes * std::size_t(rows), kFieldAlignment);
}

void SplitPipeline::plan_mixing(std::span<const Field> fields, const LoaderConfig& loader) {
  const auto refuse = [&](std::string_view why) {
    throw_as<InvalidArgument>("{} data: {}: batches cannot be mixed: {}", who_,
                              config_.transforms.str(), why);
  };
  if (split_ != Split::TRAIN) refuse("only training batches are");
  if (!chain_) refuse("the set has no images of type uint8");
  if (raw_images_) refuse("their images are left to be normalised");
  const auto label = std::find_if(fields.begin(), fields.end(),
                                  [](const Field& field) { return field.name == "label"; });
  const bool is_class = label != fields.end() && label->type.shape.rank() == 0 &&
                        (label_dtype_ == DType::INT32 || label_dtype_ == DType::INT64);
  if (!is_class) refuse("the set has no field \"label\" that is a class number");
  const bool taken = std::any_of(fields.begin(), fields.end(),
                                 [](const Field& field) { return field.name == "soft_label"; });
  if (taken) refuse("the set has a field \"soft_label\" of its own");
  const Shape out = chain_->output_shape();
  mix_ = BatchMix::of(config_.transforms, {int(out[0]), int(out[1]), int(out[2])},
                      loader.image_dtype, config_.mixed_classes);
  soft_label_.name = "soft_label";
  soft_label_.sample_bytes = std::size_t(config_.mixed_classes) * sizeof(float);
  place_rows(soft_label_, config_.batch_size);
}

void SplitPipeline::mix(const Unit& unit, std::byte* slot) const {
  const std::int64_t size = unit.batch_size;
  if (size == 0) return;
  if (size == sampler_->step_size(unit.step_position / sampler_->config().global_batch)) {
    copy_row(slot, size - 1, size);  // the step's last one stands before its first
  }
  mix_->apply({.images = fields_[std::size_t(image_field_)].row(slot, 0),
               .labels = fields_[std::size_t(label_field_)].row(slot, 0),
               .label_dtype = label_dtype_,
               .soft_labels = reinterpret_cast<float*>(soft_label_.row(slot, 0)),
               .count = size},
              pixel::batch_address(seed_, unit.epoch, unit.step_position));
}

void SplitPipeline::plan_image(FieldPlan& plan, const Field& field, const LoaderConfig& loader) {
  TR_CHECK(is_floating(loader.image_dtype),
           "{} data: image_dtype is {}, expected fp32, fp16 or bf16", who_, loader.image_dtype);
  if (field.type.dtype == DType::UINT8) {
    chain_.emplace(config_.transforms, field.type.shape, loader.image_dtype);
    if (raw_images_) plan.name = "image_pixels";
    plan.sample_bytes = raw_images_ ? chain_->pixels_shape().num_bytes() : chain_->output_bytes();
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
  if (mix_) pointers[soft_label_.name] = base + soft_label_.offset;
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
    DecodeOptions options = decode_;
    options.color_channels = int(image.type.shape.back());
    scratch.pictures[std::size_t(split_)] = std::make_unique<PictureStage>(options);
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
  std::array<std::byte*, kMostFields + 1> outputs;
  for (std::size_t i = 0; i < fields_.size(); ++i) outputs[i] = input + fields_[i].input_offset;
  const std::span<std::byte* const> out(outputs.data(), num_set_fields());
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
  if (encoded_) times.decoded = scratch.pictures[std::size_t(split_)]->take_decoded();
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
  const std::vector<std::byte>& bytes = row.picture->bytes;
  ScanMarks marks;
  if (marks_) marks = marks_->find(row.source, bytes);
  const std::uint16_t known = marks.known;
  const ImageRef pixels =
      stage.run_pixels(*chain_, {bytes, who, marks_ ? &marks : nullptr}, address);
  if (marks.known > known) marks_->keep(row.source, marks);
  if (!stage.warning().empty() && bad_samples_) {
    bad_samples_->warn(who_, row.source, who, stage.warning());
  }
  return pixels;
}

void SplitPipeline::write_sample(const Row& row, std::int64_t epoch, WorkerScratch& scratch,
                                 std::int64_t* pixels_done_ns) const {
  const DrawAddress address = pixel::augment_address(seed_, std::uint64_t(split_), epoch, row.id);
  ImageRef pixels;
  if (encoded_) {
    pixels = picture_pixels(row, address, scratch);
  } else if (chain_) {
    const std::byte* image = row.input + fields_[std::size_t(image_field_)].input_offset;
    pixels = {chain_->run_pixels(reinterpret_cast<const std::uint8_t*>(image), address,
                                 scratch.steps.data()),
              chain_->pixels_shape()};
  }
  if (pixels_done_ns != nullptr) *pixels_done_ns = now_ns();
  for (std::size_t f = 0; f < num_set_fields(); ++f) {
    const FieldPlan& field = fields_[f];
    std::byte* out = field.row(row.slot, row.row);
    const std::byte* in = row.input + field.input_offset;
    if (int(f) != image_field_) {
      std::memcpy(out, in, field.sample_bytes);
    } else if (chain_) {
      write_image(row, pixels, address);
    } else {
      convert_floats(reinterpret_cast<const float*>(in), field.input_bytes / sizeof(float),
                     image_dtype_, out);
    }
  }
}

void SplitPipeline::write_image(const Row& row, const ImageRef& pixels,
                                const DrawAddress& address) const {
  std::byte* out = fields_[std::size_t(image_field_)].row(row.slot, row.row);
  if (!raw_images_) return chain_->normalise(pixels, out, address);
  const pixel::ImageTail tail =
      chain_->leave(pixels, reinterpret_cast<std::uint8_t*>(out), address);
  std::memcpy(fields_[std::size_t(tail_field_)].row(row.slot, row.row), &tail, sizeof tail);
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

// SPDX-License-Identifier: Apache-2.0
#include "task/held_data.h"

#include <algorithm>
#include <optional>

#include "backend/device_backend.h"
#include "core/check.h"
#include "core/format.h"
#include "core/human.h"
#include "data/memory_dataset.h"
#include "data/resident_set.h"
#include "data/transforms/program.h"

namespace tr {

namespace {

constexpr std::int64_t kMostOfMemory = 4;  // the sets take at most a quarter of the device's

/// How the field "image" becomes the network's input; none if it is stored as it is fed.
std::optional<pixel::Program> image_program(const data::SplitConfig& split, DType dtype) {
  for (const Field& field : split.dataset->fields()) {
    if (field.name == "image" && field.type.dtype == DType::UINT8)
      return data::program_of(split.transforms, field.type.shape, dtype);
  }
  return std::nullopt;
}

std::int64_t device_memory(const CompiledRun& run) {
  for (const DeviceInfo& device : find_backend(run.device.kind)->devices()) {
    if (device.index == run.device.gpus.front()) return device.memory_bytes;
  }
  return 0;
}

std::vector<int> variants_of(const CompiledRun& run, Mode mode) {
  std::vector<int> variants;
  for (std::size_t v = 0; v < run.compiled.variants.size(); ++v) {
    if (run.compiled.variants[v].mode == mode) variants.push_back(int(v));
  }
  return variants;
}

}  // namespace

std::int64_t held_bytes(const CompiledRun& run) {
  const data::LoaderConfig loader = run.loader_config(0);
  std::int64_t bytes = 0;
  for (const data::SplitConfig* split : {&loader.train, &loader.val}) {
    if (split->dataset) bytes += data::resident_bytes(*split->dataset, loader.image_dtype);
  }
  return bytes;
}

std::string why_not_held(const CompiledRun& run) {
  if (run.device.kind == DeviceKind::CPU) return "the CPU reads from memory anyway";
  if (run.batches.world_size > 1) return "there are several ranks";
  const data::LoaderConfig loader = run.loader_config(0);
  const PreprocessorSetting::Values& settings = run.config.preprocessor.values();
  const bool may_skip = settings.bad_samples != BadSamplePolicy::FAIL;
  for (const data::SplitConfig* split : {&loader.train, &loader.val}) {
    if (!split->dataset) continue;
    if (may_skip && !data::is_in_memory(*split->dataset))
      return "bad_sample_policy is not fail: samples are read one by one";
    for (const Field& field : split->dataset->fields()) {
      if (field.encoded) return "the samples are picture files, which the host decodes";
    }
    try {
      image_program(*split, loader.image_dtype);
    } catch (const Error& error) {
      return error.what();
    }
  }
  const std::int64_t bytes = held_bytes(run);
  const std::int64_t most = device_memory(run) / kMostOfMemory;
  if (bytes > most) {
    return fmt::format("they have {}, more than a quarter of the device's memory ({})",
                       format_bytes(bytes), format_bytes(most));
  }
  return "";
}

std::string why_not_on_device(const CompiledRun& run, std::int64_t budget_bytes) {
  if (std::string reason = why_not_held(run); !reason.empty()) return reason;
  const std::int64_t bytes = held_bytes(run);
  const std::int64_t left = budget_bytes - run.compiled.memory.peak_bytes();
  if (bytes > left) {
    return fmt::format("they have {}, the arena leaves {} of the device's memory",
                       format_bytes(bytes), format_bytes(std::max<std::int64_t>(0, left)));
  }
  return "";
}

HeldData::HeldData(const CompiledRun& run, Executor& executor) : executor_(executor) {
  if (run.data.train) hold(run, data::Split::TRAIN);
  if (run.data.val) hold(run, data::Split::VAL);
}

void HeldData::hold(const CompiledRun& run, data::Split split) {
  const data::LoaderConfig loader = run.loader_config(0);
  const data::SplitConfig& config = loader.of(split);
  const bool training = split == data::Split::TRAIN;
  const data::ResidentSet set(*config.dataset, loader.image_dtype);
  const std::optional<pixel::Program> program = image_program(config, loader.image_dtype);
  Held& held = training ? train_ : val_;
  held.split = {.num_samples = set.num_samples(),
                .seed = loader.seed,
                .split = training ? 0u : 1u,
                .shuffle = config.shuffle};
  for (const NamedTensor& field : set.fields()) {
    held.split.fields.push_back({field.name, static_cast<const std::byte*>(field.tensor.raw()),
                                 std::int64_t(field.tensor.num_bytes()) / set.num_samples()});
  }
  held.split.image = program ? &*program : nullptr;
  const std::vector<int> variants = variants_of(run, training ? Mode::TRAIN : Mode::EVAL);
  held.number = executor_.hold(held.split, variants);
  held.split.fields.clear();  // the device has them; only its order is asked from now on
  held.split.image = nullptr;
}

void HeldData::run(data::Split split, int variant, std::int64_t epoch,
                   std::span<const std::int64_t> positions) {
  const Held& held = split == data::Split::TRAIN ? train_ : val_;
  const FeedRow first = feed_row(held.split, epoch, 0);
  rows_.assign(positions.size(), first);
  for (std::size_t i = 0; i < positions.size(); ++i) rows_[i].position = positions[i];
  executor_.run_held(held.number, variant, rows_);
}

}  // namespace tr

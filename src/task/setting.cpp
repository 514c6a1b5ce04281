// SPDX-License-Identifier: Apache-2.0
#include "renaissance/task/setting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/check.h"
#include "core/format.h"
#include "data/transforms/words.h"
#include "task/parse.h"

namespace tr {

namespace {

constexpr int kMaxGpuIndex = 63;

int parse_gpu_index(const std::string& ids, std::string_view text) {
  const auto index = parse_number<int>(text);
  TR_CHECK(index && *index >= 0 && *index <= kMaxGpuIndex,
           "use_gpu(\"{}\"): \"{}\" is not a device index, expected a number from 0 to {}", ids,
           text, kMaxGpuIndex);
  return *index;
}

}  // namespace

DeviceSetting DeviceSetting::parse_gpus(const std::string& ids) {
  DeviceSetting device{.kind = Kind::CUDA};
  for (const std::string_view part : split(ids, ',')) {
    const std::size_t dash = part.find('-');
    const int first = parse_gpu_index(ids, part.substr(0, dash));
    const int last =
        dash == std::string_view::npos ? first : parse_gpu_index(ids, part.substr(dash + 1));
    TR_CHECK(first <= last, "use_gpu(\"{}\"): the range {} runs backwards", ids, part);
    for (int i = first; i <= last; ++i) {
      TR_CHECK(std::find(device.gpus.begin(), device.gpus.end(), i) == device.gpus.end(),
               "use_gpu(\"{}\"): device {} is named twice", ids, i);
      device.gpus.push_back(i);
    }
  }
  std::sort(device.gpus.begin(), device.gpus.end());
  return device;
}

DeviceSetting DeviceSetting::parse(const std::string& text) {
  if (text == "cpu") return {.kind = Kind::CPU};
  if (text == "cuda") return {.kind = Kind::CUDA};
  TR_CHECK(text.rfind("cuda:", 0) == 0, "device is \"{}\", expected cpu, cuda or cuda:I", text);
  return parse_gpus(text.substr(5));
}

std::string DeviceSetting::str() const {
  if (kind == Kind::UNSET) return "";
  if (kind == Kind::CPU) return "cpu";
  return gpus.empty() ? "cuda" : fmt::format("cuda:{}", fmt::join(gpus, ","));
}

GlobalSetting& GlobalSetting::use_gpu(const std::string& ids) {
  values_.device = ids.empty() ? DeviceSetting{.kind = DeviceSetting::Kind::CUDA}
                               : DeviceSetting::parse_gpus(ids);
  return *this;
}

GlobalSetting& GlobalSetting::use_cpu() {
  values_.device = {.kind = DeviceSetting::Kind::CPU};
  return *this;
}

GlobalSetting& GlobalSetting::amp(bool on) {
  values_.low_dtype = on ? std::optional(DType::FP16) : std::nullopt;
  return *this;
}

GlobalSetting& GlobalSetting::amp(DType low_dtype) {
  TR_CHECK(low_dtype == DType::FP16 || low_dtype == DType::BF16,
           "amp: the type is {}, expected fp16 or bf16", low_dtype);
  values_.low_dtype = low_dtype;
  return *this;
}

GlobalSetting& GlobalSetting::use_tf32(bool on) {
  values_.tf32 = on;
  return *this;
}

GlobalSetting& GlobalSetting::manual_seed(std::uint64_t seed) {
  values_.seed = seed;
  return *this;
}

GlobalSetting& GlobalSetting::deterministic(bool on) {
  values_.deterministic = on;
  return *this;
}

GlobalSetting& GlobalSetting::search_seconds(double s) {
  TR_CHECK(s >= 0 && std::isfinite(s), "search_seconds is {}, expected 0 or more", s);
  values_.search_seconds = s;
  return *this;
}

GlobalSetting& GlobalSetting::tuning_cache(std::string place) {
  TR_CHECK(!place.empty(), "tuning_cache is empty, expected auto, off or a file's path");
  values_.tuning_cache = std::move(place);
  return *this;
}

GlobalSetting& GlobalSetting::global_batch_size(std::int64_t n) {
  TR_CHECK(n >= 1, "global_batch_size is {}, expected at least 1", n);
  values_.global_batch_size = n;
  return *this;
}

GlobalSetting& GlobalSetting::local_batch_size(std::int64_t n) {
  TR_CHECK(n >= 1, "local_batch_size is {}, expected at least 1", n);
  values_.local_batch_size = n;
  return *this;
}

GlobalSetting& GlobalSetting::accumulate_steps(int n) {
  constexpr int kMost = 65536;  // each one is a slot of the plan of batches
  TR_CHECK(n >= 1 && n <= kMost, "accumulate_steps is {}, expected 1 to {}", n, kMost);
  values_.accumulate_steps = n;
  values_.accumulate_auto = false;
  return *this;
}

GlobalSetting& GlobalSetting::accumulate_auto() {
  values_.accumulate_steps = 1;
  values_.accumulate_auto = true;
  return *this;
}

GlobalSetting& GlobalSetting::input_resolution(ImageSize size) {
  return train_resolution(size).val_resolution(size);
}

namespace {

ImageSize checked_resolution(const char* name, ImageSize size) {
  TR_CHECK(size.height >= 1 && size.width >= 1, "{} is {}, expected sides of at least 1 pixel",
           name, data::text_of(size));
  return size;
}

}  // namespace

GlobalSetting& GlobalSetting::train_resolution(ImageSize size) {
  values_.train_resolution = checked_resolution("train_resolution", size);
  return *this;
}

GlobalSetting& GlobalSetting::val_resolution(ImageSize size) {
  values_.val_resolution = checked_resolution("val_resolution", size);
  return *this;
}

GlobalSetting& GlobalSetting::threads(int n) {
  TR_CHECK(n >= 0 && n <= 1024, "threads is {}, expected 0 (chosen from the cores) to 1024", n);
  values_.threads = n;
  return *this;
}

GlobalSetting& GlobalSetting::cpu_ranks(int n) {
  TR_CHECK(n >= 1 && n <= 256, "cpu_ranks is {}, expected 1 to 256", n);
  values_.cpu_ranks = n;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::dataset(std::string name, std::string path) {
  values_.dataset_name = std::move(name);
  values_.dataset_path = std::move(path);
  return *this;
}

PreprocessorSetting& PreprocessorSetting::val_fraction(double fraction) {
  TR_CHECK(fraction >= 0 && fraction < 1,
           "dataset.val_fraction is {}, expected 0 up to, but not, 1", fraction);
  values_.val_fraction = fraction;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::read_timeout(double seconds) {
  TR_CHECK(seconds >= 0 && seconds <= 86400, "read_timeout is {} s, expected 0 (none) to 86400",
           seconds);
  values_.read_timeout_s = seconds;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::exif(ExifPolicy policy) {
  values_.exif = policy;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::decode_crop_only(bool on) {
  values_.decode_crop_only = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::dct_scaling(bool on) {
  values_.dct_scaling = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::fast_dct(bool on) {
  values_.fast_dct = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::remember_rows(bool on) {
  values_.remember_rows = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::download(bool on) {
  values_.download = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::load_workers(int n) {
  TR_CHECK(n >= 0 && n <= 256, "load_workers is {}, expected 0 (chosen from the cores) to 256", n);
  values_.load_workers = n;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::preprocess_workers(int n) {
  TR_CHECK(n >= 0 && n <= 256,
           "preprocess_workers is {}, expected 0 (chosen from the cores) to 256", n);
  values_.preprocess_workers = n;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::cpu_binding(bool on) {
  values_.cpu_binding = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::normalization(NormMode mode) {
  values_.normalization = Normalization(mode);
  return *this;
}

PreprocessorSetting& PreprocessorSetting::normalization(std::vector<float> mean,
                                                        std::vector<float> std) {
  TR_CHECK(!mean.empty() && mean.size() == std.size(),
           "normalization: {} means and {} standard deviations, expected one of each per channel",
           mean.size(), std.size());
  for (const float s : std) {
    TR_CHECK(std::isfinite(s) && s > 0,
             "normalization: a standard deviation is {}, must be positive", s);
  }
  values_.normalization = Normalization(std::move(mean), std::move(std));
  return *this;
}

PreprocessorSetting& PreprocessorSetting::set_train_transforms(std::vector<Transform> steps) {
  values_.train_transforms = std::move(steps);
  return *this;
}

PreprocessorSetting& PreprocessorSetting::set_val_transforms(std::vector<Transform> steps) {
  values_.val_transforms = std::move(steps);
  return *this;
}

PreprocessorSetting& PreprocessorSetting::color_channels(int n) {
  TR_CHECK(n == 1 || n == 3, "color_channels is {}, expected 1 or 3", n);
  values_.color_channels = n;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::using_dts_format(bool on, int level) {
  TR_CHECK(level >= 0 && level <= 3, "using_dts_format: level is {}, expected 0 to 3", level);
  values_.dts = on;
  values_.dts_level = level;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::fully_mode(bool on) {
  values_.fully = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::using_cpvs(bool on) {
  values_.cpvs = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::data_place(DataPlace place) {
  values_.place = place;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::normalize_on(DataPlace place) {
  values_.normalize_on = place;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::shuffle_train(bool on) {
  values_.shuffle_train = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::drop_last(bool on) {
  values_.drop_last = on;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::bad_sample_policy(BadSamplePolicy policy) {
  values_.bad_samples = policy;
  return *this;
}

PreprocessorSetting& PreprocessorSetting::bad_sample_limit(std::int64_t samples) {
  TR_CHECK(samples >= 0, "bad_sample_limit is {}, must not be negative", samples);
  values_.bad_sample_limit = samples;
  return *this;
}

Session& default_session() {
  static Session session;
  return session;
}

void reset_session() { default_session() = Session{}; }

}  // namespace tr

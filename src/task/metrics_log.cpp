// SPDX-License-Identifier: Apache-2.0
#include "task/metrics_log.h"

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr {

namespace {

/// Numbers that JSON lacks become null.
nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

nlohmann::json epoch_object(const EpochRecord& r) {
  const auto measured = [](double value) {
    return value < 0 ? nlohmann::json(nullptr) : number(value);
  };
  return {{"epoch", r.epoch},
          {"train_loss", number(r.train_loss)},
          {"val_loss", r.validated ? number(r.val_loss) : nlohmann::json(nullptr)},
          {"top1", measured(r.top1)},
          {"top5", measured(r.top5)},
          {"macro_f1", measured(r.macro_f1)},
          {"lr", r.lr},
          {"images_per_s", r.images_per_s},
          {"data_wait_ms", r.data_wait_ms},
          {"read_ms", r.read_ms},
          {"decode_ms", r.decode_ms},
          {"transform_ms", r.transform_ms},
          {"normalise_ms", r.normalise_ms},
          {"mix_ms", r.mix_ms},
          {"feed", r.feed},
          {"train_top1", measured(r.train_top1)},
          {"skipped_steps", r.skipped_steps},
          {"bad_samples", r.bad_samples}};
}

/// A run that was killed leaves half a line, behind which a record would be lost.
bool ends_within_a_line(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(-1, std::ios::end);
  char last = '\n';
  return file.get(last) && last != '\n';
}

}  // namespace

std::string epoch_json(const EpochRecord& record) { return epoch_object(record).dump(); }

MetricsLog::MetricsLog(const std::string& path, int every_steps)
    : path_(path), every_(every_steps) {
  file_ = std::fopen(path.c_str(), "ae");
  if (!file_)
    throw_as<DataError>("log_file {}: it cannot be opened for writing: {}", path,
                        std::strerror(errno));
  if (std::fseek(file_, 0, SEEK_END) == 0 && std::ftell(file_) > 0) {
    log_info("log_file {}: it holds records already, this run's follow them", path);
    if (ends_within_a_line(path)) write("\n", 1);
  }
}

MetricsLog::~MetricsLog() {
  if (file_) std::fclose(file_);
}

MetricsLog::MetricsLog(MetricsLog&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)),
      path_(std::move(other.path_)),
      every_(other.every_) {}

MetricsLog& MetricsLog::operator=(MetricsLog&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(path_, other.path_);
  std::swap(every_, other.every_);
  return *this;
}

void MetricsLog::write(const char* line, std::size_t length) {
  if (std::fwrite(line, 1, length, file_) != length) {
    throw_as<DataError>("log_file {}: it cannot be written: {}", path_, std::strerror(errno));
  }
}

void MetricsLog::config(const std::string& config_json) {
  if (!file_) return;
  const std::string line = fmt::format("{{\"event\":\"config\",\"config\":{}}}\n", config_json);
  write(line.data(), line.size());
}

void MetricsLog::step(std::int64_t step, int epoch, const StepOutcome& outcome) {
  if (!wants_steps() || step % every_ != 0) return;
  std::array<char, 320> line;
  const double loss = outcome.totals.mean_loss();
  char* end = fmt::format_to(
      line.data(), "{{\"event\":\"step\",\"step\":{},\"epoch\":{},\"loss\":", step, epoch);
  end = std::isfinite(loss) ? fmt::format_to(end, "{}", loss) : fmt::format_to(end, "null");
  end = fmt::format_to(end, ",\"lr\":{},\"skipped\":{}", outcome.lr, outcome.skipped);
  if (std::isfinite(outcome.grad_norm))
    end = fmt::format_to(end, ",\"grad_norm\":{}", outcome.grad_norm);
  end = fmt::format_to(end, ",\"loss_scale\":{}}}\n", outcome.loss_scale);
  write(line.data(), std::size_t(end - line.data()));
}

void MetricsLog::epoch(const EpochRecord& record) {
  if (!file_) return;
  nlohmann::json object = epoch_object(record);
  object["event"] = "epoch";
  const std::string line = object.dump() + "\n";
  write(line.data(), line.size());
  flush();
}

void MetricsLog::result(const TrainingResult& result, const std::string& decoded) {
  if (!file_) return;
  const nlohmann::json object = {{"event", "result"},
                                 {"best_top1", result.best_top1},
                                 {"best_top5", result.best_top5},
                                 {"best_epoch", result.best_epoch},
                                 {"images_per_s", result.images_per_s},
                                 {"feed", result.feed},
                                 {"decoded", decoded},
                                 {"total_s", result.total_s},
                                 {"peak_bytes", result.peak_bytes},
                                 {"weights_sha256", result.weights_sha256},
                                 {"cancelled", result.cancelled}};
  const std::string line = object.dump() + "\n";
  write(line.data(), line.size());
  flush();
}

void MetricsLog::flush() {
  if (file_ && std::fflush(file_) != 0) {
    throw_as<DataError>("log_file {}: it cannot be written: {}", path_, std::strerror(errno));
  }
}

}  // namespace tr

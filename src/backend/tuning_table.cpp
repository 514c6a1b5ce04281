// SPDX-License-Identifier: Apache-2.0
#include "backend/tuning_table.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/input_file.h"
#include "core/log.h"
#include "core/sha256.h"

namespace tr {
namespace {

constexpr const char* kFormat = "renaissance-tuning";
constexpr int kVersion = 2;  // 1 had no times

using Entries = std::map<std::string, std::string>;
using Times = std::map<std::string, double>;

// Lengths stand before the bytes, so that no two tables give the same text.
std::string hash_of(const Entries& entries, const std::string& prefix) {
  Sha256 sha;
  sha.update(fmt::format("{}:{}", prefix.size(), prefix));
  for (const auto& [key, choice] : entries) {
    sha.update(fmt::format("{}:{}{}:{}", key.size(), key, choice.size(), choice));
  }
  return sha.hex();
}

std::string checksum_of(const Entries& entries, const Times& times,
                        const std::string& environment) {
  std::string text = environment;
  for (const auto& [key, us] : times) text += fmt::format("\n{}:{} {}", key.size(), key, us);
  return hash_of(entries, text);
}

nlohmann::json as_json(const Entries& entries, const Times& times, const std::string& environment) {
  return {{"format", kFormat},          {"version", kVersion},
          {"environment", environment}, {"entries", entries},
          {"measured_us", times},       {"checksum", checksum_of(entries, times, environment)}};
}

/// What a table's text holds. @throws DataError  with the reason.
struct Parsed {
  std::string environment;
  Entries entries;
  Times times;
};
Parsed parse(const std::string& text) {
  Parsed parsed;
  std::string checksum;
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    const auto format = json.at("format").get<std::string>();
    const auto version = json.at("version").get<int>();
    if (format != kFormat)
      throw_as<DataError>("tuning table: format is '{}', expected '{}'", format, kFormat);
    if (version < 1 || version > kVersion) {
      throw_as<DataError>("tuning table: version is {}, this build reads 1 to {}", version,
                          kVersion);
    }
    parsed.environment = json.at("environment").get<std::string>();
    parsed.entries = json.at("entries").get<Entries>();
    if (version > 1) parsed.times = json.at("measured_us").get<Times>();
    checksum = json.at("checksum").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    throw_as<DataError>("tuning table: {}", error.what());
  }
  for (const auto& [key, choice] : parsed.entries) {
    if (key.empty() || choice.empty())
      throw_as<DataError>("tuning table: key '{}' has the choice '{}', neither may be empty", key,
                          choice);
  }
  const std::string expected = checksum_of(parsed.entries, parsed.times, parsed.environment);
  if (checksum != expected) {
    throw_as<DataError>("tuning table: checksum is {}, its entries give {}", checksum, expected);
  }
  return parsed;
}

}  // namespace

std::string TuningTable::find(const std::string& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? std::string() : it->second;
}

double TuningTable::us_of(const std::string& key) const {
  const auto it = times_.find(key);
  return it == times_.end() ? 0 : it->second;
}

void TuningTable::set(const std::string& key, const std::string& choice, double us) {
  TR_CHECK(!key.empty() && !choice.empty(), "tuning: key '{}' and choice '{}' must not be empty",
           key, choice);
  entries_[key] = choice;
  times_.erase(key);
  if (us > 0) times_[key] = us;
}

void TuningTable::add_missing(const TuningTable& other) {
  for (const auto& [key, choice] : other.entries_) {
    if (!entries_.contains(key)) set(key, choice, other.us_of(key));
  }
}

std::string TuningTable::hash() const { return hash_of(entries_, ""); }

std::string TuningTable::to_json() const { return as_json(entries_, times_, "").dump(); }

TuningTable TuningTable::from_json(const std::string& text) {
  TuningTable table;
  Parsed parsed = parse(text);
  table.entries_ = std::move(parsed.entries);
  table.times_ = std::move(parsed.times);
  return table;
}

TuningTable::CacheRead TuningTable::read_cache(const std::string& path,
                                               const std::string& environment) {
  CacheRead read;
  std::error_code none;
  if (!std::filesystem::exists(path, none) && !none) {
    read.reason = "not there";
    return read;
  }
  try {
    constexpr std::uint64_t kMostBytes = 64 << 20;
    Parsed parsed = parse(read_text(path, kMostBytes));
    if (parsed.environment != environment) {
      read.reason = fmt::format("made for '{}', this is '{}'", parsed.environment, environment);
      return read;
    }
    read.table.entries_ = std::move(parsed.entries);
    read.table.times_ = std::move(parsed.times);
  } catch (const DataError& error) {
    read.reason = error.what();
    read.damaged = true;
  }
  return read;
}

TuningTable TuningTable::load_cache(const std::string& path, const std::string& environment) {
  CacheRead read = read_cache(path, environment);
  if (!read.reason.empty()) {
    log(read.damaged ? LogLevel::WARNING : LogLevel::INFO, "tuning cache {}: {}; choosing anew",
        path, read.reason);
  }
  return std::move(read.table);
}

void TuningTable::save_cache(const std::string& path, const std::string& environment) const {
  try {
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) make_folder(folder.string());
    write_file_atomically(path, as_json(entries_, times_, environment).dump(1) + "\n");
  } catch (const DataError& error) {
    log_warning("tuning cache {}: not saved: {}", path, error.what());
  }
}

}  // namespace tr

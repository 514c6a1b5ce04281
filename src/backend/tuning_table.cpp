// SPDX-License-Identifier: Apache-2.0
#include "backend/tuning_table.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/log.h"
#include "core/sha256.h"

namespace tr {
namespace {

constexpr const char* kFormat = "renaissance-tuning";
constexpr int kVersion = 1;

// Lengths stand before the bytes, so that no two tables give the same text.
std::string hash_of(const std::map<std::string, std::string>& entries, const std::string& prefix) {
  Sha256 sha;
  sha.update(fmt::format("{}:{}", prefix.size(), prefix));
  for (const auto& [key, choice] : entries) {
    sha.update(fmt::format("{}:{}{}:{}", key.size(), key, choice.size(), choice));
  }
  return sha.hex();
}

nlohmann::json as_json(const std::map<std::string, std::string>& entries,
                       const std::string& environment) {
  return {{"format", kFormat},
          {"version", kVersion},
          {"environment", environment},
          {"entries", entries},
          {"checksum", hash_of(entries, environment)}};
}

/// What a table's text holds. @throws DataError  with the reason.
struct Parsed {
  std::string environment;
  std::map<std::string, std::string> entries;
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
    if (version != kVersion) {
      throw_as<DataError>("tuning table: version is {}, this build reads {}", version, kVersion);
    }
    parsed.environment = json.at("environment").get<std::string>();
    parsed.entries = json.at("entries").get<std::map<std::string, std::string>>();
    checksum = json.at("checksum").get<std::string>();
  } catch (const nlohmann::json::exception& error) {
    throw_as<DataError>("tuning table: {}", error.what());
  }
  const std::string expected = hash_of(parsed.entries, parsed.environment);
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

void TuningTable::set(const std::string& key, const std::string& choice) {
  TR_CHECK(!key.empty() && !choice.empty(), "tuning: key '{}' and choice '{}' must not be empty",
           key, choice);
  entries_[key] = choice;
}

std::string TuningTable::hash() const { return hash_of(entries_, ""); }

std::string TuningTable::to_json() const { return as_json(entries_, "").dump(); }

TuningTable TuningTable::from_json(const std::string& text) {
  TuningTable table;
  table.entries_ = parse(text).entries;
  return table;
}

TuningTable TuningTable::load_cache(const std::string& path, const std::string& environment) {
  TuningTable table;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    log_info("tuning cache {}: not there, choosing anew", path);
    return table;
  }
  std::stringstream text;
  text << file.rdbuf();
  try {
    Parsed parsed = parse(text.str());
    if (parsed.environment != environment) {
      log_info("tuning cache {}: made for '{}', this is '{}'; choosing anew", path,
               parsed.environment, environment);
      return table;
    }
    table.entries_ = std::move(parsed.entries);
  } catch (const DataError& error) {
    log_warning("tuning cache {}: {}; choosing anew", path, error.what());
  }
  return table;
}

void TuningTable::save_cache(const std::string& path, const std::string& environment) const {
  try {
    const auto folder = std::filesystem::path(path).parent_path();
    if (!folder.empty()) make_folder(folder.string());
    write_file_atomically(path, as_json(entries_, environment).dump(1) + "\n");
  } catch (const DataError& error) {
    log_warning("tuning cache {}: not saved: {}", path, error.what());
  }
}

}  // namespace tr

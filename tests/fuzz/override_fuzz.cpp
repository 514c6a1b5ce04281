// SPDX-License-Identifier: Apache-2.0

// Whatever the text of TR_OVERRIDE or --set: an InvalidArgument, or settings that come out again as they went in.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/check.h"
#include "renaissance/core/error.h"
#include "task/config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  tr::Config config;
  try {
    const auto pairs = tr::parse_assignments(text, "fuzz");
    tr::apply_assignments(config, pairs);
  } catch (const tr::InvalidArgument&) {
    return 0;  // any other exception ends the fuzzer: a fault
  }
  for (const tr::ConfigKey& key : tr::config_keys()) {
    const nlohmann::json value = key.get(config);
    if (value.is_object() || (key.name == "device" && value == "")) continue;
    if (value.is_number() && value == 0) continue;  // 0 stands for "unset" where it cannot be set
    tr::Config copy = config;
    tr::set_config(copy, key.name, value.is_string() ? value.get<std::string>() : value.dump());
    TR_ASSERT(key.get(copy) == value);
  }
  return 0;
}

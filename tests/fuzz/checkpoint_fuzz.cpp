// SPDX-License-Identifier: Apache-2.0

// Whatever the bytes of a checkpoint's file or of the state inside it: a DataError, or Unsupported for a newer
// format.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "renaissance/core/error.h"
#include "task/checkpoint.h"
#include "task/train_state.h"
#include "tensor/safetensors_format.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
    tr::Checkpoint::from_file(tr::parse_safetensors(bytes, "fuzz"), "fuzz");
  } catch (const tr::DataError&) {
  } catch (const tr::Unsupported&) {
  }
  try {
    tr::state_from_json(std::string(text), "fuzz");
  } catch (const tr::DataError&) {
    return 0;  // any other exception ends the fuzzer: a fault
  }
  return 0;
}

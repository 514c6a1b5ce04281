// SPDX-License-Identifier: Apache-2.0

// Whatever the bytes: a DataError, or a file whose parts can be read and which, written again, is
// read as the same one.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/check.h"
#include "renaissance/core/error.h"
#include "tensor/safetensors_format.h"

namespace {

std::string bytes_of(const tr::SafetensorsFile& file) {
  std::string text = tr::safetensors_header_text(file);
  for (const auto& [name, tensor] : file.tensors) {
    text.append(static_cast<const char*>(tensor.raw()), tensor.num_bytes());
  }
  return text;
}

tr::SafetensorsFile parse(std::string_view text) {
  return tr::parse_safetensors(std::as_bytes(std::span(text.data(), text.size())), "fuzz");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const tr::SafetensorsFile file = parse({reinterpret_cast<const char*>(data), size});
    const std::string written = bytes_of(file);
    TR_ASSERT(bytes_of(parse(written)) == written);
  } catch (const tr::DataError&) {
    return 0;  // any other exception ends the fuzzer: a fault
  }
  return 0;
}

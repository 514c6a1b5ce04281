// SPDX-License-Identifier: Apache-2.0
// Any bytes are either an IDX file or a DataError: no crash, no hang, no allocation beyond what
// they can hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/formats/idx.h"
#include "renaissance/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const auto kind : {tr::data::IdxKind::IMAGES, tr::data::IdxKind::LABELS}) {
    try {
      const tr::Tensor tensor = tr::data::parse_idx(bytes, kind, "input");
      if (tensor.num_elements() < 1) std::abort();
    } catch (const tr::DataError&) {
      continue;  // refused, as it should be
    }
  }
  return 0;
}

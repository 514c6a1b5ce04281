// SPDX-License-Identifier: Apache-2.0
// Any bytes are either a batch of CIFAR with labels in range or a DataError.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "data/formats/cifar.h"
#include "renaissance/core/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  for (const auto kind : {tr::data::CifarKind::CIFAR10, tr::data::CifarKind::CIFAR100}) {
    try {
      const tr::data::CifarRecords records = tr::data::parse_cifar(bytes, kind, "input");
      const std::int64_t n = records.labels.num_elements();
      if (n < 1 || records.images.num_elements() != n * 3072) std::abort();
      const int num_classes = kind == tr::data::CifarKind::CIFAR10 ? 10 : 100;
      for (std::int64_t i = 0; i < n; ++i) {
        const double label = records.labels.at(i);
        if (label < 0 || label >= num_classes) std::abort();
      }
    } catch (const tr::DataError&) {
      continue;  // refused, as it should be
    }
  }
  return 0;
}

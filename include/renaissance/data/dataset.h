// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// A named part of a sample. Images are UINT8 [H, W, C]; labels INT32 [].
struct Field {
  std::string name;            // "image", "label", "soft_label", "target" ...
  TensorType type;             // of one sample
};

/// A finite set of samples. read() is called from several threads at once.
class TR_API Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t num_samples() const = 0;
  virtual std::vector<Field> fields() const = 0;
  /// Writes the fields of sample `id` to `out[i]` (bytes of fields()[i].type).
  /// @throws DataError  naming the sample and what is wrong with it.
  virtual void read(std::int64_t id, std::span<std::byte* const> out) const = 0;
  /// Number of classes of the field "label"; 0 if there is none.
  virtual int num_classes() const { return 0; }
  /// What the records call it: "mnist", "procedural", "memory".
  virtual std::string name() const = 0;
};

/// Both splits of a set; `val` may be null (validation is then off).
struct DatasetPair {
  std::shared_ptr<const Dataset> train;
  std::shared_ptr<const Dataset> val;
};

/// Samples held in tensors whose first axis is the sample; the bytes are shared, not copied.
/// @throws InvalidArgument  the first axes differ, or the list is empty.
TR_API std::shared_ptr<const Dataset> make_tensor_dataset(std::vector<NamedTensor> fields,
                                                          int num_classes = 0);

}  // namespace tr

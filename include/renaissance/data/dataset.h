// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "renaissance/core/export.h"
#include "renaissance/core/shape.h"
#include "renaissance/tensor/tensor.h"

namespace tr {

/// A named part of a sample. Images are UINT8 [H, W, C]; labels INT32 [].
struct Field {
  std::string name;  // "image", "label", "soft_label", "target" ...
  TensorType type;   // of one sample
  /// The image is a picture file (JPEG, PNG) that brings its own size: `type` is UINT8 [0, 0, C], C
  /// the channels that are wanted, and the bytes come from read_encoded().
  bool encoded = false;
};

/// A picture file as it was read, in a buffer that is used again and again.
struct EncodedPicture {
  std::vector<std::byte> bytes;
  std::stop_token stop;  // nobody waits for the picture any more
};

/// A finite set of samples. Its functions are called from several threads at once.
class TR_API Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t num_samples() const = 0;
  virtual std::vector<Field> fields() const = 0;
  /// Writes the fields of sample `id` to `out[i]` (bytes of fields()[i].type).
  /// @throws DataError  naming the sample and what is wrong with it.
  virtual void read(std::int64_t id, std::span<std::byte* const> out) const = 0;
  /// As read(), of a set whose image is encoded: the file goes to `picture`, the other fields to
  /// `out` (the image's pointer is not looked at, there and in read()).
  /// @throws DataError  naming the file: it is missing, cut, or its disk fails or does not answer.
  virtual void read_encoded(std::int64_t id, EncodedPicture& picture,
                            std::span<std::byte* const> out) const;
  /// Says that sample `id` is read next: a set in memory lets the processor fetch its bytes.
  virtual void prefetch(std::int64_t /*id*/) const {}
  /// Class of sample `id` where it is known without reading the sample; -1: it is not.
  virtual std::int64_t known_label(std::int64_t /*id*/) const { return -1; }
  /// How messages call sample `id`: the path of its file, or "sample 12 of mnist".
  virtual std::string sample_name(std::int64_t id) const;
  /// Names of the classes in the order of their numbers; empty if they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Number of classes of the field "label"; 0 if there is none.
  virtual int num_classes() const { return 0; }
  /// What the records call it: "mnist", "procedural", "memory".
  virtual std::string name() const = 0;
};

/// What happens to a sample that cannot be read: the run fails; its place in the batch goes to a
/// sound sample of the same batch (SKIP: nothing more is read), or to a drawn sample of the set
/// (REPLACE). The last two are counted and named in the log. docs/data.md, "Bad samples".
enum class BadSamplePolicy : std::uint8_t { FAIL, SKIP, REPLACE };

/// What becomes of the EXIF orientation of a picture file.
enum class ExifPolicy : std::uint8_t {
  APPLY,  // the picture is turned upright, before anything else sees it
  IGNORE  // the picture is taken as it is stored
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

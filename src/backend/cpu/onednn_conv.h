// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ops/conv_geometry.h"
#include "renaissance/core/dtype.h"

namespace tr::cpu {

enum class ConvPass : std::uint8_t {
  FORWARD,  // y from x and W
  DATA,     // dx from dy and W
  WEIGHTS   // dW from x and dy
};

/// One pass over the images [begin, begin + count) of a batch.
struct ImageRun {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

/// One pass of a convolution, cut into runs of images that are computed independently of each
/// other, each on the one thread that calls run(). W stands in a layout of oneDNN's choice: pack()
/// puts [O, R, S, C / groups] into it, unpack() takes gradients out of it. A call is known by its
/// number (of run or task) and its copy; calls of the same number and copy must not overlap in
/// time.
class ConvRuns {
 public:
  virtual ~ConvRuns() = default;

  virtual std::int64_t num_runs() const = 0;
  virtual ImageRun images(std::int64_t run) const = 0;
  /// Of W in the layout of the runs.
  virtual std::int64_t packed_bytes() const = 0;
  /// Of a run; runs at the same time need one each.
  virtual std::int64_t scratch_bytes() const = 0;
  /// The implementation's name, for records: "brgconv:avx512_core".
  virtual const std::string& implementation() const = 0;

  /// Tasks of pack() and unpack(), independent of each other.
  virtual std::int64_t num_pack_tasks() const = 0;
  virtual void pack(std::int64_t task, const void* weight, std::byte* packed) const = 0;
  virtual void unpack(std::int64_t task, std::int64_t copy, const std::byte* packed,
                      float* dweight) const = 0;

  /// Operands of a run; x, y (or their gradients) begin with its first image. FORWARD reads x and
  /// packed and writes y, with `bias` (fp32) if the runs were made so; DATA reads y and packed and
  /// writes x; WEIGHTS reads x and y and writes packed.
  struct Operands {
    void* x = nullptr;
    void* y = nullptr;
    std::byte* packed = nullptr;
    const float* bias = nullptr;
    std::byte* scratch = nullptr;
  };
  virtual void run(std::int64_t run, std::int64_t copy, const Operands& operands) const = 0;
};

/// `num_runs` runs of nearly equal length (one, if oneDNN wants different layouts of W for runs of
/// different lengths), in `num_copies` copies. `dtype` is fp32 or bf16, of x, y and W; gradients of
/// W are fp32.
/// @throws DeviceError  oneDNN has no implementation of it.
std::unique_ptr<ConvRuns> make_onednn_conv(ConvPass pass, const ConvGeometry& geometry, DType dtype,
                                           bool bias, std::int64_t num_runs,
                                           std::int64_t num_copies = 1);

}  // namespace tr::cpu

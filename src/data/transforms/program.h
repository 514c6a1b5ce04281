// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/pixel/program.h"
#include "renaissance/core/shape.h"
#include "renaissance/data/transforms.h"

namespace tr::data {

/// A TransformChain for images of one shape [H, W, C] as a program that a device can run. Its
/// results are those of PixelChain, byte for byte.
/// @throws InvalidArgument  as PixelChain: the chain does not fit the images.
/// @throws Unsupported      a step that has no program, images of 2 GiB and more.
pixel::Program program_of(const TransformChain& chain, const Shape& input, DType dtype);

/// Runs a program on the host, one sample at a time and pixel by pixel, with the functions that a
/// device's kernel calls: what kernels are held against.
class ProgramRunner {
 public:
  explicit ProgramRunner(const pixel::Program& program);

  /// One sample. `address` is (seed, AUGMENT, epoch, sample id); `src` has program.in_bytes(),
  /// `dst` program.out_elements() of the program's dtype.
  void run(const std::uint8_t* src, void* dst, const DrawAddress& address);

 private:
  template <typename T>
  void run_stages(const std::uint8_t* src, T* dst, const DrawAddress& address);

  pixel::Program program_;
  std::vector<std::uint32_t> table_;  // [channels][256]
  std::vector<pixel::Drawn> drawn_;
  std::vector<std::uint8_t> buffers_[2];
};

}  // namespace tr::data

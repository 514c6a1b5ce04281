// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/philox.h"
#include "data/transforms/rules.h"

namespace tr::test {

/// Pixels of a test with the slack that steps may read.
struct Image {
  data::ImageShape shape;
  std::vector<std::uint8_t> pixels;  // without the slack
};

inline int at(const Image& image, int y, int x, int c) {
  return image.pixels[std::size_t((y * image.shape.width + x) * image.shape.channels + c)];
}

inline Image random_image(data::ImageShape shape, std::uint64_t seed) {
  Image image{shape, std::vector<std::uint8_t>(shape.num_bytes())};
  for (std::size_t i = 0; i < image.pixels.size(); ++i) {
    image.pixels[i] = std::uint8_t(DrawAddress{seed, DrawPurpose::TEST, i, 0}.block(0).v[0]);
  }
  return image;
}

/// `image` through `step`, in buffers of exactly the promised sizes.
inline Image run_step(const data::PixelStep& step, const Image& image,
                      const pixel::StepDraws& draws) {
  std::vector<std::uint8_t> src(image.pixels);
  src.resize(src.size() + data::kImageSlack, 0xAB);
  const data::ImageShape out = step.out_shape(image.shape);
  std::vector<std::uint8_t> dst(out.num_bytes() + data::kImageSlack, 0xCD);
  std::vector<std::byte> scratch(step.scratch_bytes(image.shape), std::byte{0xEF});
  step.apply(data::ImageRef(src.data(), image.shape), dst.data(), draws, scratch.data());
  dst.resize(out.num_bytes());
  return {out, dst};
}

}  // namespace tr::test

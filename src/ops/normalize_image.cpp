// SPDX-License-Identifier: Apache-2.0
// The last pass of a chain of transforms as a node: pixels arrive as bytes, a third or less of what
// they become.
#include <bit>

#include "core/check.h"
#include "core/format.h"
#include "core/pixel/image_tail.h"
#include "ops/rules.h"

namespace tr {
namespace {

using ops::Types;

void check_norms(const Attrs& attrs, const char* name, std::int64_t channels) {
  const std::vector<std::int64_t>& bits = attrs.ints(name);
  TR_CHECK(std::int64_t(bits.size()) == channels,
           "{} has {} entries, expected {} (channels of image)", name, bits.size(), channels);
  for (const std::int64_t value : bits) {
    TR_CHECK(value >= 0 && value <= 0xffffffff, "{} holds {}, expected the 32 bits of a float",
             name, value);
  }
}

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  const TensorType &image = in[0], &tail = in[1];
  ops::check_rank("image", image, 4, "[N, H, W, C]");
  ops::check_dtype("image", image, DType::UINT8, "pixels");
  ops::check_shape("tail", tail, {image.shape[0], pixel::kTailInts}, "a row for each image");
  ops::check_dtype("tail", tail, DType::INT32, "pixel::ImageTail");
  const std::int64_t channels = image.shape.back(), out = attrs.i64("channels");
  TR_CHECK(channels >= 1 && channels <= pixel::kMostTailChannels,
           "image has {} channels, expected 1 to {}", channels, pixel::kMostTailChannels);
  TR_CHECK(out == 0 || out >= channels,
           "channels is {}, expected 0 or at least {} (those of image)", out, channels);
  check_norms(attrs, "mean_bits", channels);
  check_norms(attrs, "std_bits", channels);
  const DType dtype = dtype_from_name(attrs.str("dtype"));
  TR_CHECK(is_floating(dtype), "dtype is {}, expected fp32, fp16 or bf16", dtype);
  return {{image.shape.with_dim(3, out == 0 ? channels : out), dtype}};
}

const OpRegistration kNormalizeImage{
    {.name = "normalize_image",
     .inputs = {"image", "tail"},
     .outputs = {"y"},
     .attrs = {{"dtype", std::string("fp32"), false, "of the result"},
               {"channels", std::int64_t{0}, false, "of the result: zeros behind; 0: as they are"},
               {"mean_bits", std::vector<std::int64_t>(), true, "a float's bits for each channel"},
               {"std_bits", std::vector<std::int64_t>(), true, "a float's bits for each channel"}},
     .infer = infer,
     .cost = ops::cost_per_element(3),
     .doc = "y = (image / 255 - mean) / std, each operation rounded in fp32, then to dtype; "
            "mirrored and set to 0 in a rectangle as tail says. torchvision's ToTensor, Normalize, "
            "hflip, erase"}};

}  // namespace
}  // namespace tr

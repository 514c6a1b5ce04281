// SPDX-License-Identifier: Apache-2.0
// Every transform against what torchvision makes of the same image with the same parameters
// (generate/transforms.py). Tolerances in levels of 255, each with its reason.
#include <array>
#include <cmath>
#include <cstring>

#include "core/pixel/blur.h"
#include "core/pixel/scale.h"
#include "data/transforms/affine_warp.h"
#include "data/transforms/augment_ops.h"
#include "data/transforms/batch_mix.h"
#include "data/transforms/chain.h"
#include "data/transforms/color_pass.h"
#include "data/transforms/level_pass.h"
#include "data/transforms/resampler.h"
#include "data/transforms/rules.h"
#include "support/compare.h"
#include "support/golden.h"
#include "unit/data/pixel_images.h"

namespace tr::test {
namespace {

using data::ImageRef;

/// One case of a golden file.
struct Case {
  std::string name;
  Image image, result;
  std::vector<double> params;
};

Image image_of(const Tensor& tensor) {
  Image image{{int(tensor.shape()[0]), int(tensor.shape()[1]), int(tensor.shape()[2])}, {}};
  const auto* pixels = static_cast<const std::uint8_t*>(tensor.raw());
  image.pixels.assign(pixels, pixels + tensor.num_bytes());
  return image;
}

std::vector<Case> cases_in(const std::string& file_name) {
  const SafetensorsFile file = golden(file_name);
  std::vector<Case> cases;
  for (const std::string& name : cases_of(file)) {
    Case one{name, image_of(file.at(name + ".image")), image_of(file.at(name + ".result")), {}};
    const Tensor& params = file.at(name + ".params");
    for (std::int64_t i = 0; i < params.shape()[0]; ++i) {
      one.params.push_back(params.dtype() == DType::FP32
                               ? double(static_cast<const float*>(params.raw())[i])
                               : double(static_cast<const std::int32_t*>(params.raw())[i]));
    }
    cases.push_back(std::move(one));
  }
  EXPECT_FALSE(cases.empty()) << file_name;
  return cases;
}

/// How two images differ.
struct Difference {
  int largest = 0;   // levels
  double share = 0;  // of values that differ at all
};

Difference difference(const Image& got, const Image& want) {
  Difference found;
  EXPECT_EQ(got.shape, want.shape);
  if (!(got.shape == want.shape)) return {255, 1};
  std::size_t count = 0;
  for (std::size_t i = 0; i < got.pixels.size(); ++i) {
    const int levels = std::abs(int(got.pixels[i]) - int(want.pixels[i]));
    found.largest = std::max(found.largest, levels);
    count += levels != 0;
  }
  found.share = double(count) / double(got.pixels.size());
  return found;
}

/// The image with slack, as steps want it, and a place for a result.
struct Buffers {
  std::vector<std::uint8_t> src, dst;
  std::vector<std::byte> scratch;
  ImageRef ref;

  Buffers(const Image& image, data::ImageShape out, std::size_t scratch_bytes)
      : src(image.pixels), dst(out.num_bytes() + data::kImageSlack), scratch(scratch_bytes) {
    src.resize(src.size() + data::kImageSlack);
    ref = ImageRef(src.data(), image.shape);
  }
  Image result(data::ImageShape out) {
    dst.resize(out.num_bytes());
    return {out, dst};
  }
};

class ResizeGolden : public testing::TestWithParam<const char*> {};

// torchvision's UINT8 path is integer and so is ours: the same bytes.
TEST_P(ResizeGolden, IsEqualInEveryBit) {
  for (const Case& one : cases_in(GetParam())) {
    const int height = int(one.params[0]), width = int(one.params[1]);
    const data::ResampleKind kind{pixel::ResampleFilter(int(one.params[2])), one.params[3] != 0};
    const data::ImageShape out{height, width, one.image.shape.channels};
    Buffers buffers(one.image, out, data::resample_scratch_bytes(one.image.shape, out, kind));
    data::resample(data::DecodedCrop(buffers.ref), out, kind, buffers.dst.data(),
                   buffers.scratch.data());
    EXPECT_EQ(difference(buffers.result(out), one.result).largest, 0)
        << one.name << ' ' << one.image.shape.height << 'x' << one.image.shape.width << " -> "
        << height << 'x' << width << " filter " << one.params[2] << " antialias " << one.params[3];
  }
}
INSTANTIATE_TEST_SUITE_P(Files, ResizeGolden,
                         testing::Values("transform_resize_antialias_1",
                                         "transform_resize_antialias_3", "transform_resize_plain_1",
                                         "transform_resize_plain_3"));

TEST(TransformGolden, CropsPadsAndFlipsAreEqual) {
  for (const Case& one : cases_in("transform_crops")) {
    const auto param = [&](std::size_t i) { return int(one.params[i]); };
    const auto transform = [&]() -> Transform {
      switch (param(0)) {
        case 0: return CenterCrop(param(1));
        case 1: return Pad(param(1), param(2), PadMode(param(3)));
        case 2: return RandomHorizontalFlip(1.0f);
        case 3: return RandomVerticalFlip(1.0f);
        default: return Resize(param(1));
      }
    }();
    const Image got = run_step(*data::make_step(transform), one.image, {});
    EXPECT_EQ(difference(got, one.result).largest, 0) << one.name << ' ' << to_string(transform);
  }
}

Image colored(const Image& image, const std::vector<double>& params) {
  Buffers buffers(image, image.shape, 256 * 3);
  std::vector<data::ColorStep> steps;
  for (std::size_t i = 0; i < params.size(); i += 2) {
    steps.push_back({pixel::ColorOp(int(params[i])), std::int32_t(params[i + 1])});
  }
  switch (int(params[0])) {
    case 4: data::apply_luma(buffers.ref, buffers.dst.data()); break;
    case 5: data::stretch_levels(buffers.ref, buffers.dst.data(), buffers.scratch.data()); break;
    default: data::apply_colors(buffers.ref, steps, buffers.dst.data());
  }
  return buffers.result(image.shape);
}

// The stretching of levels is the same float operations. Elsewhere torchvision rounds products and
// sums of floats before it cuts them to whole levels, and we do not: a value within 1e-5 of a whole
// number may fall to either side.
TEST(TransformGolden, ColorsAgree) {
  for (const Case& one : cases_in("transform_colors")) {
    const int op = int(one.params[0]);
    const Difference found = difference(colored(one.image, one.params), one.result);
    EXPECT_LE(found.largest, op == 5 ? 0 : 1) << one.name << " op " << op;
    EXPECT_LE(found.share, 0.01) << one.name << " op " << op << " factor " << one.params[1];
  }
}

// A level that differs early is enlarged by the factors of what follows (up to 1.4 each).
TEST(TransformGolden, JittersAgree) {
  for (const Case& one : cases_in("transform_jitter")) {
    const Difference found = difference(colored(one.image, one.params), one.result);
    EXPECT_LE(found.largest, 3) << one.name;
    EXPECT_LE(found.share, 0.02) << one.name;
  }
}

// Bilinear weights are cut to 1/256 (docs/transforms.md). Nearest: places within float rounding of
// the border between two pixels may go to the other one.
TEST(TransformGolden, AffineAgrees) {
  for (const Case& one : cases_in("transform_affine")) {
    const auto& p = one.params;
    const auto map = pixel::affine_map({float(p[0]), std::int32_t(p[1]), std::int32_t(p[2]),
                                        float(p[3]), float(p[4]), float(p[5])});
    const bool bilinear = p[6] != 0;
    Buffers buffers(one.image, one.image.shape, 0);
    data::warp_affine(buffers.ref, map, int(p[7]),
                      bilinear ? Interpolation::BILINEAR : Interpolation::NEAREST,
                      buffers.dst.data());
    const Difference found = difference(buffers.result(one.image.shape), one.result);
    if (bilinear) {
      EXPECT_LE(found.largest, kTorchvisionLevels) << one.name << " degrees " << p[0];
    } else {
      EXPECT_LE(found.share, 0.005) << one.name << " degrees " << p[0];
    }
  }
}

// Weights are rounded to 2^-16 and the sum across to 2^-8: less than half a level, and rounding.
TEST(TransformGolden, BlurAgrees) {
  for (const Case& one : cases_in("transform_blur")) {
    const float sigma = float(one.params[0]);
    const auto step = data::make_step(GaussianBlur(sigma, sigma, int(one.params[1])));
    const Difference found = difference(run_step(*step, one.image, {}), one.result);
    EXPECT_LE(found.largest, 1) << one.name << " sigma " << sigma;
    EXPECT_LE(found.share, 0.02) << one.name << " sigma " << sigma;
  }
}

/// Draws of step 0 of a chain, as generate/transforms.py has them.
pixel::StepDraws draws_of(std::uint64_t sample) {
  return {{11, DrawPurpose::AUGMENT, 3, sample}, 0};
}

Transform drawn_transform(const std::vector<double>& params) {
  const int size = int(params[2]);
  switch (int(params[0])) {
    case 0: return RandomCrop(size);
    case 1: return RandomResizedCrop(size);
    case 2: return FastRandomResizedCrop(size);
    case 3: return RandomRotation(float(params[2]));
    case 4: return RandomScale(0.6f, 1.6f);
    default: return RandomResizedCrop(size, Range{1, 1}, Range{1, 1});
  }
}

/// What the step says it draws, from the numbers that torchvision was given.
std::string drawn_text(const std::vector<double>& p) {
  const auto number = [&](std::size_t i) { return std::to_string(int(p[i])); };
  switch (int(p[0])) {
    case 0: return "top " + number(3) + ", left " + number(4);
    case 1:
    case 2: return "top " + number(3) + ", left " + number(4) + ", " + number(5) + "x" + number(6);
    default: return "";
  }
}

// Whole steps, draws and all: torchvision gets what is drawn here. Places are blended as those of
// AffineAgrees; all else is equal.
TEST(TransformGolden, StepsThatDrawAgree) {
  for (const Case& one : cases_in("transform_drawn")) {
    const int kind = int(one.params[0]);
    const Transform transform = drawn_transform(one.params);
    const pixel::StepDraws draws = draws_of(std::uint64_t(one.params[1]));
    const auto step = data::make_step(transform);
    const std::string text = drawn_text(one.params);
    if (!text.empty()) {
      EXPECT_EQ(step->describe(draws, one.image.shape), text) << one.name;
    } else if (kind == 3) {
      EXPECT_FLOAT_EQ(pixel::uniform_between(draws.block(0).v[0], -70, 70), float(one.params[3]));
    } else if (kind == 4) {
      const auto size = pixel::draw_scaled_size(draws, 18, 23, 0.6f, 1.6f);
      EXPECT_EQ(size.height, int(one.params[2])) << one.name;
      EXPECT_EQ(size.width, int(one.params[3])) << one.name;
    }
    const Difference found = difference(run_step(*step, one.image, draws), one.result);
    EXPECT_LE(found.largest, kind == 3 || kind == 4 ? kTorchvisionLevels : 0)
        << one.name << ' ' << to_string(transform) << ": " << text;
  }
}

TEST(TransformGolden, NormalisationAndErasingAreEqual) {
  const SafetensorsFile file = golden("transform_erased");
  const TransformChain chain{.transforms = {RandomErasing(1.0f)},
                             .normalization = NormMode::IMAGENET};
  const data::PixelChain steps(chain, {18, 23, 3}, DType::FP32);
  for (std::uint64_t sample = 0; sample < 4; ++sample) {
    const std::string name = std::to_string(sample);
    const DrawAddress address{11, DrawPurpose::AUGMENT, 3, sample};
    const auto* rect = static_cast<const std::int32_t*>(file.at(name + ".rect").raw());
    const pixel::EraseRect erased = steps.erased(address);
    EXPECT_EQ((std::array{erased.top, erased.left, erased.height, erased.width}),
              (std::array{rect[0], rect[1], rect[2], rect[3]}));
    Image image = image_of(file.at(name + ".image"));
    image.pixels.resize(steps.input_buffer_bytes());
    const Tensor& want = file.at(name + ".result");
    Tensor got(want.shape(), DType::FP32);
    std::vector<std::byte> scratch(steps.scratch_bytes());
    steps.run(image.pixels.data(), got.raw(), address, scratch.data());
    EXPECT_EQ(std::memcmp(got.raw(), want.raw(), want.num_bytes()), 0) << name;
  }
}

class AugmentGolden : public testing::TestWithParam<const char*> {};

TEST_P(AugmentGolden, OperationsAgree) {
  using pixel::AugmentOp;
  for (const Case& one : cases_in(GetParam())) {
    const auto op = AugmentOp(int(one.params[0]));
    Buffers buffers(one.image, one.image.shape, data::augment_scratch_bytes(one.image.shape));
    const bool shifts = op == AugmentOp::TRANSLATE_X || op == AugmentOp::TRANSLATE_Y;
    const double strength = shifts ? std::trunc(one.params[1]) : one.params[1];
    data::apply_augment(buffers.ref, {op, float(strength)}, 70, buffers.dst.data(),
                        buffers.scratch.data());
    const Difference found = difference(buffers.result(one.image.shape), one.result);
    const bool moves = op >= AugmentOp::SHEAR_X && op <= AugmentOp::ROTATE;
    const bool blends = op >= AugmentOp::BRIGHTNESS && op <= AugmentOp::SHARPNESS;
    // Factors are rounded to 2^-16: a result that is a whole number, as a tenth of them are at a
    // factor of 1.9, may fall to the next one.
    EXPECT_LE(found.largest, moves ? 255 : (blends ? 1 : 0)) << one.name << " op " << int(op);
    EXPECT_LE(found.share, moves ? 0.005 : (blends ? 0.06 : 0.0))
        << one.name << " op " << int(op) << " strength " << one.params[1];
  }
}
INSTANTIATE_TEST_SUITE_P(Files, AugmentGolden,
                         testing::Values("transform_augment_0", "transform_augment_1",
                                         "transform_augment_2"));

TEST(TransformGolden, StrengthsOfAugmentationsAreTorchvisions) {
  const SafetensorsFile file = golden("transform_augment_space");
  const auto* want = static_cast<const float*>(file.at("space").raw());
  constexpr int kBins[] = {0, 9, 17, 30};
  const pixel::AugmentSpace spaces[] = {{},
                                        {.shear = 0.99f,
                                         .shift_of_331 = 0,
                                         .shift_pixels = 32,
                                         .degrees = 135,
                                         .factor = 0.99f,
                                         .posterize_bits = 6}};
  for (const pixel::AugmentSpace& space : spaces) {
    for (std::uint32_t op = 0; op < pixel::kNumAugmentOps; ++op) {
      for (const int bin : kBins) {
        const float got = pixel::augment_strength(pixel::AugmentOp(op), bin, 14, 19, space);
        EXPECT_NEAR(got, *want, 1e-5 * std::abs(*want) + 1e-6) << op << " bin " << bin;
        ++want;
      }
    }
  }
}

/// Runs a mixing whose draws are given by the golden file instead.
TEST(TransformGolden, MixingAgrees) {
  const SafetensorsFile file = golden("transform_mixing");
  const Tensor& images = file.at("images");
  const data::ImageShape shape{8, 10, 3};
  using Kind = data::BatchMix::Kind;
  const auto check = [&](const std::string& name, const data::BatchMix::Mixing& mixing) {
    // The row behind the last holds the image before the first.
    constexpr std::int64_t kCount = 5;
    std::vector<float> rows(images.data<float>(), images.data<float>() + images.num_elements());
    rows.insert(rows.end(), rows.end() - 8 * 10 * 3, rows.end());
    std::vector<std::int32_t> labels(file.at("labels").data<std::int32_t>(),
                                     file.at("labels").data<std::int32_t>() + kCount);
    labels.push_back(labels.back());
    Tensor mixed(images.shape(), DType::FP32), soft({kCount, 4}, DType::FP32);
    const TransformChain chain{.transforms = {Mixup(), CutMix()}};
    const auto mix = data::BatchMix::of(chain, shape, DType::FP32, 4);
    ASSERT_TRUE(mix.has_value());
    mix->mix({.images = rows.data(),
              .labels = labels.data(),
              .soft_labels = soft.data<float>(),
              .count = kCount},
             mixing);
    std::memcpy(mixed.raw(), rows.data(), mixed.num_bytes());
    EXPECT_TRUE(is_close(mixed, array_of(file.at(name + ".images")), tolerance(DType::FP32), name));
    EXPECT_TRUE(is_close(soft, array_of(file.at(name + ".labels")), tolerance(DType::FP32), name));
  };
  for (int i = 0; i < 4; ++i) {
    const std::string name = "mixup_" + std::to_string(i);
    check(name, {.kind = Kind::MIXUP,
                 .lambda = *static_cast<const float*>(file.at(name + ".lambda").raw()),
                 .rect = {}});
  }
  const auto* box = static_cast<const std::int32_t*>(file.at("cutmix.box").raw());
  check("cutmix",
        {.kind = Kind::CUTMIX, .lambda = 1 - 25.0f / 80, .rect = {box[1], box[0], box[3], box[2]}});
}

}  // namespace
}  // namespace tr::test

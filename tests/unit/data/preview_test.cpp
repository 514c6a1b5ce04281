// SPDX-License-Identifier: Apache-2.0
// The sheet is read back with our own decoder: its cells are what the chain gives.
#include "renaissance/data/preview.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "data/image_decode.h"
#include "data/transforms/chain.h"
#include "renaissance/core/error.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "unit/data/pixel_images.h"

namespace tr::data {
namespace {

using test::Image;
using test::throws;

constexpr ImageShape kShape{20, 30, 3};
constexpr int kSamples = 3, kCell = 48, kGap = 4;

std::shared_ptr<const Dataset> make_set(Tensor& images) {
  images = Tensor({kSamples, kShape.height, kShape.width, 3}, DType::UINT8);
  for (int i = 0; i < kSamples; ++i) {
    const Image image = test::random_image(kShape, std::uint64_t(i));
    std::copy(image.pixels.begin(), image.pixels.end(),
              images.data<std::uint8_t>() + std::size_t(i) * kShape.num_bytes());
  }
  return make_tensor_dataset({{"image", images}});
}

std::vector<std::byte> bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars((std::istreambuf_iterator<char>(file)), {});
  const auto* first = reinterpret_cast<const std::byte*>(chars.data());
  return {first, first + chars.size()};
}

TEST(PreviewTest, CellsAreWhatTheChainGives) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/sheet.png";
  Tensor images;
  const auto set = make_set(images);
  const TransformChain chain{
      .transforms = {RandomCrop(16), RandomHorizontalFlip(), ColorJitter(0.4f, 0.4f, 0.4f, 0.1f)}};
  const std::string text =
      write_preview(*set, chain, path, {.num_samples = 5, .num_draws = 4, .seed = 9});
  const std::vector<std::byte> png = bytes_of_file(path);
  ImageDecoder decoder;
  decoder.open({png, path});
  const Pixels sheet = decoder.decode().pixels;
  // 16 pixels are enlarged six times to the cell of 96.
  ASSERT_EQ(sheet.height, kSamples * (6 * 16 + kGap) + kGap);
  ASSERT_EQ(sheet.width, 5 * (6 * 16 + kGap) + kGap);
  const PixelChain prepared(chain, {20, 30, 3}, DType::FP32);
  for (int sample = 0; sample < kSamples; ++sample) {
    std::vector<std::uint8_t> src(kShape.num_bytes() + kImageSlack);
    std::copy_n(images.data<std::uint8_t>() + std::size_t(sample) * kShape.num_bytes(),
                kShape.num_bytes(), src.begin());
    for (int epoch = 0; epoch < 4; ++epoch) {
      std::vector<std::byte> scratch(prepared.scratch_bytes());
      std::vector<std::uint8_t> mirrored(16 * 16 * 3 + kImageSlack);
      const DrawAddress address = pixel::augment_address(9, 0, epoch, sample);
      const ImageRef want = prepared.final_pixels(
          prepared.run_pixels(ImageRef(src.data(), kShape), address, scratch.data()), address,
          mirrored.data());
      for (int y = 0; y < 96; ++y) {
        for (int x = 0; x < 96; ++x) {
          const int top = kGap + sample * 100 + y, left = kGap + (1 + epoch) * 100 + x;
          for (int c = 0; c < 3; ++c) {
            ASSERT_EQ(sheet.data[std::size_t(top) * sheet.row_stride + std::size_t(3 * left + c)],
                      want.row(y / 6)[3 * (x / 6) + c])
                << sample << ' ' << epoch << ' ' << y << ' ' << x;
          }
        }
      }
    }
  }
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["rows"].size(), std::size_t(kSamples));
  EXPECT_EQ(json["rows"][1]["draws"].size(), 4u);
  const DrawAddress address = pixel::augment_address(9, 0, 2, 1);
  EXPECT_EQ(json["rows"][1]["draws"][2], nlohmann::json(prepared.describe(address, 20, 30)));
  const std::vector<std::byte> beside = bytes_of_file(folder.path() + "/sheet.json");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(beside.data()), beside.size()), text);
}

TEST(PreviewTest, RefusesWhatItCannotShow) {
  const test::TempFolder folder;
  Tensor images;
  const auto set = make_set(images);
  const TransformChain chain{.transforms = {CenterCrop(16)}};
  const std::string path = folder.path() + "/sheet.png";
  EXPECT_TRUE(throws<InvalidArgument>([&] { write_preview(*set, chain, folder.path() + "/sheet"); },
                                      "ends in .png"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] { write_preview(*set, chain, path, {.first_sample = 3}); }, "has 3 samples"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { write_preview(*set, chain, path, {.num_draws = 0}); },
                                      "num_draws is 0"));
  EXPECT_TRUE(throws<DataError>(
      [&] { write_preview(*set, chain, folder.path() + "/no/sheet.png"); }, "/no"));
}

TEST(PreviewTest, ShowsErasingInTheColorOfTheMean) {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/sheet.png";
  Tensor images;
  const auto set = make_set(images);
  const TransformChain chain{.transforms = {CenterCrop(kCell), RandomErasing(1.0f, {0.3f, 0.3f})},
                             .normalization = Normalization({0.2f, 0.4f, 0.6f}, {1, 1, 1})};
  write_preview(*set, chain, path, {.num_samples = 1, .num_draws = 1});
  const std::vector<std::byte> png = bytes_of_file(path);
  ImageDecoder decoder;
  decoder.open({png, path});
  const Pixels sheet = decoder.decode().pixels;
  int erased = 0;
  for (int y = 0; y < sheet.height; ++y) {
    for (int x = 0; x < sheet.width; ++x) {
      const std::uint8_t* pixel = sheet.data + std::size_t(y) * sheet.row_stride + 3 * x;
      erased += pixel[0] == 51 && pixel[1] == 102 && pixel[2] == 153;
    }
  }
  // The cell of 48 is enlarged twice; sides of the rectangle are rounded to pixels.
  EXPECT_NEAR(erased, 0.3 * 96 * 96, 0.1 * 96 * 96);
}

}  // namespace
}  // namespace tr::data

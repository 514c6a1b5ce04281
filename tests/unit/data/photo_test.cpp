// SPDX-License-Identifier: Apache-2.0
// 304 real photos: the pixels are Pillow's, crops are the pixels of the whole, and photos decoded
// smaller differ little after the resize.
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <random>
#include <sstream>

#include "support/picture.h"
#include "support/resample.h"
#include "support/test_data.h"

namespace tr {
namespace {

using data::ImageDecoder;
using data::PixelRect;
using test::Picture;

struct Photo {
  std::string path;
  int width = 0, height = 0;
  std::string checksum;
};

/// The photos that tests/unit/data/photo_checksums.txt lists.
std::vector<Photo> photos(const std::string& folder) {
  std::ifstream file(TR_PHOTO_CHECKSUMS);
  std::vector<Photo> list;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    Photo photo;
    if (words >> photo.width >> photo.height >> photo.checksum >> photo.path) {
      photo.path = folder + "/" + photo.path;
      list.push_back(photo);
    }
  }
  return list;
}

std::string checksum_of(const Picture& picture) {
  char text[16];
  std::snprintf(text, sizeof(text), "%08lx",
                crc32(0, picture.bytes.data(), uInt(picture.bytes.size())));
  return text;
}

/// A quarter to all of each side, somewhere.
PixelRect random_crop(int width, int height, std::mt19937& random) {
  const auto up_to = [&](int n) { return int(random() % unsigned(n + 1)); };
  const int w = width - up_to(3 * width / 4), h = height - up_to(3 * height / 4);
  const int x = up_to(width - w), y = up_to(height - h);
  return {x, y, w, h};
}

class PhotoTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder = test::real_data_folder("imagenet-sample");
    if (folder.empty()) GTEST_SKIP() << "imagenet-sample is not in the folder of test data";
    photos_ = photos(folder);
    ASSERT_EQ(photos_.size(), 304u);
  }
  std::vector<Photo> photos_;
};

TEST_F(PhotoTest, PixelsArePillows) {
  ImageDecoder decoder;
  for (const Photo& photo : photos_) {
    const std::vector<std::byte> bytes = read_bytes(photo.path);
    decoder.open({bytes, photo.path});
    const data::DecodedImage image = decoder.decode();
    EXPECT_EQ(image.warnings, 0) << photo.path << ": " << image.first_warning;
    const Picture picture(image.pixels);
    EXPECT_EQ(picture.width, photo.width) << photo.path;
    EXPECT_EQ(picture.height, photo.height) << photo.path;
    EXPECT_EQ(checksum_of(picture), photo.checksum) << photo.path;
  }
}

TEST_F(PhotoTest, CropsAreThePixelsOfTheWhole) {
  ImageDecoder decoder;
  std::mt19937 random(1);
  for (const Photo& photo : photos_) {
    const std::vector<std::byte> bytes = read_bytes(photo.path);
    decoder.open({bytes, photo.path});
    const Picture whole(decoder.decode().pixels);
    for (int i = 0; i < 3; ++i) {
      const PixelRect crop = random_crop(whole.width, whole.height, random);
      decoder.open({bytes, photo.path});
      ASSERT_EQ(Picture(decoder.decode({.crop = crop}).pixels), whole.cut(crop)) << photo.path;
    }
  }
}

TEST_F(PhotoTest, SmallerDecodesDifferLittleAfterTheResize) {
  ImageDecoder decoder;
  std::mt19937 random(2);
  double sum = 0, worst = 0;
  int num_scaled = 0;
  for (const Photo& photo : photos_) {
    const std::vector<std::byte> bytes = read_bytes(photo.path);
    const PixelRect crop = random_crop(photo.width, photo.height, random);
    // The largest side at which the crop is decoded smaller: there the difference is largest.
    const int side = std::min(crop.width, crop.height) / 3;
    if (side < 16) continue;
    decoder.open({bytes, photo.path});
    const Picture full(decoder.decode({.crop = crop}).pixels);
    decoder.open({bytes, photo.path});
    const data::DecodedImage small =
        decoder.decode({.crop = crop, .target_width = side, .target_height = side});
    if (small.scale == 8) continue;  // chroma subsampled along one axis needs a larger crop
    const double difference = test::mean_difference(
        test::resample(Picture(small.pixels), small.crop_eighths, side, side),
        test::resample(full, {0, 0, 8 * crop.width, 8 * crop.height}, side, side));
    sum += difference;
    worst = std::max(worst, difference);
    ++num_scaled;
  }
  ASSERT_GT(num_scaled, 250);
  std::printf("%d photos: mean difference %.3f, the largest of a photo %.3f (in 1/255)\n",
              num_scaled, sum / num_scaled, worst);
  EXPECT_LE(sum / num_scaled, 3);
  EXPECT_LE(worst, 9);  // a photo of fine texture alone
}

}  // namespace
}  // namespace tr

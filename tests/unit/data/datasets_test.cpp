// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/datasets.h"

#include <gtest/gtest.h>

#include "data/check.h"
#include "data/formats/byte_source.h"
#include "data/formats/idx.h"
#include "data/memory_dataset.h"
#include "renaissance/core/error.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/throws.h"

namespace tr {
namespace {

using test::throws;

TEST(DatasetsTest, UnknownNamesGetTheNearest) {
  EXPECT_TRUE(
      throws<InvalidArgument>([] { open_dataset("mnits", "."); }, "did you mean \"mnist\"?"));
  EXPECT_TRUE(throws<InvalidArgument>([] { data::check_dataset("imagnet", "."); },
                                      "did you mean \"imagenet\"?"));
}

TEST(DatasetsTest, TraitsAreKnownWithoutFiles) {
  EXPECT_EQ(dataset_traits("cifar10").name, "cifar-10");
  EXPECT_EQ(dataset_traits("imagenet").channels, 3);
  EXPECT_EQ(dataset_traits("mnist").num_classes, 10);
  EXPECT_TRUE(dataset_traits("mnist").readable);
  EXPECT_TRUE(dataset_traits("fashionmnist").downloads);
  EXPECT_EQ(dataset_traits("cifar100").num_classes, 100);
  EXPECT_TRUE(dataset_traits("csv").in_files);
  EXPECT_FALSE(dataset_traits("folder").downloads);
}

TEST(DatasetsTest, ProceduralNeedsNoFolder) {
  const DatasetPair pair =
      open_dataset("procedural", "", {.num_train = 30, .num_val = 20, .seed = 4});
  EXPECT_EQ(pair.train->num_samples(), 30);
  EXPECT_EQ(pair.val->num_samples(), 20);
  EXPECT_EQ(pair.train->name(), "procedural");
}

TEST(DatasetsTest, APathThatIsMissingOrWithoutUseIsTold) {
  for (const char* name : {"folder", "imagenet", "csv", "mnist", "cifar-10", "cifar100"}) {
    EXPECT_TRUE(throws<InvalidArgument>([&] { open_dataset(name, ""); }, "the path is empty"));
    EXPECT_TRUE(
        throws<InvalidArgument>([&] { data::check_dataset(name, ""); }, "the path is empty"));
  }
  const test::LogCapture log;
  open_dataset("procedural", "", {.num_train = 1, .num_val = 1});
  EXPECT_EQ(log.text(), "");
  open_dataset("procedural", "/some/folder", {.num_train = 1, .num_val = 1});
  EXPECT_EQ(log.count("procedural has no files, so /some/folder is not looked at"), 1);
}

TEST(DatasetsTest, RealMnistIsSound) {
  const std::string dir = test::real_data_folder("mnist");
  if (dir.empty()) GTEST_SKIP() << "needs the real data set mnist in build/data/mnist";
  EXPECT_TRUE(data::check_dataset("mnist", dir).empty());
  const DatasetPair pair = open_dataset("mnist", dir);
  EXPECT_EQ(pair.train->num_samples(), 60000);
  EXPECT_EQ(pair.val->num_samples(), 10000);
  std::byte image[784];
  std::int32_t label = -1;
  std::byte* out[] = {image, reinterpret_cast<std::byte*>(&label)};
  pair.train->read(0, out);
  EXPECT_EQ(label, 5);
  pair.val->read(0, out);
  EXPECT_EQ(label, 7);
}

TEST(DatasetsTest, FashionMnistHasTheLayoutOfMnist) {
  const std::string dir = test::real_data_folder("mnist");
  if (dir.empty()) GTEST_SKIP() << "needs the real data set mnist in build/data/mnist";
  const DatasetPair pair = open_dataset("fashion-mnist", dir);
  EXPECT_EQ(pair.train->name(), "fashion-mnist");
  EXPECT_EQ(pair.val->num_samples(), 10000);
  EXPECT_TRUE(throws<DataError>([] { open_dataset("fashion-mnist", "/dev/null"); },
                                "fashion-mnist: /dev/null has neither train-images-idx3-ubyte"));
}

TEST(DatasetsTest, RealCifarIsSound) {
  const std::string dir = test::real_data_folder("cifar10");
  if (dir.empty()) GTEST_SKIP() << "needs the real data set cifar10 in build/data/cifar10";
  EXPECT_TRUE(data::check_dataset("cifar-10", dir).empty());
  const DatasetPair pair = open_dataset("cifar-10", dir);
  EXPECT_EQ(pair.train->num_samples(), 50000);
  EXPECT_EQ(pair.val->num_samples(), 10000);
  std::vector<std::int64_t> count(10);
  for (std::int64_t id = 0; id < 50000; ++id) ++count[std::size_t(pair.train->known_label(id))];
  EXPECT_EQ(count, std::vector<std::int64_t>(10, 5000));
}

TEST(TensorDatasetTest, SharesFieldsByName) {
  const Tensor x = Tensor::uniform({5, 3}, 0, 1, 1);
  const Tensor y = Tensor::from({5}, std::vector<std::int32_t>{0, 1, 2, 1, 0});
  const auto set = make_tensor_dataset({{"image", x}, {"label", y}}, 3);
  EXPECT_EQ(set->num_samples(), 5);
  EXPECT_EQ(set->num_classes(), 3);
  ASSERT_EQ(set->fields().size(), 2u);
  EXPECT_EQ(set->fields()[0].type, (TensorType{{3}, DType::FP32}));
  EXPECT_EQ(set->fields()[1].type, (TensorType{{}, DType::INT32}));
  float row[3];
  std::int32_t label = -1;
  std::byte* out[] = {reinterpret_cast<std::byte*>(row), reinterpret_cast<std::byte*>(&label)};
  set->read(2, out);
  EXPECT_EQ(row[1], float(x.at(7)));
  EXPECT_EQ(label, 2);
}

TEST(TensorDatasetTest, RefusesWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({5, 3}), y = Tensor::zeros({4}, DType::INT32);
  EXPECT_TRUE(throws<InvalidArgument>([] { make_tensor_dataset({}); }, "there are no fields"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        make_tensor_dataset({{"image", x}, {"label", y}});
      },
      "\"label\" has 4 samples"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [&] {
        make_tensor_dataset({{"a", x}, {"a", x}});
      },
      "two fields are named \"a\""));
  const Tensor wrong = Tensor::from({2}, std::vector<std::int32_t>{1, 10});
  EXPECT_TRUE(throws<DataError>(
      [&] {
        make_tensor_dataset({{"label", wrong}}, 10);
      },
      "label 10 of sample 1"));
}

TEST(IdxTest, AGzipThatClaimsTooMuchIsRefusedBeforeAllocating) {
  // Header of 4 billion images of 28x28 in a gzip of a few bytes (stored block, no compression).
  const std::string header("\0\0\x08\x03\xff\xff\xff\xff\0\0\0\x1c\0\0\0\x1c", 16);
  std::string gz("\x1f\x8b\x08\0\0\0\0\0\0\x03\x01\x14\0\xeb\xff", 15);
  gz += header + std::string(4 + 8, '\0');
  const auto bytes = std::as_bytes(std::span(gz.data(), gz.size()));
  EXPECT_TRUE(throws<DataError>([&] { data::parse_idx(bytes, data::IdxKind::IMAGES, "bomb"); },
                                "says 4294967295 images"));
}

TEST(IdxTest, SidesOfZeroAreRefused) {
  const std::string header("\0\0\x08\x03\0\0\0\x02\0\0\0\x1c\0\0\0\0", 16);
  const auto bytes = std::as_bytes(std::span(header.data(), header.size()));
  EXPECT_TRUE(throws<DataError>([&] { data::parse_idx(bytes, data::IdxKind::IMAGES, "flat"); },
                                "images of 28x0"));
}

}  // namespace
}  // namespace tr

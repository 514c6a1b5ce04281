// SPDX-License-Identifier: Apache-2.0
// Every file of cifar/ has its stated outcome, read alone and as part of a whole set.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/input_file.h"
#include "data/check.h"
#include "data/formats/cifar.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::CifarKind;
using test::TempFolder;
using test::throws;

std::string case_path(const std::string& name) {
  return std::string(TR_CASES_FOLDER "/cifar/") + name;
}

data::CifarRecords parse(const std::string& name) {
  return data::parse_cifar(read_bytes(case_path(name)), CifarKind::CIFAR10, case_path(name));
}

TEST(CifarCasesTest, TheGoodFileHasItsPixels) {
  const data::CifarRecords records = parse("ok_cifar10.bin");
  ASSERT_EQ(records.images.shape(), (Shape{5, 32, 32, 3}));
  const int labels[] = {3, 8, 0, 9, 1};
  for (int k = 0; k < 5; ++k) {
    EXPECT_EQ(records.labels.at(k), labels[k]);
    for (int p = 0; p < 1024; ++p) {
      const std::int64_t at = (std::int64_t(k) * 1024 + p) * 3;
      ASSERT_EQ(records.images.at(at), (p + k) % 256);
      ASSERT_EQ(records.images.at(at + 1), (3 * p + 5 * k) % 256);
      ASSERT_EQ(records.images.at(at + 2), (255 - p) & 255);
    }
  }
  const std::int64_t pixel = (1024 + 2 * 32 + 3) * 3;
  EXPECT_EQ(records.images.at(pixel), 68);
  EXPECT_EQ(records.images.at(pixel + 1), 206);
  EXPECT_EQ(records.images.at(pixel + 2), 188);
}

TEST(CifarCasesTest, BadFilesAreRefusedWithTheirNumbers) {
  EXPECT_TRUE(throws<DataError>([] { parse("cut_cifar10.bin"); },
                                "cut_cifar10.bin: has 15265 bytes, which is no multiple of 3073"));
  EXPECT_TRUE(throws<DataError>([] { parse("label10_cifar10.bin"); },
                                "label10_cifar10.bin: label 10 of record 1 is outside 0..9"));
  EXPECT_TRUE(throws<DataError>([] { parse("empty_cifar10.bin"); }, "there are no records"));
}

/// A whole set of the good file, one of its files replaced.
void make_set(const TempFolder& folder, const std::string& odd_file, const std::string& odd_case) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    const std::string source = name == odd_file ? odd_case : "ok_cifar10.bin";
    std::filesystem::copy_file(case_path(source), folder.path(name));
  }
}

TEST(CifarCasesTest, AWholeSetIsReadFromItsFolder) {
  const TempFolder folder;
  make_set(folder, "", "");
  const DatasetPair pair = open_dataset("cifar10", folder.path());
  EXPECT_EQ(pair.train->num_samples(), 25);
  EXPECT_EQ(pair.val->num_samples(), 5);
  EXPECT_EQ(pair.train->name(), "cifar-10");
  EXPECT_EQ(pair.train->num_classes(), 10);
  EXPECT_EQ(pair.train->known_label(23), 9);
  EXPECT_TRUE(data::check_dataset("cifar-10", folder.path()).empty());
}

TEST(CifarCasesTest, ABadOrMissingFileOfASetIsNamed) {
  for (const char* odd : {"cut_cifar10.bin", "label10_cifar10.bin", "empty_cifar10.bin"}) {
    const TempFolder folder;
    make_set(folder, "data_batch_3.bin", odd);
    EXPECT_TRUE(throws<DataError>([&] { open_dataset("cifar-10", folder.path()); },
                                  folder.path("data_batch_3.bin")));
    const auto faults = data::check_dataset("cifar-10", folder.path());
    ASSERT_EQ(faults.size(), 1u);
    EXPECT_NE(faults[0].find("data_batch_3.bin"), std::string::npos);
  }
  const TempFolder folder;
  EXPECT_TRUE(throws<DataError>([&] { open_dataset("cifar-10", folder.path()); },
                                folder.path("data_batch_1.bin") + ": cannot be opened"));
  EXPECT_EQ(data::check_dataset("cifar-10", folder.path()).size(), 6u);
}

}  // namespace
}  // namespace tr

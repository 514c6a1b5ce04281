// SPDX-License-Identifier: Apache-2.0
// Every file of idx/ has its stated outcome, read alone and as part of a whole set.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/input_file.h"
#include "data/check.h"
#include "data/formats/idx.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::IdxKind;
using data::read_idx;
using test::TempFolder;
using test::throws;

std::string case_path(const std::string& name) {
  return std::string(TR_CASES_FOLDER "/idx/") + name;
}

void expect_good_images(const std::string& name) {
  SCOPED_TRACE(name);
  const Tensor images = read_idx(case_path(name), IdxKind::IMAGES);
  ASSERT_EQ(images.shape(), (Shape{10, 28, 28}));
  for (int i = 0; i < 10; ++i) {
    for (int r = 0; r < 28; ++r) {
      for (int c = 0; c < 28; ++c)
        ASSERT_EQ(images.at((i * 28 + r) * 28 + c), (50 * i + 3 * r + c) % 256);
    }
  }
}

TEST(IdxCasesTest, GoodFilesLoadWhateverTheirName) {
  for (const char* name :
       {"ok-images-idx3-ubyte", "ok-images-idx3-ubyte.gz", "gz_under_raw_name-images-idx3-ubyte",
        "raw_under_gz_name-images-idx3-ubyte.gz"}) {
    expect_good_images(name);
  }
  const int labels[] = {7, 2, 1, 0, 4, 1, 4, 9, 5, 9};
  for (const char* name : {"ok-labels-idx1-ubyte", "ok-labels-idx1-ubyte.gz"}) {
    const Tensor got = read_idx(case_path(name), IdxKind::LABELS);
    ASSERT_EQ(got.shape(), (Shape{10}));
    for (int i = 0; i < 10; ++i) EXPECT_EQ(got.at(i), labels[i]);
  }
}

// As gzip writes it: the fourth byte is 8, and the name stands behind the header.
TEST(IdxCasesTest, AGzipThatStoresItsNameLoads) {
  std::vector<std::byte> bytes = read_bytes(case_path("ok-images-idx3-ubyte.gz"));
  ASSERT_EQ(bytes[3], std::byte{0});
  bytes[3] = std::byte{8};
  bytes.insert(bytes.begin() + 10, {std::byte{'a'}, std::byte{0}});
  const TempFolder folder;
  folder.write("raw", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const Tensor images = read_idx(folder.path("raw"), IdxKind::IMAGES);
  ASSERT_EQ(images.shape(), (Shape{10, 28, 28}));
  EXPECT_EQ(images.at((9 * 28 + 27) * 28 + 27), (50 * 9 + 3 * 27 + 27) % 256);
}

TEST(IdxCasesTest, OtherSizesLoad) {
  const Tensor images = read_idx(case_path("rows20_cols30-images-idx3-ubyte"), IdxKind::IMAGES);
  ASSERT_EQ(images.shape(), (Shape{4, 20, 30}));
  EXPECT_EQ(images.at((1 * 20 + 2) * 30 + 29), 85);
}

struct BadFile {
  const char* name;
  IdxKind kind;
  const char* words;  // in the message, beside the path
};

class BadIdxTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadIdxTest, IsAnErrorThatNamesTheFileAndTheFault) {
  const auto& [name, kind, words] = GetParam();
  const auto call = [name = name, kind = kind] { read_idx(case_path(name), kind); };
  EXPECT_TRUE(throws<DataError>(call, words));
  EXPECT_TRUE(throws<DataError>(call, case_path(name)));
}

INSTANTIATE_TEST_SUITE_P(
    Files, BadIdxTest,
    testing::Values(
        BadFile{"wrong_magic-images-idx3-ubyte", IdxKind::IMAGES,
                "magic is 0x802 (2050), expected 0x803 (2051)"},
        BadFile{"ok-labels-idx1-ubyte", IdxKind::IMAGES,
                "magic is 0x801 (2049), expected 0x803 (2051)"},
        BadFile{"ok-images-idx3-ubyte", IdxKind::LABELS,
                "magic is 0x803 (2051), expected 0x801 (2049)"},
        BadFile{"html-images-idx3-ubyte.gz", IdxKind::IMAGES, "neither IDX nor gzip"},
        BadFile{"truncated-images-idx3-ubyte.gz", IdxKind::IMAGES, "the gzip stream ends early"},
        BadFile{"empty-images-idx3-ubyte", IdxKind::IMAGES,
                "has 0 bytes, the header of images alone has 16 (16 are missing)"},
        BadFile{"header_cut-images-idx3-ubyte", IdxKind::IMAGES,
                "has 11 bytes, the header of images alone has 16 (5 are missing)"},
        BadFile{"short_payload-images-idx3-ubyte", IdxKind::IMAGES,
                "says 10 images (7840 bytes), the file holds 5488 bytes, enough for 7"},
        BadFile{"long_payload-images-idx3-ubyte", IdxKind::IMAGES,
                "says 10 images (7840 bytes), the file holds 9408 bytes, enough for 12"},
        BadFile{"little_endian-images-idx3-ubyte", IdxKind::IMAGES, "magic is 0x03080000"},
        BadFile{"le_count-images-idx3-ubyte", IdxKind::IMAGES, "says 167772160 images"},
        BadFile{"zero_count-images-idx3-ubyte", IdxKind::IMAGES, "there are no images"},
        BadFile{"int32-images-idx3", IdxKind::IMAGES, "element type is 0x0C (int32)"}));

/// A folder with the four files of a set, taken from the cases.
class SetOfCases {
 public:
  SetOfCases(const std::string& train_images, const std::string& train_labels) {
    place(train_images, "train-images-idx3-ubyte");
    place(train_labels, "train-labels-idx1-ubyte");
    place("ok-images-idx3-ubyte.gz", "t10k-images-idx3-ubyte.gz");
    place("ok-labels-idx1-ubyte.gz", "t10k-labels-idx1-ubyte.gz");
  }
  std::string path() const { return folder_.path(); }

 private:
  void place(const std::string& from, const std::string& name) {
    std::filesystem::copy_file(case_path(from), folder_.path(name));
  }
  TempFolder folder_;
};

TEST(MnistCasesTest, GoodSetOpens) {
  const SetOfCases set("ok-images-idx3-ubyte", "ok-labels-idx1-ubyte");
  EXPECT_TRUE(has_mnist(set.path()));
  const DatasetPair pair = open_dataset("mnist", set.path());
  EXPECT_EQ(pair.train->num_samples(), 10);
  EXPECT_EQ(pair.val->num_samples(), 10);
  EXPECT_EQ(pair.train->num_classes(), 10);
  std::byte image[784];
  std::int32_t label = -1;
  std::byte* out[] = {image, reinterpret_cast<std::byte*>(&label)};
  pair.val->read(7, out);
  EXPECT_EQ(label, 9);
  EXPECT_EQ(int(image[28 * 2 + 5]), (50 * 7 + 3 * 2 + 5) % 256);
  EXPECT_TRUE(data::check_dataset("mnist", set.path()).empty());
}

TEST(MnistCasesTest, CountsMustAgree) {
  const SetOfCases set("ok-images-idx3-ubyte", "nine-labels-idx1-ubyte");
  EXPECT_TRUE(throws<DataError>([&] { open_dataset("mnist", set.path()); }, "holds 10 images"));
  EXPECT_TRUE(throws<DataError>([&] { open_dataset("mnist", set.path()); }, "holds 9 labels"));
}

TEST(MnistCasesTest, LabelsMustBeClasses) {
  for (const auto& [file, words] :
       {std::pair{"label10-labels-idx1-ubyte", "label 10 of sample 4"},
        std::pair{"label255-labels-idx1-ubyte", "label 255 of sample 4"}}) {
    const SetOfCases set("ok-images-idx3-ubyte", file);
    EXPECT_TRUE(throws<DataError>([&] { open_dataset("mnist", set.path()); }, words));
    EXPECT_EQ(data::check_dataset("mnist", set.path()).size(), 1u);
  }
}

TEST(MnistCasesTest, SplitsMustHaveOneImageSize) {
  const SetOfCases set("rows20_cols30-images-idx3-ubyte", "rows20_cols30-labels-idx1-ubyte");
  EXPECT_TRUE(throws<DataError>([&] { open_dataset("mnist", set.path()); }, "[20, 30, 1]"));
}

TEST(MnistCasesTest, CheckGoesOnAfterAFault) {
  const SetOfCases set("truncated-images-idx3-ubyte.gz", "label10-labels-idx1-ubyte");
  EXPECT_EQ(data::check_dataset("mnist", set.path()).size(), 2u);
}

TEST(MnistCasesTest, MissingFilesAreNamed) {
  const TempFolder empty;
  EXPECT_FALSE(has_mnist(empty.path()));
  EXPECT_TRUE(
      throws<DataError>([&] { open_dataset("mnist", empty.path()); },
                        "has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"));
  EXPECT_EQ(data::check_dataset("mnist", empty.path()).size(), 4u);
}

}  // namespace
}  // namespace tr

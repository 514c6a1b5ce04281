// SPDX-License-Identifier: Apache-2.0
// What check and stats tell of a split, and lists that are written.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/input_file.h"
#include "data/check.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/throws.h"

namespace tr::data {
namespace {

namespace fs = std::filesystem;
using test::LogCapture;
using test::TempFolder;
using test::throws;

std::string picture(const std::string& name) { return TR_CASES_FOLDER "/img/" + name; }

/// Folders a, b, c with pictures of known sizes, one of them twice, and broken ones.
void make_tree(const TempFolder& folder) {
  for (const char* name : {"a", "b", "c"}) fs::create_directory(folder.path(name));
  fs::copy_file(picture("one_pixel.png"), folder.path("a/1.png"));  // 1x1, (11, 22, 33)
  fs::copy_file(picture("one_pixel.png"), folder.path("b/2.png"));  // the same
  fs::copy_file(picture("rgba.png"), folder.path("a/3.png"));       // 1x3
  fs::copy_file(picture("png_inside.JPEG"), folder.path("b/4.JPEG"));
  fs::copy_file(picture("truncated_half.jpg"), folder.path("b/5.jpg"));
  fs::copy_file(picture("html_page.jpg"), folder.path("a/0.jpg"));
}

TEST(SplitReportTest, TellsClassesSizesMeanAndFaultsOfPictures) {
  const TempFolder folder;
  make_tree(folder);
  const LogCapture log;
  const DatasetPair pair = open_dataset("folder", folder.path());
  const SplitReport report = report_split(*pair.train, 1);
  EXPECT_EQ(report.num_samples, 6);
  EXPECT_EQ(report.class_counts, (std::vector<std::int64_t>{2, 2, 0}));  // sound ones
  EXPECT_EQ(report.sizes.at({1, 1}), 2);
  EXPECT_EQ(report.sizes.at({1, 3}), 1);
  EXPECT_EQ(report.formats, (std::map<std::string, std::int64_t>{{"PNG", 4}}));
  ASSERT_EQ(report.duplicates.size(), 1u);
  EXPECT_EQ(report.duplicates[0],
            (std::vector<std::string>{folder.path("a/1.png"), folder.path("b/2.png")}));
  ASSERT_EQ(report.faults.size(), 2u);  // in the order of the samples
  EXPECT_TRUE(report.faults[0].starts_with(folder.path("a/0.jpg"))) << report.faults[0];
  EXPECT_TRUE(report.faults[1].starts_with(folder.path("b/5.jpg"))) << report.faults[1];
  EXPECT_EQ(check_dataset("folder", folder.path()), report.faults);
}

TEST(SplitReportTest, MeanAndDeviationAreExact) {
  const TempFolder folder;
  fs::create_directory(folder.path("a"));
  fs::copy_file(picture("one_pixel.png"), folder.path("a/1.png"));
  fs::copy_file(picture("rgba.png"), folder.path("a/2.png"));  // (200,100,50) twice, (1,2,3)
  const LogCapture log;
  const SplitReport report = report_split(*open_dataset("folder", folder.path()).train, 2);
  ASSERT_EQ(report.num_pixels, 4);
  const double reds[] = {11, 200, 200, 1};
  double mean = 0, variance = 0;
  for (const double r : reds) mean += r / 4;
  for (const double r : reds) variance += (r - mean) * (r - mean) / 4;
  EXPECT_NEAR(report.mean[0], mean / 255, 1e-12);
  EXPECT_NEAR(report.std[0], std::sqrt(variance) / 255, 1e-12);
  EXPECT_NEAR(report.mean[2], (33 + 50 + 50 + 3) / 4.0 / 255, 1e-12);
}

TEST(SplitReportTest, DoesNotDependOnThreads) {
  const auto set = make_procedural_digits("train", 300);
  const SplitReport one = report_split(*set, 1), four = report_split(*set, 4);
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.std, four.std);
  EXPECT_EQ(one.class_counts, four.class_counts);
  EXPECT_EQ(one.class_counts, std::vector<std::int64_t>(10, 30));
  EXPECT_EQ(one.sizes, four.sizes);
  EXPECT_EQ(one.num_pixels, 300 * 784);
  EXPECT_TRUE(one.duplicates.empty());
}

TEST(SplitReportTest, TheMeanOfMnistIsTheKnownOne) {
  const std::string dir = test::real_data_folder("mnist");
  if (dir.empty()) GTEST_SKIP() << "needs the real data set mnist in build/data/mnist";
  const SplitReport report = report_split(*open_dataset("mnist", dir).train);
  EXPECT_NEAR(report.mean[0], 0.1307, 5e-5);  // torchvision's example
  EXPECT_NEAR(report.std[0], 0.3081, 5e-5);
  EXPECT_EQ(report.class_counts[5], 5421);
}

TEST(SplitReportTest, FloatImagesAreNotLookedAt) {
  const auto set = make_tensor_dataset({{"image", Tensor::zeros({4, 2, 2, 1})}});
  EXPECT_TRUE(throws<Unsupported>([&] { report_split(*set); }, "only uint8 pixels"));
}

TEST(CheckTest, AListThatCannotBeReadIsAFault) {
  EXPECT_EQ(check_dataset("csv", "/nowhere").size(), 1u);
  EXPECT_EQ(check_dataset("folder", "/nowhere").size(), 1u);
}

TEST(WriteCsvTest, ListsAreTheSameSetAndTheSameBytes) {
  const TempFolder folder;
  make_tree(folder);
  std::ofstream(folder.path("c/odd, \"name\".png")) << "x";
  const SplitOptions half{.val_fraction = 0.5, .seed = 3};
  const PictureLists lists = list_pictures("folder", folder.path(), half);
  write_csv_set(lists, folder.path("lists/one"));
  write_csv_set(list_pictures("folder", folder.path(), half), folder.path("lists/two"));
  EXPECT_EQ(read_text(folder.path("lists/one/classes.txt")), "a\nb\nc\n");
  for (const char* name : {"train.csv", "val.csv"}) {
    const std::string text = read_text(folder.path("lists/one/") + name);
    EXPECT_EQ(text, read_text(folder.path("lists/two/") + name));
    EXPECT_NE(text.find("../../"), std::string::npos);  // relative: the folder may move
  }
  const PictureLists again = list_pictures("csv", folder.path("lists/one"), {});
  EXPECT_EQ(again.classes, lists.classes);
  ASSERT_EQ(again.train.size(), lists.train.size());
  ASSERT_EQ(again.val->size(), lists.val->size());
  for (std::int64_t id = 0; id < lists.train.size(); ++id) {
    EXPECT_EQ(again.train.labels[std::size_t(id)], lists.train.labels[std::size_t(id)]);
    EXPECT_TRUE(fs::equivalent(again.train.path_of(id), lists.train.path_of(id)));
  }
  EXPECT_TRUE(throws<Unsupported>([] { list_pictures("mnist", ".", {}); },
                                  "mnist: is no set of picture files"));
}

TEST(WriteCsvTest, ListsOfAnotherSetAreNotMixedWithIts) {
  const TempFolder folder;
  make_tree(folder);
  PictureLists lists = list_pictures("folder", folder.path(), {.val_fraction = 0.5});
  write_csv_set(lists, folder.path("lists"));
  const std::string before = read_text(folder.path("lists/train.csv"));
  lists.val.reset();
  EXPECT_TRUE(throws<DataError>([&] { write_csv_set(lists, folder.path("lists")); },
                                "lists/val.csv: is there and would count as a part"));
  fs::remove(folder.path("lists/val.csv"));
  lists.classes.clear();
  EXPECT_TRUE(throws<DataError>([&] { write_csv_set(lists, folder.path("lists")); },
                                "lists/classes.txt: is there"));
  EXPECT_EQ(read_text(folder.path("lists/train.csv")), before);
}

// "link/.." is the folder above what the link leads to, not the one that holds the link.
TEST(WriteCsvTest, PathsThroughLinksStayWhatTheyAre) {
  const TempFolder folder;
  fs::create_directories(folder.path("far/deep"));
  fs::create_directories(folder.path("far/pictures"));
  fs::create_directory_symlink(folder.path("far/deep"), folder.path("link"));
  fs::copy_file(picture("one_pixel.png"), folder.path("far/pictures/1.png"));
  std::ofstream(folder.path("train.csv")) << "link/../pictures/1.png,0\n";
  write_csv_set(list_pictures("csv", folder.path(), {}), folder.path("lists"));
  EXPECT_TRUE(check_dataset("csv", folder.path("lists")).empty());
}

TEST(RealPhotosTest, AreSound) {
  const std::string dir = test::real_data_folder("imagenet-sample");
  if (dir.empty()) GTEST_SKIP() << "needs the real data set imagenet-sample in build/data";
  const LogCapture log;
  const DatasetPair pair = open_dataset("imagenet", dir);
  EXPECT_EQ(pair.train->num_samples(), 304);
  EXPECT_EQ(pair.train->num_classes(), 304);
  EXPECT_FALSE(pair.val);
  const SplitReport report = report_split(*pair.train);
  EXPECT_TRUE(report.faults.empty()) << report.faults.front();
  EXPECT_EQ(report.formats, (std::map<std::string, std::int64_t>{{"JPEG", 304}}));
  EXPECT_TRUE(report.duplicates.empty());
}

}  // namespace
}  // namespace tr::data

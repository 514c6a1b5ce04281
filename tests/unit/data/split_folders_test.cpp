// SPDX-License-Identifier: Apache-2.0
// Which folders are splits and which are classes: what is half there is an error, not a guess.
#include <gtest/gtest.h>

#include <filesystem>

#include "data/picture_layouts.h"
#include "renaissance/core/error.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::TempFolder;
using test::throws;
using Strings = std::vector<std::string>;
namespace fs = std::filesystem;

/// A set in a folder; names that end in "/" are empty folders, "a -> b" is a link.
class Tree {
 public:
  explicit Tree(const Strings& names) {
    for (const std::string& name : names) add(name);
  }
  std::string path(const std::string& name = "") const { return folder_.path(name); }
  void add(const std::string& name) {
    const std::size_t arrow = name.find(" -> ");
    const fs::path at(folder_.path(name.substr(0, arrow)));
    fs::create_directories(at.parent_path());
    if (arrow != std::string::npos) {
      fs::create_symlink(name.substr(arrow + 4), at);
    } else if (!name.ends_with('/')) {
      folder_.write(name, "");
    }
  }

 private:
  TempFolder folder_;
};

std::string notes_of(const PictureLists& lists) {
  std::string notes;
  for (const std::string& note : lists.notes) notes += note + "\n";
  return notes;
}

struct Refused {
  Strings names;
  const char* words;               // of list_folder()
  const char* imagenet = nullptr;  // of list_imagenet(), where it refuses the tree too
};

const std::vector<Refused> kNoTrain{
    {{"val/a/1.png", "val/b/2.png"},
     ": val holds folders as a split does, but there is no train",
     "there is no folder train in it"},
    {{"val/a/"}, "val holds folders as a split does"},
    {{"train/", "val/a/1.png"}, "val holds folders as a split does, but there is no folder in tra"},
    {{"train/1.png", "val/a/1.png"}, "but there is no folder in train"},
    {{"train/.DS_Store", "val/a/1.png"}, "but there is no folder in train"},
    {{"train/.hidden/1.png", "val/a/1.png"}, "but there is no folder in train"},
    {{".train/a/1.png", "val/a/1.png"}, "but there is no train beside it"},
    {{"train", "val/a/1.png"},
     "/train: it is no folder, expected a folder with the pictures of",
     "/train: it is no folder"},
    {{"train -> gone", "val/a/1.png"},
     "/train: the link leads nowhere, expected a folder",
     "/train: the link leads nowhere"},
    {{"real/a/1.png", "val -> real"}, ": val holds folders as a split does"},
    {{"Train/a/1.png", "Val/a/1.png"}, ": Train holds folders as a split does, but there is no"},
    {{"training/a/1.png", "validation/a/1.png"}, ": training holds folders as a split does"},
    {{"test/a/1.png"}, ": test holds folders as a split does"},
    {{"cat/1.png", "dog/1.png", "valid/cat/1.png"}, ": valid holds folders as a split does"},
    {{"train/", "val/"}, "none of the 2 class folders holds a .jpg or .png picture"},
};

TEST(SplitFoldersTest, ASplitWithoutTrainIsAnError) {
  for (const Refused& refused : kNoTrain) {
    const Tree tree(refused.names);
    SCOPED_TRACE(testing::PrintToString(refused.names));
    EXPECT_TRUE(throws<DataError>([&] { list_folder(tree.path(), {}); }, refused.words));
    EXPECT_TRUE(
        throws<DataError>([&] { list_folder(tree.path(), {.val_fraction = 0.5}); }, refused.words));
  }
}

const std::vector<Refused> kBadVal{
    {{"train/a/1.png", "val/"},
     "/val: no class was found in that folder",
     "/val: there are neither class folders nor pictures in it"},
    {{"train/a/1.png", "val/1.png"}, "/val: no class was found in that folder"},
    {{"train/a/1.png", "val/.a/1.png"},
     "/val: no class was found in that folder",
     "/val: there are neither class folders nor pictures"},
    {{"train/a/1.png", "val/a/"}, "/val: none of the 1 class folders holds"},
    {{"train/a/1.png", "val"},
     "/val: it is no folder, expected a folder with the pictures of",
     "/val: it is no folder"},
    {{"train/a/1.png", "val -> gone"},
     "/val: the link leads nowhere",
     "/val: the link leads nowhere"},
    {{"train/a/1.png", "val/a/1.png", "val/z/1.png"},
     "/val: the class \"z\" is none of the 1 classes"},
    {{"train/a/1.png", "val/a/1.png", "val/z/"}, "/val: the class \"z\" is none of the 1 classes"},
    {{"train/a/1.png", "val/a/1.png", "val/z -> a"}, "/val: the class \"z\" is none of the 1"},
    {{"train/a/1.png", "val/a/1.png", "val/z -> gone"}, "/val: the link z leads nowhere"},
};

TEST(SplitFoldersTest, AValidationThatIsNoneIsAnError) {
  for (const Refused& refused : kBadVal) {
    const Tree tree(refused.names);
    SCOPED_TRACE(testing::PrintToString(refused.names));
    EXPECT_TRUE(throws<DataError>([&] { list_folder(tree.path(), {}); }, refused.words));
  }
}

TEST(SplitFoldersTest, TrainAloneTurnsValidationOff) {
  const Tree tree({"train/a/1.png", "train/b/1.png", ".val/a/1.png"});
  const PictureLists lists = list_folder(tree.path(), {});
  EXPECT_FALSE(lists.val);
  EXPECT_EQ(lists.classes, (Strings{"a", "b"}));
  EXPECT_EQ(notes_of(lists), "");
}

TEST(SplitFoldersTest, FoldersBesideTheSplitsAreNoted) {
  const Tree tree({"train/a/1.png", "train/b/1.png", "validation/a/1.png", "test/x.png"});
  const PictureLists lists = list_folder(tree.path(), {});
  EXPECT_FALSE(lists.val);
  EXPECT_EQ(notes_of(lists), tree.path() + ": of the folders in it only train and val are read, " +
                                 "not test, validation\n");
}

TEST(SplitFoldersTest, LinksToSplitsAndClassesAreFollowed) {
  const Tree tree({"disk/t/a/1.png", "disk/b/1.png", "disk/v/a/2.png", "set/train -> ../disk/t",
                   "set/val -> ../disk/v", "disk/t/b -> ../b"});
  const PictureLists lists = list_folder(tree.path("set"), {});
  EXPECT_EQ(lists.classes, (Strings{"a", "b"}));
  EXPECT_EQ(lists.train.size(), 2);
  ASSERT_TRUE(lists.val);
  EXPECT_EQ(lists.val->size(), 1);
}

// A class that is gone would move the numbers of those behind it.
TEST(SplitFoldersTest, LinksThatLeadNowhereAreToldOrRefused) {
  const Tree tree({"a/1.png", "b/2.png", "b/more -> gone"});
  EXPECT_EQ(notes_of(list_folder(tree.path(), {})),
            tree.path() + ": 1 links that lead nowhere are left out: b/more\n");
  const Tree classes({"a/1.png", "c/2.png", "b -> gone"});
  EXPECT_TRUE(throws<DataError>([&] { list_folder(classes.path(), {}); },
                                ": the link b leads nowhere; it may be a class"));
}

TEST(SplitFoldersTest, OneClassIsWarnedOfInTrainingAlone) {
  const Tree tree({"train/a/1.png", "train/b/1.png", "val/b/1.png"});
  EXPECT_EQ(notes_of(list_folder(tree.path(), {})), "");
  const Tree above({"set/train/a/1.png", "set/train/b/1.png"});
  EXPECT_NE(notes_of(list_folder(above.path(), {})).find("only one class was found (set)"),
            std::string::npos);
}

TEST(SplitFoldersTest, ImageNetNamesWhatIsMissing) {
  std::vector<Refused> cases = kNoTrain;
  cases.insert(cases.end(), kBadVal.begin(), kBadVal.end());
  cases.push_back({{"train/a/1.png", "synsets.txt -> gone"}, nullptr, "synsets.txt: cannot be"});
  int refused_too = 0;
  for (const Refused& refused : cases) {
    if (refused.imagenet == nullptr) continue;
    ++refused_too;
    const Tree tree(refused.names);
    SCOPED_TRACE(testing::PrintToString(refused.names));
    EXPECT_TRUE(throws<DataError>([&] { list_imagenet(tree.path(), {}); }, refused.imagenet));
  }
  EXPECT_EQ(refused_too, 8);
  const Tree tree({"train/a/1.png", "train/b/1.png", "validation/a/1.png"});
  EXPECT_EQ(notes_of(list_imagenet(tree.path(), {})),
            tree.path() + ": of the folders in it only train and val are read, not validation\n");
}

TEST(SplitFoldersTest, ListsThatLeadNowhereAreNotPassedOver) {
  const TempFolder folder;
  folder.write("val.csv", "1.png,0\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); }, "train.csv: cannot be"));
  folder.write("train.csv", "1.png,0\n");
  fs::remove(folder.path("val.csv"));
  for (const char* name : {"val.csv", "classes.txt"}) {
    fs::create_symlink("gone", folder.path(name));
    EXPECT_TRUE(
        throws<DataError>([&] { list_csv(folder.path(), {}); }, std::string(name) + ": cannot be"));
    fs::remove(folder.path(name));
  }
}

}  // namespace
}  // namespace tr::data

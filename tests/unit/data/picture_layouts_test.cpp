// SPDX-License-Identifier: Apache-2.0
#include "data/picture_layouts.h"
#include "data/check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "core/printable.h"
#include "data/formats/image_tree.h"
#include "data/memory_dataset.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr::data {
namespace {

using test::LogCapture;
using test::TempFolder;
using test::throws;

/// Empty files in folders that are made; no layout opens a picture.
void touch(const TempFolder& folder, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    std::filesystem::create_directories(std::filesystem::path(folder.path(name)).parent_path());
    folder.write(name, "");
  }
}

/// "0 a/x.png" for each sample.
std::vector<std::string> samples(const PictureList& list) {
  std::vector<std::string> all;
  for (std::int64_t id = 0; id < list.size(); ++id) {
    all.push_back(std::to_string(list.labels[std::size_t(id)]) + " " + std::string(list.paths[id]));
  }
  return all;
}

using Strings = std::vector<std::string>;

// folder

TEST(FolderTest, TrainAndValShareTheirClasses) {
  const TempFolder folder;
  touch(folder, {"train/b/2.jpg", "train/a/1.png", "train/a/3.JPEG", "val/b/4.jpg"});
  const PictureLists lists = list_folder(folder.path(), {});
  EXPECT_EQ(lists.classes, (Strings{"a", "b"}));
  EXPECT_EQ(samples(lists.train), (Strings{"0 a/1.png", "0 a/3.JPEG", "1 b/2.jpg"}));
  ASSERT_TRUE(lists.val);
  EXPECT_EQ(samples(*lists.val), (Strings{"1 b/4.jpg"}));  // though b is the only class there
  EXPECT_EQ(lists.val->path_of(0), folder.path("val/b/4.jpg"));
  EXPECT_TRUE(throws<InvalidArgument>([&] { list_folder(folder.path(), {.val_fraction = 0.1}); },
                                      "there is a validation set already"));
}

TEST(FolderTest, AClassOfValidationAloneIsAnError) {
  const TempFolder folder;
  touch(folder, {"train/a/1.png", "val/z/1.png"});
  EXPECT_TRUE(throws<DataError>([&] { list_folder(folder.path(), {}); },
                                "val: the class \"z\" is none of the 1 classes of"));
}

TEST(FolderTest, WithoutSplitsAllIsTraining) {
  const TempFolder folder;
  touch(folder, {"plane/1.png", "train/1.png", "val/1.png"});  // classes that are called so
  const PictureLists lists = list_folder(folder.path(), {});
  EXPECT_EQ(lists.classes, (Strings{"plane", "train", "val"}));
  EXPECT_FALSE(lists.val);
}

TEST(FolderTest, OddThingsAreNoted) {
  const TempFolder folder;
  touch(folder, {"a/1.png", "a/1.PNG", "a/x.webp", "a/y.gif", "a/readme", "b/2.png", "loose.jpg",
                 "A/q.jpg", "b/.jpg"});
  const ImageTree tree = scan_image_tree(folder.path());
  EXPECT_EQ(samples(tree.pictures), (Strings{"0 A/q.jpg", "1 a/1.PNG", "1 a/1.png", "2 b/2.png"}));
  std::string notes;
  for (const std::string& note : tree.notes) notes += note + "\n";
  EXPECT_NE(notes.find("1 pictures outside of any class folder are left out: loose.jpg"),
            std::string::npos);
  EXPECT_NE(notes.find("2 pictures of kinds that are not read are left out: a/x.webp, a/y.gif"),
            std::string::npos);
  EXPECT_NE(notes.find("2 pairs of names differ only in case and are kept apart: A and a, "
                       "a/1.PNG and a/1.png"),
            std::string::npos)
      << notes;
}

// Two links a level to the next one: 2^26 ways to the last.
TEST(FolderTest, LinksThatMultiplyAreRefused) {
  const TempFolder folder;
  touch(folder, {"d26/1.png"});
  for (int level = 0; level < 26; ++level) {
    const std::string dir = folder.path("d" + std::to_string(level));
    std::filesystem::create_directories(dir);
    for (const char* name : {"/x", "/y"}) {
      std::filesystem::create_directory_symlink("../d" + std::to_string(level + 1), dir + name);
    }
  }
  EXPECT_TRUE(throws<DataError>([&] { list_folder(folder.path(), {}); },
                                ": links lead to this folder in more than 10000 ways"));
}

TEST(FolderTest, NamesThatAreNoUtf8AreBytes) {
  const TempFolder folder;
  const std::string odd = "a/caf\xe9.png";  // Latin-1
  touch(folder, {odd, "a/ok.png", "b/1.png"});
  const PictureLists lists = list_folder(folder.path(), {});
  EXPECT_EQ(lists.train.paths[0], odd);
  const DatasetPair pair = open_dataset("folder", folder.path());
  EXPECT_EQ(pair.train->sample_name(0), folder.path() + "/a/caf\\xE9.png");
  EncodedPicture picture;
  std::int32_t label = -1;
  std::byte* out[] = {nullptr, reinterpret_cast<std::byte*>(&label)};
  pair.train->read_encoded(0, picture, out);  // it is found under its bytes
  EXPECT_EQ(label, 0);
}

TEST(FolderTest, FoldersWithoutPicturesAreAnError) {
  const TempFolder folder;
  touch(folder, {"a/notes.txt"});
  EXPECT_TRUE(throws<DataError>([&] { list_folder(folder.path(), {}); },
                                "none of the 1 class folders holds"));
  EXPECT_TRUE(throws<DataError>([&] { list_folder(folder.path("none"), {}); },
                                "none: the folder cannot be read: No such file"));
  EXPECT_TRUE(throws<InvalidArgument>([] { open_dataset("folder", ""); }, "the path is empty"));
}

/// What `body` returns in a process without root's rights, to whom no folder is closed.
int as_nobody(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(100);
    int code = 101;
    try {
      code = body();
    } catch (...) {
      code = 102;
    }
    _exit(code);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FolderTest, AFolderOrFileThatIsClosedIsNamed) {
  const TempFolder folder;
  touch(folder, {"a/1.png", "b/2.png", "c/3.png"});
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  std::filesystem::permissions(folder.path("a/1.png"), std::filesystem::perms(0));
  EXPECT_EQ(as_nobody([&] {
              const DatasetPair pair = open_dataset("folder", folder.path());
              EncodedPicture picture;
              std::int32_t label = -1;
              std::byte* out[] = {nullptr, reinterpret_cast<std::byte*>(&label)};
              return throws<DataError>([&] { pair.train->read_encoded(0, picture, out); },
                                       "a/1.png: cannot be opened: Permission denied")
                         ? 0
                         : 1;
            }),
            0);
  std::filesystem::permissions(folder.path("b"), std::filesystem::perms(0));
  EXPECT_EQ(as_nobody([&] {
              return throws<DataError>(
                         [&] { list_folder(folder.path(), {}); },
                         folder.path("b") + ": the folder cannot be read: Permission denied")
                         ? 0
                         : 1;
            }),
            0);
  std::filesystem::permissions(folder.path("b"), std::filesystem::perms(0755));
}

TEST(PrintableTest, WhatIsNoUtf8IsEscaped) {
  EXPECT_EQ(printable("plain \xc5\xbc\xe7\x94\xbb\xf0\x9f\x90\xa2"),
            "plain \xc5\xbc\xe7\x94\xbb\xf0\x9f\x90\xa2");
  EXPECT_EQ(printable("a\n\x7f"), "a\\x0A\\x7F");
  EXPECT_EQ(printable("\xff\xc0\x80"), "\\xFF\\xC0\\x80");           // never, and overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xED\\xA0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xF4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("\xe7\x94"), "\\xE7\\x94");                    // cut
}

// The split.

PictureLists many(int classes, int per_class) {
  PictureLists lists;
  for (int c = 0; c < classes; ++c) {
    for (int i = 0; i < per_class; ++i) {
      lists.train.add(std::to_string(c) + "/" + std::to_string(i) + ".png", c);
    }
  }
  lists.num_classes = classes;
  return lists;
}

std::set<std::string> set_of(const PictureList& list) {
  const Strings all = samples(list);
  return {all.begin(), all.end()};
}

TEST(SplitTest, TakesTheFractionOfEachClassAndLosesNothing) {
  PictureLists lists = many(5, 30);
  const std::set<std::string> before = set_of(lists.train);
  split_off_validation(lists, 0.2, 0);
  EXPECT_EQ(lists.train.size(), 5 * 24);
  ASSERT_EQ(lists.val->size(), 5 * 6);
  int count[5] = {};
  for (const std::int32_t label : lists.val->labels) ++count[label];
  for (const int n : count) EXPECT_EQ(n, 6);
  std::set<std::string> after = set_of(lists.train);
  after.merge(set_of(*lists.val));
  EXPECT_EQ(after, before);
}

TEST(SplitTest, DependsOnSeedAndPathsAlone) {
  PictureLists a = many(3, 40), b = many(3, 40), c = many(3, 40), more = many(3, 41);
  split_off_validation(a, 0.25, 1);
  split_off_validation(b, 0.25, 1);
  split_off_validation(c, 0.25, 2);
  EXPECT_EQ(samples(*a.val), samples(*b.val));
  EXPECT_NE(samples(*a.val), samples(*c.val));
  split_off_validation(more, 0.25, 1);  // one more picture a class: 10 of 41
  int moved = 0;
  const std::set<std::string> kept = set_of(*a.val);
  for (const std::string& sample : samples(*more.val)) moved += kept.contains(sample) ? 0 : 1;
  EXPECT_LE(moved, 3);
  // Frozen: a set that was split once stays split so.
  PictureLists frozen = many(2, 5);
  split_off_validation(frozen, 0.4, 7);
  EXPECT_EQ(samples(*frozen.val), (Strings{"0 0/3.png", "0 0/4.png", "1 1/2.png", "1 1/3.png"}));
}

TEST(SplitTest, KeepsAPictureOfEachClassForTraining) {
  PictureLists lists = many(4, 2);
  split_off_validation(lists, 0.99, 0);
  EXPECT_EQ(lists.train.size(), 4);
  PictureLists single = many(4, 1);
  EXPECT_TRUE(throws<DataError>([&] { split_off_validation(single, 0.5, 0); },
                                "no class has more than 1 pictures"));
  for (const double fraction : {-0.1, 0.0, 1.0, 2.0}) {
    PictureLists other = many(2, 9);
    EXPECT_TRUE(throws<InvalidArgument>([&] { split_off_validation(other, fraction, 0); },
                                        "expected more than 0 and less than 1"));
  }
}

TEST(SplitTest, IsAnOptionOfTheSet) {
  const TempFolder folder;
  for (const char* c : {"a", "b"}) {
    for (int i = 0; i < 10; ++i) touch(folder, {std::string(c) + "/" + std::to_string(i) + ".jpg"});
  }
  const LogCapture log;
  const DatasetPair pair = open_dataset("folder", folder.path(), {.val_fraction = 0.3});
  EXPECT_EQ(pair.train->num_samples(), 14);
  ASSERT_TRUE(pair.val);
  EXPECT_EQ(pair.val->num_samples(), 6);
  EXPECT_EQ(log.count("data: folder: 14 pictures of 2 classes for training, 6 for validation"), 1);
  const DatasetPair all = open_dataset("folder", folder.path());
  EXPECT_FALSE(all.val);
  EXPECT_EQ(log.count("20 pictures of 2 classes for training, none for validation"), 1);
  EXPECT_TRUE(throws<InvalidArgument>([] { open_dataset("procedural", "", {.val_fraction = 0.5}); },
                                      "procedural has a validation split of its own"));
}

// ImageNet

void make_imagenet(const TempFolder& folder) {
  touch(folder, {"train/n02/a.JPEG", "train/n01/b.JPEG", "train/n03/c.JPEG", "val/v_2.JPEG",
                 "val/v_1.JPEG", "val/v_3.JPEG"});
}

TEST(ImageNetTest, ListsOfTruthInAllTheirForms) {
  const TempFolder folder;
  make_imagenet(folder);
  EXPECT_TRUE(throws<DataError>([&] { list_imagenet(folder.path(), {}); },
                                "the validation pictures lie flat, and none of val.txt"));
  const Strings expected{"2 v_1.JPEG", "0 v_2.JPEG", "1 v_3.JPEG"};
  const std::vector<std::pair<std::string, std::string>> forms{
      {"val.txt", "v_2.JPEG 0\nv_1.JPEG 2\nv_3.JPEG 1\n"},
      {"val/val.txt", "val/v_2.JPEG n01\r\nval/v_1.JPEG n03\r\nval/v_3.JPEG n02\r\n"},
      {"LOC_val_solution.csv",
       "ImageId,PredictionString\nv_3,n02 85 1 499 272\nv_1,n03 1 2 3 4 n03 5 6 7 8\nv_2,n01 1 "
       "1\n"},
      {"imagenet_2012_validation_synset_labels.txt", "n03\nn01\nn02\n"}};
  for (const auto& [name, text] : forms) {
    SCOPED_TRACE(name);
    folder.write(name, text);
    const PictureLists lists = list_imagenet(folder.path(), {});
    EXPECT_EQ(samples(*lists.val), expected);
    EXPECT_EQ(lists.classes, (Strings{"n01", "n02", "n03"}));
    std::filesystem::remove(folder.path(name));
  }
}

TEST(ImageNetTest, NumbersAloneNeedTheSynsetsInTheirOrder) {
  const TempFolder folder;
  make_imagenet(folder);
  folder.write("ILSVRC2012_validation_ground_truth.txt", "1\n3\n2\n");
  EXPECT_TRUE(throws<DataError>([&] { list_imagenet(folder.path(), {}); },
                                "synsets.txt with a synset a line in ILSVRC's order"));
  folder.write("synsets.txt", "n03 third\nn01 first, a kind\n\nn09 not here\nn02\n");
  const PictureLists lists = list_imagenet(folder.path(), {});
  EXPECT_EQ(lists.classes, (Strings{"n03", "n01", "n09", "n02"}));
  EXPECT_EQ(lists.num_classes, 4);
  EXPECT_EQ(samples(lists.train), (Strings{"1 n01/b.JPEG", "3 n02/a.JPEG", "0 n03/c.JPEG"}));
  EXPECT_EQ(samples(*lists.val), (Strings{"0 v_1.JPEG", "2 v_2.JPEG", "1 v_3.JPEG"}));
}

TEST(ImageNetTest, FaultsOfTheTruthAreNamed) {
  const TempFolder folder;
  make_imagenet(folder);
  const auto fails = [&](const std::string& text, std::string_view words) {
    folder.write("val.txt", text);
    return throws<DataError>([&] { list_imagenet(folder.path(), {}); }, words);
  };
  EXPECT_TRUE(fails("v_1 0\nv_2 1\n", "val.txt: says no class for"));
  EXPECT_TRUE(fails("v_1 0\nv_2 1\nv_3 3\n", "line 3: the class 3 is outside 0..2"));
  EXPECT_TRUE(fails("v_1 0\nv_2 x7\nv_3 1\n", "line 2: \"x7\" is neither one of the 3 classes"));
  EXPECT_TRUE(fails("n01\nn02\n", "has 2 lines"));
  EXPECT_TRUE(fails("v_1 0\nn02\n", "line 2: the line has no a name"));
  EXPECT_TRUE(fails("\n", "there are no lines"));
  folder.write("val.txt", "v_1 0\nv_2 1\nv_3 2\nv_4 2\n");
  const PictureLists lists = list_imagenet(folder.path(), {});
  ASSERT_EQ(lists.notes.size(), 1u);
  EXPECT_NE(lists.notes[0].find("1 of its 4 pictures are not in"), std::string::npos);
  EXPECT_TRUE(throws<DataError>([] { list_imagenet("/dev", {}); }, "no folder train in it"));
}

TEST(ImageNetTest, ValidationMayHaveClassFoldersOrBeAbsent) {
  const TempFolder folder;
  touch(folder, {"train/n02/a.JPEG", "train/n01/b.JPEG", "val/n02/c.JPEG"});
  EXPECT_EQ(samples(*list_imagenet(folder.path(), {}).val), (Strings{"1 n02/c.JPEG"}));
  std::filesystem::remove_all(folder.path("val"));
  EXPECT_FALSE(list_imagenet(folder.path(), {}).val);
}

// csv

TEST(CsvSetTest, NumbersAreClassesAndNamesAreSorted) {
  const TempFolder folder;
  folder.write("train.csv", "path,label\nx/1.png,4\n/abs/2.png,0\n");
  PictureLists lists = list_csv(folder.path(), {});
  EXPECT_EQ(lists.num_classes, 5);
  EXPECT_TRUE(lists.classes.empty());
  EXPECT_EQ(lists.train.path_of(0), folder.path("x/1.png"));
  EXPECT_EQ(lists.train.path_of(1), "/abs/2.png");
  EXPECT_FALSE(lists.val);
  folder.write("train.csv", "1.png,dog\n2.png,cat\n3.png,10\n");
  folder.write("val.csv", "4.png,dog\n");
  lists = list_csv(folder.path(), {});
  EXPECT_EQ(lists.classes, (Strings{"10", "cat", "dog"}));
  EXPECT_EQ(samples(lists.train), (Strings{"2 1.png", "1 2.png", "0 3.png"}));
  EXPECT_EQ(samples(*lists.val), (Strings{"2 4.png"}));
  folder.write("classes.txt", "dog\ncat\n10\nfox\n");
  lists = list_csv(folder.path(), {});
  EXPECT_EQ(samples(lists.train), (Strings{"0 1.png", "1 2.png", "2 3.png"}));
  EXPECT_EQ(lists.num_classes, 4);
}

TEST(CsvSetTest, OneFileMayBeSplit) {
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 20; ++i) {
    text += std::to_string(i) + ".png," + std::to_string(i % 2) + "\n";
  }
  folder.write("all.csv", text);
  const PictureLists lists = list_csv(folder.path("all.csv"), {.val_fraction = 0.5});
  EXPECT_EQ(lists.train.size(), 10);
  EXPECT_EQ(lists.val->size(), 10);
}

TEST(CsvSetTest, FaultsAreNamed) {
  const TempFolder folder;
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); }, "train.csv: cannot be"));
  folder.write("train.csv", "1.png,dog\n");
  folder.write("val.csv", "2.png,cow\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); },
                                "val.csv: line 1: the class \"cow\" is none of the 1 classes"));
  folder.write("train.csv", "1.png,0\n");
  folder.write("val.csv", "2.png,1\n");
  folder.write("classes.txt", "only\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); },
                                "val.csv: line 1: the class 1 of 2.png is outside 0..0"));
  folder.write("classes.txt", "a\nb\na\n");
  folder.write("train.csv", "1.png,a\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); }, "\"a\" is named twice"));
  std::filesystem::remove(folder.path("classes.txt"));
  std::filesystem::remove(folder.path("val.csv"));
  folder.write("train.csv", "1.png,3\n2.png,99999999999\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); },
                                "train.csv: line 2: the class 99999999999 is too high"));
  folder.write("train.csv", "1.png,3\n");
  folder.write("val.csv", "2.png,99999999999\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); },
                                "val.csv: line 1: the class 99999999999 is too high"));
}

TEST(CsvSetTest, ARefusedNameLeavesNoFolderBehind) {
  const TempFolder folder;
  PictureLists lists;
  lists.classes = {"a", "b\nc"};
  const std::string target = folder.path("lists");
  EXPECT_TRUE(
      throws<DataError>([&] { write_csv_set(lists, target); }, "has a line break in its name"));
  EXPECT_FALSE(std::filesystem::exists(target));
}

TEST(CsvSetTest, NumbersThatAreNoClassesAreRefusedAndNumbersAmongNamesNoted) {
  const TempFolder folder;
  for (const char* label :
       {"-1", "1.0", " 1", "1 ", "+2", "nan", "1e3", "-0.5", "99999999999999999999"}) {
    folder.write("train.csv", std::string("a.png,0\nb.png,") + label + "\n");
    EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); },
                                  "train.csv: line 2: the label \"" + std::string(label) +
                                      "\" is no class, expected a whole number"));
  }
  for (const char* name : {"cat", "1a", "-", "n02", "inf", "infinity", "1.0.0", "nancy", "+"}) {
    folder.write("train.csv", std::string("a.png,x\nb.png,") + name + "\n");
    EXPECT_TRUE(list_csv(folder.path(), {}).notes.empty()) << name;
  }
  folder.write("train.csv", "a.png,10\nb.png,2\nc.png,cat\n");
  const PictureLists mixed = list_csv(folder.path(), {});
  EXPECT_EQ(mixed.classes, (Strings{"10", "2", "cat"}));
  ASSERT_EQ(mixed.notes.size(), 1u);
  EXPECT_NE(mixed.notes[0].find("whole numbers (line 2: 2) and names (line 3: cat)"),
            std::string::npos)
      << mixed.notes[0];
  folder.write("train.csv", "picture,kind\na.png,10\nb.png,2\n");
  EXPECT_TRUE(throws<DataError>([&] { list_csv(folder.path(), {}); },
                                "line 1: \"kind\" is the only label that is no number"));
  folder.write("classes.txt", "-1\n0\n");  // who lists them means them
  folder.write("train.csv", "a.png,0\nb.png,-1\n");
  EXPECT_EQ(samples(list_csv(folder.path(), {}).train), (Strings{"1 a.png", "0 b.png"}));
}

TEST(FolderTest, APipeIsNoPicture) {
  const TempFolder folder;
  touch(folder, {"a/1.png", "b/2.png"});
  ASSERT_EQ(::mkfifo(folder.path("a/pipe.png").c_str(), 0600), 0);
  const ImageTree tree = scan_image_tree(folder.path());
  EXPECT_EQ(samples(tree.pictures), (Strings{"0 a/1.png", "1 b/2.png"}));
  ASSERT_EQ(tree.notes.size(), 1u);
  EXPECT_NE(tree.notes[0].find("1 pipes, sockets and devices are left out: a/pipe.png"),
            std::string::npos)
      << tree.notes[0];
}

TEST(PictureMemoryTest, HoldsTheFilesAndTheirFaults) {
  const TempFolder folder;
  touch(folder, {"a/1.png", "b/2.png"});
  folder.write("a/1.png", "some bytes");
  folder.write("b/2.png", "");
  std::filesystem::create_symlink("nowhere", folder.path("b/3.png"));
  const LogCapture log;
  const auto set = load_into_memory(open_dataset("folder", folder.path()).train);
  EXPECT_EQ(load_into_memory(set), set);
  std::filesystem::remove_all(folder.path("a"));
  std::filesystem::remove_all(folder.path("b"));
  EncodedPicture picture;
  std::int32_t label = -1;
  std::byte* out[] = {nullptr, reinterpret_cast<std::byte*>(&label)};
  for (int round = 0; round < 2; ++round) {
    set->read_encoded(1, picture, out);
    EXPECT_TRUE(picture.bytes.empty());
    EXPECT_EQ(label, 1);
    set->read_encoded(0, picture, out);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(picture.bytes.data()), 10), "some bytes");
    EXPECT_EQ(picture.bytes.size(), 10u);
    EXPECT_EQ(label, 0);
    EXPECT_TRUE(throws<DataError>([&] { set->read_encoded(2, picture, out); },
                                  "b/3.png: cannot be opened: No such file"));
  }
}

}  // namespace
}  // namespace tr::data

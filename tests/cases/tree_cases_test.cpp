// SPDX-License-Identifier: Apache-2.0
// Every tree of tree/ has its stated outcome.
#include <gtest/gtest.h>

#include <cstdlib>

#include "data/formats/image_tree.h"
#include "data/picture_set.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr {
namespace {

using data::ImageTree;
using data::scan_image_tree;
using test::LogCapture;
using test::TempFolder;
using test::throws;

/// The folder in which the archive's one folder lies.
class Unpacked {
 public:
  explicit Unpacked(const std::string& name) {
    const std::string command =
        "tar -xzf " TR_CASES_FOLDER "/tree/" + name + ".tar.gz -C " + folder_.path();
    if (std::system(command.c_str()) != 0) throw std::runtime_error("tar failed: " + command);
    root_ = folder_.path(name);
    if (!std::filesystem::is_directory(root_)) root_ = folder_.path();
  }
  const std::string& root() const { return root_; }
  std::string parent() const { return folder_.path(); }

 private:
  TempFolder folder_;
  std::string root_;
};

std::vector<std::string> paths_of(const ImageTree& tree) {
  std::vector<std::string> paths;
  for (std::int64_t id = 0; id < tree.pictures.size(); ++id) {
    paths.push_back(std::to_string(tree.pictures.labels[std::size_t(id)]) + " " +
                    std::string(tree.pictures.paths[id]));
  }
  return paths;
}

std::string notes_of(const ImageTree& tree) {
  std::string notes;
  for (const std::string& note : tree.notes) notes += note + "\n";
  return notes;
}

TEST(TreeCasesTest, BasicHasItsClassesInByteOrder) {
  const Unpacked basic("basic");
  const ImageTree tree = scan_image_tree(basic.root());
  EXPECT_EQ(tree.classes, (std::vector<std::string>{"10", "2", "Z upper", "a lower",
                                                    "\xc5\xbc\xc3\xb3\xc5\x82w"}));
  const std::vector<std::string> paths = paths_of(tree);
  ASSERT_EQ(paths.size(), 6u) << notes_of(tree);
  EXPECT_EQ(paths[0], "0 10/a.png");
  EXPECT_EQ(paths[1], "1 2/b.PNG");
  EXPECT_EQ(paths[2], "1 2/nested/deep/c.png");
  EXPECT_TRUE(paths[3].starts_with("2 Z upper/"));
  EXPECT_TRUE(paths[4].starts_with("3 a lower/"));
  EXPECT_TRUE(paths[5].starts_with("4 "));
  EXPECT_EQ(paths_of(scan_image_tree(basic.root())), paths);  // every run
}

TEST(TreeCasesTest, TheFolderAboveASetIsWarnedOf) {
  const Unpacked basic("basic");
  if (basic.root() == basic.parent()) GTEST_FAIL() << "the archive has no folder of its own";
  const LogCapture log;
  const DatasetPair pair = open_dataset("folder", basic.parent());
  EXPECT_EQ(pair.train->num_classes(), 1);
  EXPECT_EQ(log.count("WARNING data: " + basic.parent() + ": only one class was found (basic)"), 1)
      << log.text();
}

TEST(TreeCasesTest, AnEmptyClassKeepsItsNumberAndIsWarnedOf) {
  const Unpacked empty("empty_class");
  const ImageTree tree = scan_image_tree(empty.root());
  EXPECT_EQ(tree.classes, (std::vector<std::string>{"a", "b", "c"}));
  for (const std::string& path : paths_of(tree)) {
    EXPECT_TRUE(path.starts_with("0 a/") || path.starts_with("2 c/")) << path;
  }
  EXPECT_NE(notes_of(tree).find("1 classes without a picture keep their numbers: b (1)"),
            std::string::npos)
      << notes_of(tree);
}

TEST(TreeCasesTest, LinksAreFollowedButNotInCircles) {
  const Unpacked links("symlinks");
  const ImageTree tree = scan_image_tree(links.root());
  EXPECT_EQ(tree.classes, (std::vector<std::string>{"linked", "loop", "real"}));
  int count[3] = {};
  for (const std::int32_t label : tree.pictures.labels) ++count[label];
  EXPECT_EQ(count[0], 2);
  EXPECT_EQ(count[1], 1);
  EXPECT_EQ(count[2], 2);
  EXPECT_NE(notes_of(tree).find("lead back to a folder above them are not followed: loop/again"),
            std::string::npos)
      << notes_of(tree);
}

TEST(TreeCasesTest, ALinkToNowhereFailsWhenItIsRead) {
  const Unpacked dangling("dangling");
  const DatasetPair pair = open_dataset("folder", dangling.root());
  ASSERT_EQ(pair.train->num_samples(), 3);
  int good = 0, bad = 0;
  for (std::int64_t id = 0; id < 3; ++id) {
    EncodedPicture picture;
    std::int32_t label = -1;
    std::byte* out[] = {nullptr, reinterpret_cast<std::byte*>(&label)};
    if (pair.train->sample_name(id).ends_with("a/gone.png")) {
      EXPECT_TRUE(throws<DataError>([&] { pair.train->read_encoded(id, picture, out); },
                                    "a/gone.png: cannot be opened: No such file"));
      ++bad;
    } else {
      pair.train->read_encoded(id, picture, out);
      EXPECT_GT(picture.bytes.size(), 8u);
      EXPECT_EQ(label, pair.train->known_label(id));
      ++good;
    }
  }
  EXPECT_EQ(good, 2);
  EXPECT_EQ(bad, 1);
}

TEST(TreeCasesTest, AFolderWithoutClassesIsRefused) {
  const Unpacked none("no_class");
  EXPECT_TRUE(throws<DataError>([&] { open_dataset("folder", none.root()); },
                                none.root() + ": no class was found in that folder"));
}

}  // namespace
}  // namespace tr

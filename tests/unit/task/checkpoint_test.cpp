// SPDX-License-Identifier: Apache-2.0
#include "task/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/input_file.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "task/train_state.h"
#include "toy.h"

namespace tr {
namespace {

Checkpoint sample(const std::string& state = R"({"phase": 1})") {
  return {state,
          {{"weight/b", Tensor::normal({3, 4}, 0, 1, 1)},
           {"scalar/a", Tensor::full({}, 3, DType::INT64)}}};
}

void replace_metadata(const std::string& path, const std::string& key, const std::string& value) {
  SafetensorsFile file = load_safetensors(path);
  file.metadata[key] = value;
  save_safetensors(path, file);
}

TEST(Checkpoint, ComesBackAsItWas) {
  const test::TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  checkpoints.write(12, sample());
  const auto found = CheckpointFolder::newest(folder.path());
  ASSERT_TRUE(found);
  EXPECT_EQ(found->step, 12);
  EXPECT_EQ(found->checkpoint.state, sample().state);
  ASSERT_EQ(found->checkpoint.tensors.size(), 2u);
  for (const NamedTensor& tensor : found->checkpoint.tensors) {
    const Tensor want = sample().tensors[tensor.name == "weight/b" ? 0 : 1].tensor;
    EXPECT_TRUE(is_close(tensor.tensor, want, 0, 0)) << tensor.name;
  }
}

TEST(Checkpoint, KeepsTheNewest) {
  const test::TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  for (const int step : {5, 10, 15, 20}) {
    const std::string path = checkpoints.write(step, sample());
    if (step == 10) checkpoints.mark_best(path);
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++files;
    EXPECT_EQ(entry.path().extension(), ".safetensors")
        << "nothing temporary stays: " << entry.path();
  }
  EXPECT_EQ(files, 3) << "two newest and the best";
  EXPECT_EQ(CheckpointFolder::newest(folder.path())->step, 20);
  EXPECT_TRUE(Checkpoint::is_one(load_safetensors(folder.path("best.safetensors"))));
}

TEST(Checkpoint, FilesOfOtherNamesAreLeftAlone) {
  const test::TempFolder folder;
  for (const char* name : {"checkpoint-5", "checkpoint--000000001", "checkpoint-00000000005"}) {
    save_safetensors(folder.path(std::string(name) + ".safetensors"), sample().to_file());
  }
  EXPECT_FALSE(CheckpointFolder::newest(folder.path()));
  const CheckpointFolder checkpoints(folder.path(), 1);
  checkpoints.set_former_aside();
  for (const int step : {10, 20}) checkpoints.write(step, sample());
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path()))
    ++files;
  EXPECT_EQ(files, 4);
  EXPECT_EQ(checkpoints.write(12'345'678'901, sample()),
            folder.path("checkpoint-12345678901.safetensors"));
  EXPECT_EQ(CheckpointFolder::newest(folder.path())->step, 12'345'678'901);
}

TEST(Checkpoint, AFolderInThePlaceOfTheBestIsToldAtOnce) {
  const test::TempFolder folder;
  std::filesystem::create_directory(folder.path("best.safetensors"));
  EXPECT_TRUE(test::throws<DataError>([&] { CheckpointFolder(folder.path(), 1); },
                                      "best.safetensors: it is a folder"));
}

TEST(Checkpoint, LeftoversOfAKilledRunAreRemoved) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 2);
  const std::string kept = checkpoints.write(5, sample());
  const std::vector<std::string> leftovers = {
      "checkpoint-0000000009.safetensors.123-4.tmp", "best.safetensors.123.tmp",
      "best_weights.safetensors.123-5.tmp", ".probe.123-0.tmp"};
  for (const std::string& name : leftovers) std::ofstream(folder.path(name)) << "half";
  std::ofstream(folder.path("notes.tmp")) << "the user's";
  checkpoints.remove_leftovers();
  for (const std::string& name : leftovers)
    EXPECT_FALSE(std::filesystem::exists(folder.path(name))) << name;
  EXPECT_TRUE(std::filesystem::exists(folder.path("notes.tmp")));
  EXPECT_TRUE(std::filesystem::exists(kept));
}

TEST(Checkpoint, AFreshRunSetsThoseOfAFormerOneAside) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 1);
  checkpoints.set_former_aside();
  EXPECT_FALSE(std::filesystem::exists(folder.path("former-1"))) << "there was nothing to move";
  checkpoints.mark_best(checkpoints.write(30, sample()));
  checkpoints.set_former_aside();
  EXPECT_FALSE(CheckpointFolder::newest(folder.path()));
  EXPECT_EQ(CheckpointFolder::newest(folder.path("former-1"))->step, 30);
  EXPECT_TRUE(std::filesystem::exists(folder.path("former-1") + "/best.safetensors"));
  checkpoints.mark_best(checkpoints.write(10, sample()));
  EXPECT_EQ(CheckpointFolder::newest(folder.path())->step, 10);
  checkpoints.set_former_aside();
  EXPECT_EQ(CheckpointFolder::newest(folder.path("former-2"))->step, 10);
}

TEST(Checkpoint, TheBestWeightsOfAFormerRunAreSetAsideWhereTheyLieInTheFolder) {
  const toy::Quiet quiet;
  const test::TempFolder folder, elsewhere;
  const CheckpointFolder checkpoints(folder.path(), 1);
  for (const std::string& path : {folder.path("weights"), elsewhere.path("weights")})
    std::ofstream(path) << "former";
  checkpoints.set_former_aside(elsewhere.path("weights"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("former-1")));
  EXPECT_TRUE(std::filesystem::exists(elsewhere.path("weights")));
  checkpoints.set_former_aside(folder.path("weights"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("weights")));
  EXPECT_TRUE(std::filesystem::exists(folder.path("former-1") + "/weights"));
  checkpoints.set_former_aside(folder.path("weights"));
  EXPECT_FALSE(std::filesystem::exists(folder.path("former-2")));
}

TEST(Checkpoint, TornOnesArePassedOver) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 5);
  checkpoints.write(1, sample());
  const std::string torn = checkpoints.write(2, sample());
  const auto whole = std::filesystem::file_size(torn);
  for (const auto size : {whole - 1, whole / 2, std::uintmax_t(8), std::uintmax_t(0)}) {
    std::filesystem::resize_file(torn, size);
    const auto found = CheckpointFolder::newest(folder.path());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->step, 1) << "cut to " << size;
  }
  // To begin again would throw away what may be mended.
  std::filesystem::resize_file(folder.path("checkpoint-0000000001.safetensors"), 5);
  EXPECT_TRUE(test::throws<DataError>([&] { CheckpointFolder::newest(folder.path()); },
                                      "no other checkpoint that is sound (2 in all)"));
}

/// Without root's right to read everything, while it lives.
class PlainUser {
 public:
  PlainUser() : root_(::geteuid() == 0) {
    if (root_ && ::seteuid(65534) != 0) ADD_FAILURE() << "seteuid failed";
  }
  ~PlainUser() {
    if (root_ && ::seteuid(0) != 0) ADD_FAILURE() << "seteuid failed";
  }

 private:
  bool root_;
};

// An older one in place of a sound one that only cannot be read would throw steps away.
TEST(Checkpoint, UnreadableOnesAreAnError) {
  const toy::Quiet quiet;
  const test::TempFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 5);
  checkpoints.write(1, sample());
  const std::string newest = checkpoints.write(2, sample());
  const auto find = [&] { CheckpointFolder::newest(folder.path()); };
  using std::filesystem::perms;
  std::filesystem::permissions(folder.path(), perms::all);
  std::filesystem::permissions(newest, perms::none);
  {
    const PlainUser user;
    EXPECT_TRUE(test::throws<DataError>(find, "Permission denied; it is the newest checkpoint of"));
  }
  std::filesystem::remove(newest);
  std::filesystem::create_directory(newest);
  EXPECT_TRUE(test::throws<DataError>(find, "it is a folder; it is the newest checkpoint"));
  std::filesystem::remove(newest);
  ASSERT_EQ(::mkfifo(newest.c_str(), 0600), 0);
  EXPECT_TRUE(test::throws<DataError>(find, "not a regular file; it is the newest"));
  std::filesystem::remove(newest);
  std::filesystem::create_symlink("missing", newest);
  EXPECT_TRUE(test::throws<DataError>(find, "No such file or directory; it is the newest"));
  std::filesystem::remove(newest);
  EXPECT_EQ(CheckpointFolder::newest(folder.path())->step, 1);
}

TEST(Checkpoint, ChangedBytesAreFound) {
  const test::TempFolder folder;
  const std::string path = CheckpointFolder(folder.path(), 5).write(1, sample());
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x55');
  }
  EXPECT_THROW(Checkpoint::from_file(load_safetensors(path), path), DataError);
}

TEST(Checkpoint, ForeignAndNewerFilesAreRefused) {
  const test::TempFolder folder;
  const std::string foreign = folder.path("foreign.safetensors");
  save_safetensors(foreign, {sample().tensors, {}});
  EXPECT_THROW(Checkpoint::from_file(load_safetensors(foreign), foreign), DataError);
  const std::string path = CheckpointFolder(folder.path(), 5).write(1, sample());
  replace_metadata(path, "renaissance.checkpoint", std::to_string(Checkpoint::kFormat + 1));
  EXPECT_THROW(CheckpointFolder::newest(folder.path()), Unsupported)
      << "never passed over in silence";
  replace_metadata(path, "renaissance.checkpoint", "x");
  EXPECT_THROW(Checkpoint::from_file(load_safetensors(path), path), DataError);
}

// What the fuzzers begin with has the outcome that its name says.
TEST(Checkpoint, SeedsOfTheFuzzersReachTheirPlaces) {
  const std::string seeds = TR_SOURCE_FOLDER "/tests/fuzz/seeds/checkpoint/";
  const auto read = [&](const char* name) {
    return Checkpoint::from_file(load_safetensors(seeds + name), name);
  };
  EXPECT_EQ(read("sound.safetensors").tensors.size(), 1u);
  EXPECT_THROW(read("newer.safetensors"), Unsupported);
  EXPECT_TRUE(test::throws<DataError>([&] { read("damaged.safetensors"); }, "checksum"));
  const SavedState saved = state_from_json(read_text(seeds + "state.json"), "state.json");
  EXPECT_EQ(saved.state.total_steps, 300);
  EXPECT_EQ(saved.state.history.size(), 1u);
}

TEST(Checkpoint, UnwritablePlacesAreToldAtOnce) {
  const test::TempFolder folder;
  std::ofstream(folder.path("file")) << "x";
  EXPECT_THROW(CheckpointFolder(folder.path("file"), 1), DataError);
  EXPECT_THROW(CheckpointFolder(folder.path("file") + "/below", 1), DataError);
  EXPECT_FALSE(CheckpointFolder::newest(folder.path("missing")));
}

}  // namespace
}  // namespace tr

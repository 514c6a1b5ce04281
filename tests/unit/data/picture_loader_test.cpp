// SPDX-License-Identifier: Apache-2.0
// Folders of pictures on their way through the loader.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "core/philox.h"
#include "core/sha256.h"
#include "data/loader.h"
#include "data/scan_mark_store.h"
#include "data/split_pipeline.h"
#include "renaissance/core/error.h"
#include "renaissance/data/datasets.h"
#include "support/log_capture.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/throws.h"

namespace tr::data {
namespace {

namespace fs = std::filesystem;
using test::LogCapture;
using test::TempFolder;
using test::throws;

constexpr int kSide = 24;

/// Two classes with pictures of many kinds and sizes, each in both.
void make_tree(const TempFolder& folder) {
  for (const char* c : {"train/a", "train/b", "val/b"}) {
    fs::create_directories(folder.path(c));
    for (const char* name :
         {"whole.jpg", "baseline.jpg", "progressive.jpg", "gray.jpg", "cmyk_adobe.jpg",
          "exif_orientation6.jpg", "odd_420_17x13.jpg", "rgb16.png", "rgba.png", "palette_trns.png",
          "png_inside.JPEG", "one_pixel.png", "trailing_junk.jpg"}) {
      fs::copy_file(std::string(TR_CASES_FOLDER "/img/") + name, folder.path(c) + "/" + name);
    }
  }
}

void add_bad(const TempFolder& folder) {
  for (const char* name : {"truncated_half.jpg", "html_page.jpg", "huge_dims.png"}) {
    fs::copy_file(std::string(TR_CASES_FOLDER "/img/") + name, folder.path("train/a/") + name);
  }
  fs::create_symlink("nowhere.png", folder.path("train/b/gone.png"));
}

LoaderConfig config_of(const TempFolder& folder, int workers, int readers) {
  const DatasetPair pair = open_dataset("folder", folder.path());
  LoaderConfig config;
  config.train = {
      .dataset = pair.train,
      .transforms = {.transforms = {RandomResizedCrop(kSide), RandomHorizontalFlip(),
                                    ColorJitter(0.2f, 0.2f, 0.2f, 0.1f), RandomErasing(0.25f)},
                     .normalization = NormMode::IMAGENET},
      .batch_size = 3,
      .global_batch = 6,
      .shuffle = true};
  config.val = {.dataset = pair.val,
                .transforms = {.transforms = {Resize(30), CenterCrop(kSide)},
                               .normalization = NormMode::IMAGENET},
                .batch_size = 5,
                .global_batch = 5,
                .cache_processed = true};
  config.seed = 9;
  config.num_workers = workers;
  config.num_readers = readers;
  return config;
}

std::optional<StreamPhase> epochs(std::int64_t i) {
  if (i >= 4) return std::nullopt;
  return StreamPhase{i % 2 == 0 ? Split::TRAIN : Split::VAL, i / 2};
}

std::vector<std::string> stream_of(
    const LoaderConfig& config, std::int64_t phase = 0, std::int64_t step = 0,
    const std::function<std::optional<StreamPhase>(std::int64_t)>& phases = epochs) {
  Loader loader(config, phases, phase, step);
  std::vector<std::string> digests;
  while (const Batch* b = loader.next()) {
    Sha256 hash;
    const std::size_t pixels = std::size_t(b->size) * kSide * kSide * 3 * sizeof(float);
    hash.update({static_cast<const std::byte*>(b->fields.at("image")), pixels});
    hash.update({static_cast<const std::byte*>(b->fields.at("label")), std::size_t(b->size) * 4});
    digests.push_back(hash.hex());
    loader.release(*b);
  }
  return digests;
}

// Workers' scratch grows to the largest picture while the consumer asks; TSan sees it look.
TEST(PictureLoaderTest, MemoryIsCountedWhileWorkersDecode) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  Loader loader(config_of(folder, 2, 1), epochs, 0, 0);
  const std::int64_t first = loader.memory_bytes();
  std::int64_t last = first;
  while (const Batch* b = loader.next()) {
    const std::int64_t now = loader.memory_bytes();
    EXPECT_GE(now, last);
    last = now;
    loader.release(*b);
  }
  EXPECT_GT(last, first);
}

TEST(PictureLoaderTest, BytesDoNotDependOnThreads) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  const auto want = stream_of(config_of(folder, 1, 0));
  ASSERT_EQ(want.size(), 2u * (5 * 2 + 3));  // an epoch: 26 pictures in steps of 6
  for (const auto& [workers, readers] : {std::pair{1, 1}, {2, 0}, {2, 3}, {4, 2}, {3, -1}}) {
    EXPECT_EQ(stream_of(config_of(folder, workers, readers)), want)
        << workers << " workers, " << readers << " readers";
  }
  LoaderConfig in_memory = config_of(folder, 2, 0);
  in_memory.full_memory = std::make_shared<SetsInMemory>();
  EXPECT_EQ(stream_of(in_memory), want);
  LoaderConfig other = config_of(folder, 2, 1);
  other.seed = 10;
  EXPECT_NE(stream_of(other), want);
}

TEST(PictureLoaderTest, DecodingIsAsConfigured) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  LoaderConfig config = config_of(folder, 2, 1);
  const auto upright = stream_of(config);
  config.decode.decode_crop_only = false;
  EXPECT_EQ(stream_of(config), upright);
  config.decode.exif = ExifPolicy::IGNORE;
  const auto stored = stream_of(config);
  EXPECT_NE(stored, upright);
  config.decode.decode_crop_only = true;
  EXPECT_EQ(stream_of(config), stored);
  // Pictures of 96 and 70 pixels that become 8: decoded at a part of their size.
  config = config_of(folder, 2, 1);
  for (SplitConfig* split : {&config.train, &config.val})
    split->transforms.transforms = {Resize(8, ResizeMode::SQUARE), Pad(8)};
  const auto scaled = stream_of(config);
  config.decode.dct_scaling = false;
  const auto whole = stream_of(config);
  EXPECT_NE(scaled, whole);
  config.decode.fast_dct = true;
  EXPECT_NE(stream_of(config), whole);
}

TEST(PictureLoaderTest, RememberedRowsTakeMemoryAndChangeNoBytes) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  const auto five_epochs = [](std::int64_t i) {
    return i < 5 ? std::optional(StreamPhase{Split::TRAIN, i}) : std::nullopt;
  };
  LoaderConfig config = config_of(folder, 2, 1);
  const auto kept_bytes = [&] {
    return SplitPipeline("training", config.train, config, Split::TRAIN).kept_bytes();
  };
  const auto remembered = stream_of(config, 0, 0, five_epochs);
  EXPECT_EQ(remembered.size(), 5u * 10);
  EXPECT_EQ(kept_bytes(), ScanMarkStore::bytes_for(26));
  config.decode.remember_rows = false;
  EXPECT_EQ(stream_of(config, 0, 0, five_epochs), remembered);
  EXPECT_EQ(kept_bytes(), 0);
  config.decode.remember_rows = true;
  config.train.transforms.transforms = {Resize(30), RandomCrop(kSide)};
  EXPECT_EQ(kept_bytes(), 0) << "the whole picture is decoded each time";
  config.train.transforms.transforms = {CenterCrop(kSide)};
  EXPECT_EQ(kept_bytes(), 0) << "the same part each time";
}

TEST(PictureLoaderTest, WaysOfDecodingAreCounted) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  const auto decoded_in = [&](const LoaderConfig& config, int epochs) {
    Loader loader(config, [&](std::int64_t i) {
      return i < epochs ? std::optional(StreamPhase{Split::TRAIN, i}) : std::nullopt;
    });
    while (const Batch* batch = loader.next()) loader.release(*batch);
    return loader.stats().decoded;
  };
  const auto of = [](const DecodeCounts& counts, DecodePath path) {
    return counts[std::size_t(path)];
  };
  LoaderConfig config = config_of(folder, 2, 1);
  const std::int64_t samples = 26, png = 10;
  const DecodeCounts first = decoded_in(config, 1), four = decoded_in(config, 4);
  EXPECT_EQ(std::accumulate(first.begin(), first.end(), std::int64_t{0}), samples);
  EXPECT_EQ(std::accumulate(four.begin(), four.end(), std::int64_t{0}), 4 * samples);
  EXPECT_EQ(of(first, DecodePath::PNG), png);
  EXPECT_EQ(of(four, DecodePath::PNG), 4 * png);
  EXPECT_EQ(of(first, DecodePath::ROWS), 0);
  EXPECT_GT(of(four, DecodePath::ROWS), 0);
  EXPECT_GT(of(first, DecodePath::LIBJPEG), 0) << "progressive.jpg";
  config.decode.own_huffman = false;
  EXPECT_EQ(of(decoded_in(config, 1), DecodePath::CODES), 0);
}

TEST(PictureLoaderTest, ResumesAtRandomPlacesWithOtherThreads) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  const auto all = stream_of(config_of(folder, 2, 1));
  for (std::uint64_t trial = 0; trial < 12; ++trial) {
    const Philox4 words = DrawAddress{4, DrawPurpose::TEST, trial, 0}.block(0);
    const std::int64_t phase = uniform_below(words.v[0], 4);
    const std::int64_t step = uniform_below(words.v[1], phase % 2 == 0 ? 5 : 3);
    const int workers = 1 + int(uniform_below(words.v[2], 4));
    const int readers = int(uniform_below(words.v[3], 3));
    const std::int64_t done = phase / 2 * 13 + (phase % 2 == 0 ? step * 2 : 10 + step);
    EXPECT_EQ(stream_of(config_of(folder, workers, readers), phase, step),
              std::vector(all.begin() + done, all.end()))
        << "phase " << phase << ", step " << step;
  }
}

TEST(PictureLoaderTest, BrokenPicturesFollowThePolicy) {
  const TempFolder folder;
  make_tree(folder);
  add_bad(folder);
  {
    const LogCapture log;
    EXPECT_TRUE(throws<DataError>([&] { stream_of(config_of(folder, 2, 1)); }, folder.path()));
  }
  for (const BadSamplePolicy policy : {BadSamplePolicy::SKIP, BadSamplePolicy::REPLACE}) {
    std::vector<std::string> want;
    for (const auto& [workers, readers] : {std::pair{1, 0}, {3, 2}, {2, 0}}) {
      const LogCapture log;
      LoaderConfig config = config_of(folder, workers, readers);
      config.bad_samples = std::make_shared<BadSamples>(policy, 4);
      const auto got = stream_of(config);
      if (want.empty()) want = got;
      EXPECT_EQ(got, want) << workers << " workers, " << readers << " readers";
      EXPECT_EQ(config.bad_samples->count(), 4);
      for (const char* name : {"truncated_half.jpg", "html_page.jpg", "huge_dims.png", "gone.png"})
        EXPECT_EQ(log.count(name), 1) << name << "\n" << log.text();
      config.bad_samples = std::make_shared<BadSamples>(policy, 3);
      EXPECT_TRUE(throws<DataError>([&] { stream_of(config); }, "bad_sample_limit is 3"));
    }
  }
}

TEST(PictureLoaderTest, StopsAtAnyMomentAndLeavesNoThread) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  const std::int64_t threads_before = test::num_threads();
  for (std::uint64_t trial = 0; trial < 150; ++trial) {
    const Philox4 words = DrawAddress{6, DrawPurpose::TEST, trial, 0}.block(0);
    LoaderConfig config =
        config_of(folder, 1 + int(uniform_below(words.v[0], 4)), int(uniform_below(words.v[1], 4)));
    if (trial % 3 == 0) {
      config.train.transforms.transforms.push_back(Mixup());
      config.train.mixed_classes = 2;
    }
    Loader loader(config, epochs);
    for (std::uint32_t i = uniform_below(words.v[2], 12); i > 0; --i)
      loader.release(*loader.next());
    if ((words.v[3] & 1u) != 0) loader.next();  // one still out
  }
  EXPECT_EQ(test::num_threads(), threads_before);
}

TEST(PictureLoaderTest, MemoryStaysTheSameOverTwentyEpochs) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  Loader loader(config_of(folder, 2, 2), [](std::int64_t i) -> std::optional<StreamPhase> {
    if (i >= 48) return std::nullopt;
    return StreamPhase{i % 2 == 0 ? Split::TRAIN : Split::VAL, i / 2};
  });
  const auto run_epochs = [&](int count) {
    for (int passes = 0; passes < 2 * count;) {
      const Batch* b = loader.next();
      passes += b->last_in_phase ? 1 : 0;
      loader.release(*b);
    }
  };
  run_epochs(4);  // buffers have grown to the largest picture
  const std::int64_t before = test::resident_bytes();
  run_epochs(20);
  EXPECT_EQ(loader.next(), nullptr);
  if (test::kSanitized) return;
  EXPECT_NEAR(double(test::resident_bytes()), double(before), 0.01 * double(before));
}

TEST(PictureLoaderTest, AChainThatLeavesTheSizeOpenIsRefused) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  LoaderConfig config = config_of(folder, 1, 0);
  config.train.transforms.transforms = {RandomHorizontalFlip()};
  EXPECT_THROW(Loader(config, epochs), InvalidArgument);
}

TEST(PictureLoaderTest, OneChannelIsGray) {
  const LogCapture log;
  const TempFolder folder;
  make_tree(folder);
  const DatasetPair pair = open_dataset("folder", folder.path(), {.color_channels = 1});
  LoaderConfig config;
  config.train = {.dataset = pair.train,
                  .transforms = {.transforms = {Resize(kSide, ResizeMode::SQUARE)},
                                 .normalization = NormMode::NO_NORM},
                  .batch_size = 1,
                  .global_batch = 1};
  config.num_workers = 2;
  Loader loader(
      config, [](std::int64_t i) { return i == 0 ? std::optional(StreamPhase{}) : std::nullopt; });
  // The last of class a by name: whole.jpg, whose mean is about (127.58, 133.89, 127.47).
  const Batch* b = nullptr;
  for (int i = 0; i < 13; ++i) {
    if (b != nullptr) loader.release(*b);
    b = loader.next();
  }
  const auto* pixels = static_cast<const float*>(b->fields.at("image"));
  double mean = 0;
  for (int i = 0; i < kSide * kSide; ++i) mean += pixels[i] / (kSide * kSide);
  EXPECT_NEAR(mean * 255, 0.299 * 127.58 + 0.587 * 133.89 + 0.114 * 127.47, 2.0);
}

}  // namespace
}  // namespace tr::data

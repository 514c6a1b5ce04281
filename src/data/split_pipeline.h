// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/picture_stage.h"
#include "data/processed_cache.h"
#include "data/sample_policy.h"
#include "data/sampler.h"
#include "data/scan_mark_store.h"
#include "data/stage_times.h"
#include "data/transforms/batch_mix.h"
#include "data/transforms/chain.h"
#include "data/unit_cursor.h"

namespace tr::data {

/// What one worker owns: buffers that are made once.
struct WorkerScratch {
  std::array<std::unique_ptr<PictureStage>, 2> pictures;  // by split, of picture files
  std::vector<std::byte> steps;                           // of PixelChain::run_pixels()

  std::int64_t num_bytes() const {
    std::int64_t bytes = std::int64_t(steps.size());
    for (const auto& stage : pictures) bytes += stage ? stage->num_bytes() : 0;
    return bytes;
  }
};

constexpr std::int64_t kMostUnitSamples = 16;

/// A unit's samples as they were read.
struct UnitBuffer {
  std::byte* bytes = nullptr;  // [samples][SplitPipeline::input_stride()], aligned to 64
  std::array<std::int64_t, kMostUnitSamples> ids{};
  std::array<const std::byte*, kMostUnitSamples> processed{};  // in the cache; null: was read
  std::vector<EncodedPicture> pictures;  // [samples] of a set whose image is encoded
  std::array<std::int64_t, kMostUnitSamples> sources{};  // samples that were read; -1: none
  std::vector<std::int64_t> skipped;                     // rows that were left as they were
  std::int64_t row = 0;      // of the sample in hand: the one at fault if there is an error
  std::exception_ptr error;  // what became of reading it
};

/// Which samples a loader's rank takes of a split, which must have a set.
SamplerConfig sampler_config(const LoaderConfig& loader, Split split);

/// Way of one split's samples into a slot: read(), then write(), which transforms and normalises,
/// or copies from the cache (CPVS). The two may be the business of different threads. Shared by
/// all.
class SplitPipeline {
 public:
  /// `who` ("training", "validation") opens messages.
  /// @throws InvalidArgument, Unsupported  the split's configuration, or its chain for these
  /// images.
  SplitPipeline(std::string who, const SplitConfig& config, const LoaderConfig& loader,
                Split split);

  const Sampler& sampler() const { return *sampler_; }
  /// Bytes of a full batch.
  std::size_t slot_bytes() const { return slot_bytes_; }
  /// Field pointers of a batch in the slot at `base`.
  std::map<std::string, const void*> field_pointers(const std::byte* base) const;
  /// Bytes of a sample as it is read, all fields.
  std::size_t input_stride() const { return input_stride_; }
  /// Samples come as picture files, which are waited for.
  bool reads_files() const;
  /// Samples of a unit: some 16 KiB of pixels, at most `most`.
  std::int64_t unit_samples(std::int64_t most) const;
  void reserve(WorkerScratch& scratch) const;
  /// Row `from` of a batch over row `to`.
  void copy_row(std::byte* slot, std::int64_t from, std::int64_t to) const;
  /// Whole batches are mixed, by mix(): their rows have one more behind them.
  bool mixes() const { return mix_.has_value(); }
  /// Ends the batch of `unit`, all of whose units are written. @throws DataError  a label.
  void mix(const Unit& unit, std::byte* slot) const;
  /// What is kept of samples from one epoch to the next.
  std::int64_t kept_bytes() const {
    return (cache_ ? cache_->num_bytes() : 0) + (marks_ ? marks_->num_bytes() : 0);
  }

  /// Fetches the unit's samples into the buffer. @throws DataError  of the first one that cannot be
  /// read; buffer.row is its row.
  void read(const Unit& unit, UnitBuffer& buffer, StageTimes& times) const;
  /// Writes the rows of a unit that was read; buffer.skipped tells those without a sample. Throws
  /// as read().
  void write(const Unit& unit, UnitBuffer& buffer, std::byte* slot, WorkerScratch& scratch,
             StageTimes& times);

 private:
  struct FieldPlan {
    std::string name;
    std::size_t sample_bytes = 0;  // in the batch
    std::size_t input_bytes = 0;   // as read
    std::size_t input_offset = 0;  // in the buffer's sample
    std::size_t offset = 0;        // in the slot

    std::byte* row(std::byte* slot, std::int64_t row) const {
      return slot + offset + std::size_t(row) * sample_bytes;
    }
  };
  struct Row {
    std::int64_t id = 0, row = 0;
    std::byte* input = nullptr;
    std::byte* slot = nullptr;
    EncodedPicture* picture = nullptr;
    std::int64_t source = 0;  // sample that was read for it
  };
  static constexpr std::size_t kMostFields = 64;

  std::size_t num_set_fields() const { return fields_.size() - (tail_field_ >= 0 ? 1 : 0); }
  void plan_fields(const LoaderConfig& loader);
  void plan_image(FieldPlan& plan, const Field& field, const LoaderConfig& loader);
  void plan_tail();
  void plan_mixing(std::span<const Field> fields, const LoaderConfig& loader);
  void plan_marks(int ranks);
  /// Rows of `plan` behind what the slot holds so far.
  void place_rows(FieldPlan& plan, std::int64_t rows);
  void read_sample(std::int64_t id, std::byte* input, EncodedPicture* picture) const;
  /// A sample on its way to its row. `pixels_done_ns`: when its transforms had ended, if asked for.
  void write_sample(const Row& row, std::int64_t epoch, WorkerScratch& scratch,
                    std::int64_t* pixels_done_ns) const;
  /// write_sample(), or the same of another sample in its place as the policy says. False: of none.
  bool write_or_stand_in(const Row& row, std::int64_t epoch, WorkerScratch& scratch,
                         std::int64_t* pixels_done_ns) const;
  /// Pixels of a picture file, within scratch.
  ImageRef picture_pixels(const Row& row, const DrawAddress& address, WorkerScratch& scratch) const;
  /// Reads sample `id`, or another in its place as the policy says; which one, -1 for none.
  std::int64_t fetch(std::int64_t id, std::byte* input, EncodedPicture* picture) const;
  /// Sample `source`, read in place of `id`, is bad: `use(other)` is tried for those that may stand
  /// in for it. Which one could be used, -1 for none.
  template <typename Use>
  std::int64_t stand_in(std::int64_t id, std::int64_t source, const std::string& what,
                        Use&& use) const;
  /// A sample's pixels into its row.
  void write_image(const Row& row, const ImageRef& pixels, const DrawAddress& address) const;
  void copy_processed(const std::byte* processed, std::int64_t row, std::byte* slot) const;
  void keep_processed(std::int64_t id, std::int64_t row, std::byte* slot);

  std::string who_;
  SplitConfig config_;
  Split split_;
  std::uint64_t seed_ = 0;
  DType image_dtype_ = DType::FP32;
  bool raw_images_ = false;
  DecodeOptions decode_;
  std::shared_ptr<BadSamples> bad_samples_;
  std::optional<Sampler> sampler_;
  std::vector<FieldPlan> fields_;
  std::optional<BatchMix> mix_;
  FieldPlan soft_label_;  // where batches are mixed; no field of the set
  DType label_dtype_ = DType::INT32;
  int label_field_ = -1;             // index in fields_
  int tail_field_ = -1;              // of raw images: behind those of the set
  int image_field_ = -1;             // index in fields_; -1: there is none
  bool encoded_ = false;             // the image is a picture file
  std::optional<PixelChain> chain_;  // of UINT8 images
  std::size_t slot_bytes_ = 0, sample_bytes_ = 0, input_stride_ = 0;
  std::unique_ptr<ProcessedCache> cache_;
  std::unique_ptr<ScanMarkStore> marks_;  // of picture files that are cropped anew each time
};

}  // namespace tr::data

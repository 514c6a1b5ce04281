// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "data/sampler.h"
#include "data/transforms/chain.h"

namespace tr::data {

/// What one worker owns: buffers that are made once.
struct WorkerScratch {
  std::vector<std::byte> inputs;  // raw images of a chunk
  std::vector<std::byte> steps;   // of PixelChain::run()
  std::vector<std::byte*> outputs;

  std::int64_t num_bytes() const { return std::int64_t(inputs.size() + steps.size()); }
};

/// The places of an epoch's order that a worker fills, and where.
struct WorkItem {
  const Permutation* order = nullptr;
  std::int64_t epoch = 0;
  std::int64_t first_position = 0;  // in the epoch's order
  std::int64_t first_row = 0;       // in the batch
  std::int64_t count = 0;
  std::byte* slot = nullptr;
};

/// Where the time went, and how far it is: `row` is that of the sample being read, for the case
/// that it throws.
struct WorkProgress {
  std::int64_t read_ns = 0, transform_ns = 0;
  std::int64_t row = -1;
};

/// Which samples a loader's rank takes of a split, which must have a set.
SamplerConfig sampler_config(const LoaderConfig& loader, Split split);

/// Way of one split's samples into a slot: read, transform, normalise, or copy from the cache
/// (CPVS). Shared by all workers.
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
  void reserve(WorkerScratch& scratch) const;
  std::int64_t cache_bytes() const { return std::int64_t(cache_ ? cache_->bytes.size() : 0); }

  /// @throws DataError  of the first sample that cannot be read; progress.row is its row.
  void fill(const WorkItem& item, WorkerScratch& scratch, WorkProgress& progress);

 private:
  static constexpr std::int64_t kChunk = 16;  // samples read before they are transformed

  struct FieldPlan {
    std::string name;
    std::size_t sample_bytes = 0;  // in the batch
    std::size_t input_bytes = 0;   // as read
    std::size_t offset = 0;        // in the slot
    bool buffered = false;         // read into the worker's buffer, then converted
  };
  struct Cache {
    std::vector<std::byte> bytes;                  // [samples][sample_bytes of all fields]
    std::vector<std::atomic<std::uint8_t>> state;  // kEmpty, kWriting, kFull
    explicit Cache(std::size_t samples, std::size_t sample_bytes)
        : bytes(samples * sample_bytes), state(samples) {}
  };

  void plan_fields(const LoaderConfig& loader);
  void plan_image(FieldPlan& plan, const Field& field, const LoaderConfig& loader);
  void fill_chunk(const WorkItem& item, std::int64_t first, std::int64_t count,
                  WorkerScratch& scratch, WorkProgress& progress);
  void read_sample(std::int64_t id, std::int64_t row, std::byte* slot, std::byte* input,
                   WorkerScratch& scratch) const;
  void convert_image(const WorkItem& item, std::int64_t id, std::int64_t row,
                     const std::byte* input, WorkerScratch& scratch) const;
  bool copy_from_cache(std::int64_t id, std::int64_t row, std::byte* slot) const;
  void copy_to_cache(std::int64_t id, std::int64_t row, const std::byte* slot);

  std::string who_;
  SplitConfig config_;
  Split split_;
  std::uint64_t seed_ = 0;
  DType image_dtype_ = DType::FP32;
  std::optional<Sampler> sampler_;
  std::vector<FieldPlan> fields_;
  int image_field_ = -1;             // index in fields_; -1: there is none
  std::optional<PixelChain> chain_;  // of UINT8 images
  std::size_t slot_bytes_ = 0, sample_bytes_ = 0, input_stride_ = 0;
  std::unique_ptr<Cache> cache_;
};

}  // namespace tr::data

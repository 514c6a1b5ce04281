// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image_decode.h"
#include "data/sample_policy.h"
#include "data/sets_in_memory.h"
#include "data/stage_times.h"
#include "renaissance/core/shape.h"
#include "renaissance/data/dataset.h"
#include "renaissance/data/transforms.h"

namespace tr::data {

enum class Split : std::uint8_t { TRAIN, VAL };

/// One pass over a split: the stream of batches is a row of phases without a break between them.
struct StreamPhase {
  Split split = Split::TRAIN;
  std::int64_t epoch = 0;  // 0-based; addresses shuffle and augmentation
};

struct SplitConfig {
  std::shared_ptr<const Dataset> dataset;
  TransformChain
      transforms;  // the image field's way from decode to the slot, normalisation included
  std::int64_t batch_size = 1;    // of this rank's micro-batch
  std::int64_t global_batch = 1;  // samples of an optimizer step over ranks and micro-batches
  bool shuffle = false;
  bool drop_last = false;
  bool cache_processed =
      false;  // CPVS: keep the processed split in memory; deterministic transforms only
  /// Width of the field "soft_label" that a chain with Mixup or CutMix adds to training batches.
  int mixed_classes = 0;
};

struct LoaderConfig {
  SplitConfig train, val;
  DType image_dtype = DType::FP32;  // FP16, BF16 under amp
  /// In place of "image" batches hold "image_pixels" (UINT8) and "image_tail" (pixel::ImageTail):
  /// whoever takes them does the last pass.
  bool raw_images = false;
  std::uint64_t seed = 0;
  int num_workers = 0;  // transform and normalise; 0: chosen from the processor's cores
  /// Threads that only read, ahead of the workers. 0: the workers read for themselves. kChosen:
  /// some for sets of files, none for sets in memory.
  int num_readers = kChosen;
  static constexpr int kChosen = -1;
  bool bind_threads = false;  // each to a core of its own
  int num_slots = 3;          // R of the TransferStation, >= 2
  int rank = 0, world_size = 1;
  std::shared_ptr<BadSamples> bad_samples;    // null: the first sample that cannot be read fails
  std::shared_ptr<SetsInMemory> full_memory;  // FULLY: whole sets are read into it first
  DecodeOptions decode;                       // of picture files; their channels come from the set

  const SplitConfig& of(Split split) const { return split == Split::TRAIN ? train : val; }
};

/// One micro-batch as it lies in a slot. Valid until release().
struct Batch {
  StreamPhase phase;
  std::int64_t phase_index = 0;  // position in the row of phases
  std::int64_t step = 0;         // optimizer step within the phase
  int micro = 0;                 // micro-batch within the step
  std::int64_t size = 0;         // samples of this micro-batch; may be 0 on a rank of a ragged tail
  std::int64_t global_size = 0;  // samples of the whole step over ranks and micro-batches
  std::int64_t sample_offset = 0;  // of the first sample within the global batch
  std::map<std::string, const void*> fields;
  bool last_in_phase = false;
  int slot = -1;
};

/// Since the last call of stats().
struct LoaderStats {
  double wait_ms = 0;                         // next() blocked
  std::array<double, kNumStages> stage_ms{};  // by Stage, summed over threads
  std::int64_t samples = 0;
  DecodeCounts decoded{};  // of them the picture files that were decoded

  double& operator[](Stage stage) { return stage_ms[std::size_t(stage)]; }
  double operator[](Stage stage) const { return stage_ms[std::size_t(stage)]; }
  void add(const LoaderStats& other);
};

/// Feeds one rank. The stream is cut into units beforehand and threads take them in turn, so order
/// and bytes do not depend on who does the work. Memory is fixed at construction.
class Loader {
 public:
  /// `phases(i)` gives phase i of the stream, nullopt after the last; pure, called from any thread.
  /// `start_phase`, `start_step` resume in O(1).
  Loader(LoaderConfig config, std::function<std::optional<StreamPhase>(std::int64_t)> phases,
         std::int64_t start_phase = 0, std::int64_t start_step = 0);
  ~Loader();  // stops at any moment, joins all threads

  /// Waits for the next batch; null after the last. @throws DataError  of the sample that failed.
  const Batch* next();
  /// True if next() would not wait.
  bool is_ready() const;
  /// Gives the slot back. Batches are released in the order of next().
  void release(const Batch& batch);

  /// Memory of all slots, for as long as the loader lives: a device may want it pinned.
  std::span<const std::byte> slot_memory() const;

  LoaderStats stats();
  std::int64_t num_steps(Split split) const;  // optimizer steps of one phase
  int num_workers() const;
  int num_readers() const;
  std::int64_t memory_bytes() const;
  /// "15 workers and 8 readers, 12 batches of 314.1 KiB ahead, 4.2 MiB in all".
  std::string str() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tr::data

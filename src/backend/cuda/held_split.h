// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/cuda/captured_graph.h"
#include "backend/cuda/device_split.h"
#include "backend/cuda/feed.h"
#include "backend/cuda/handles.h"
#include "backend/cuda/input_feed.h"
#include "backend/cuda/ordered_capture.h"
#include "backend/prepared_graph.h"

namespace tr::cuda {

/// What a captured step needs of its executor.
struct StepSource {
  PreparedGraph* prepared = nullptr;
  const std::vector<Input>* inputs = nullptr;
  const MemoryPlan* plan = nullptr;
  std::int64_t batch = 0;
};

/// A split in device memory and, for each variant, graphs of kUnrolled steps and of fewer: the
/// batch of the next step is assembled in the other zone of the inputs while a step runs, and a
/// step begins as soon as what it reads is there (edges_to_next_run()). The last step of a graph of
/// many or of two assembles the first batch of the next launch; the first launch of a run has a
/// feed before it.
///
///   feed 0 | step 0 ---> step 1 ---> ... step 9             | step 0 ---> ...
///          | feed 1 -/   feed 2 -/       feed of the next -/| feed 1 -/
class HeldSplit {
 public:
  static constexpr int kUnrolled = 10;  // more steps a launch gain nothing

  /// `arena` and `zone_bytes`: where the inputs lie, and how far their second zone is.
  HeldSplit(const ResidentSplit& split, std::byte* arena, std::int64_t zone_bytes,
            cudaStream_t stream);

  /// With a probe the nodes of a step run one after another, and launches hold one step.
  /// @throws DeviceError  the graph cannot be captured.
  void capture(int variant, const StepSource& step, const StepProbe* probe = nullptr);
  void run(int variant, std::span<const FeedRow> rows);

  /// What makes the batch of a captured step, for one that is captured elsewhere; it takes the rows
  /// of upload() one by one.
  StepFrame frame(int variant) const;
  void upload(std::span<const FeedRow> rows);
  /// Device memory held.
  std::int64_t num_bytes() const { return split_.num_bytes() + ring_->num_bytes(); }

 private:
  static constexpr int kRing = 1024;  // rows on the device

  /// Who makes the batches of a captured graph: all of them its own feeds; or the launch before it
  /// the first, and it the first of the next launch; or, as the last launch, none behind its own.
  enum class Feeds : std::uint8_t { OWN, AHEAD, LAST };

  struct Graphs {
    StepSource step;
    GraphExec one;              // alone; the only one with a probe
    GraphExec many, two, last;  // kUnrolled, two and one step behind a feed or each other
  };
  StepFrame frame_of(const StepSource& step) const;
  const Graphs& graphs_of(int variant) const;
  GraphExec captured(const StepSource& step, int count, Feeds feeds) const;
  FeedTarget bind(const StepSource& step, int zone) const;

  DeviceSplit split_;
  std::vector<std::string> fields_;
  std::byte* arena_;
  std::int64_t zone_bytes_;
  cudaStream_t stream_;
  std::unique_ptr<Arena> ring_;  // rows, then the number of the next one
  FeedRow* rows_ = nullptr;
  std::int64_t* base_ = nullptr;
  std::int64_t next_row_ = 0;
  std::map<int, Graphs> graphs_;  // by variant
};

}  // namespace tr::cuda

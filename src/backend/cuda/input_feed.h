// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "backend/cuda/handles.h"

namespace tr::cuda {

/// Where a field of the batch goes.
struct Input {
  std::string field;
  std::int64_t place = 0, bytes = 0;  // in zone A
};

/// Copies batches from the host into the two zones of the inputs in turn, on a stream of its own:
/// the next batch comes in while a step reads the last one.
///
///   copies   copy 0 (A)   copy 1 (B)          copy 2 (A)          copy 3 (B)
///   steps            step 0 (A)         step 1 (B)          step 2 (A)
///
/// Copy n waits for step n - 2, which read the same zone; step n waits for copy n.
class InputFeed {
 public:
  /// `arena` and `zone_bytes`: where the inputs lie, and how far their second zone is.
  InputFeed(std::byte* arena, std::int64_t zone_bytes, cudaStream_t steps);

  /// Where the next copies find a field.
  void bind(const std::string& field, const void* data) { bound_[field] = data; }
  /// The zone that the last copy did not use: 0 or 1.
  int next_zone() const { return 1 - zone_; }
  /// Enqueues the copy of the bound fields into a zone; what is enqueued on the steps' stream from
  /// now on waits for it. Pageable memory is taken over before the call returns; pinned memory when
  /// wait() says so. @throws InvalidArgument  a field has no data.
  void copy(const std::vector<Input>& inputs, int zone);
  /// What reads that zone is enqueued.
  void done(int zone);
  /// Others have used the zones on the steps' stream.
  void done_all();

  std::byte* place(const Input& input, int zone) const {
    return arena_ + input.place + zone * zone_bytes_;
  }
  /// Number of the last copy, and a wait until it has ended.
  std::int64_t last() const { return copied_; }
  void wait(std::int64_t copy);

 private:
  struct Marker : Event {
    Marker() : Event(cudaEventDisableTiming) {}
  };
  static constexpr std::int64_t kTickets = 32;  // copies that can be waited for

  std::byte* arena_;
  std::int64_t zone_bytes_;
  cudaStream_t steps_;
  Stream copies_;
  std::map<std::string, const void*, std::less<>> bound_;  // host memory, by field
  std::array<Marker, kTickets> tickets_;
  std::array<Marker, 2> read_;  // by zone: what read it has ended
  std::int64_t copied_ = 0;
  int zone_ = 1;  // of the last copy
};

}  // namespace tr::cuda

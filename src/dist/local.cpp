// SPDX-License-Identifier: Apache-2.0
#include "dist/local.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "core/check.h"
#include "device/single_communicator.h"

namespace tr::dist {
namespace {

/// What one rank brings to a collective.
struct Offer {
  std::string_view operation;
  void* data = nullptr;
  std::int64_t count = 0;
};

/// State that the ranks of one world share.
class World {
 public:
  explicit World(int size) : offers_(std::size_t(size)) {}

  int size() const { return int(offers_.size()); }

  /// Returns once every rank has come here. @throws DeviceError  a rank left before it came.
  void meet(int rank) {
    std::unique_lock lock(mutex_);
    refuse_if_broken(rank);
    const std::uint64_t meeting = meeting_;
    if (++num_waiting_ == size()) {
      num_waiting_ = 0;
      ++meeting_;
      all_came_.notify_all();
      return;
    }
    all_came_.wait(lock, [&] { return meeting_ != meeting || lost_rank_ >= 0; });
    // A meeting that took place counts, even if a rank has left since.
    if (meeting_ == meeting) refuse_if_broken(rank);
  }

  void leave(int rank) {
    const std::lock_guard lock(mutex_);
    if (lost_rank_ < 0) lost_rank_ = rank;
    all_came_.notify_all();
  }

  /// Publishes this rank's offer and waits for the others'. @throws InvalidArgument  they differ in
  /// kind.
  void open(int rank, const Offer& offer) {
    offers_[std::size_t(rank)] = offer;
    meet(rank);
    const Offer& first = offers_[0];
    for (std::size_t r = 1; r < offers_.size(); ++r) {
      const Offer& other = offers_[r];
      if (other.operation == first.operation && other.count == first.count) continue;
      // Every rank finds the same fault; none may leave while another still reads the offers.
      const std::string fault =
          fmt::format("local communicator: rank 0 calls {} of {} elements, rank {} calls {} of {}",
                      first.operation, first.count, r, other.operation, other.count);
      meet(rank);
      throw_as<InvalidArgument>("{}", fault);
    }
  }

  template <typename T>
  T* data_of(int rank) const {
    return static_cast<T*>(offers_[std::size_t(rank)].data);
  }

 private:
  void refuse_if_broken(int rank) const {
    if (lost_rank_ < 0) return;
    throw_as<DeviceError>(
        "local communicator: rank {} of {} has ended while rank {} still waits for it in a "
        "collective",
        lost_rank_, size(), rank);
  }

  std::mutex mutex_;
  std::condition_variable all_came_;
  int num_waiting_ = 0;
  std::uint64_t meeting_ = 0;
  int lost_rank_ = -1;
  std::vector<Offer> offers_;  // written by its rank before a meeting, read by all after it
};

class LocalCommunicator final : public Communicator {
 public:
  LocalCommunicator(std::shared_ptr<World> world, int rank)
      : world_(std::move(world)), rank_(rank) {}
  ~LocalCommunicator() override { world_->leave(rank_); }

  int rank() const override { return rank_; }
  int world_size() const override { return world_->size(); }

  void all_reduce_sum(float* data, std::int64_t count) override {
    all_reduce("all_reduce_sum", data, count, [](float a, float b) { return a + b; });
  }
  void all_reduce_max(std::int32_t* data, std::int64_t count) override {
    all_reduce("all_reduce_max", data, count,
               [](std::int32_t a, std::int32_t b) { return std::max(a, b); });
  }
  void barrier() override {
    world_->open(rank_, {"barrier", nullptr, 0});
    world_->meet(rank_);
  }

 private:
  // Each rank reduces one part of the elements and writes it to all; the order of ranks within an
  // element is fixed, so the bytes do not depend on timing or on how the elements are divided.
  template <typename T, typename Combine>
  void all_reduce(std::string_view operation, T* data, std::int64_t count, Combine combine) {
    world_->open(rank_, {operation, data, count});
    const std::int64_t size = world_->size();
    const std::int64_t begin = count * rank_ / size, end = count * (rank_ + 1) / size;
    reduce_part<T>(begin, end, combine);
    world_->meet(rank_);
  }

  template <typename T, typename Combine>
  void reduce_part(std::int64_t begin, std::int64_t end, Combine combine) {
    constexpr std::int64_t kBlock = 1024;  // on the stack, in the first cache
    T sums[kBlock];
    for (std::int64_t at = begin; at < end; at += kBlock) {
      const std::int64_t n = std::min(kBlock, end - at);
      std::copy_n(world_->data_of<T>(0) + at, n, sums);
      for (int r = 1; r < world_->size(); ++r) {
        const T* other = world_->data_of<T>(r) + at;
        for (std::int64_t i = 0; i < n; ++i) sums[i] = combine(sums[i], other[i]);
      }
      for (int r = 0; r < world_->size(); ++r) std::copy_n(sums, n, world_->data_of<T>(r) + at);
    }
  }

  std::shared_ptr<World> world_;
  int rank_;
};

}  // namespace

std::unique_ptr<Communicator> make_single() { return std::make_unique<SingleCommunicator>(); }

std::vector<std::unique_ptr<Communicator>> make_local(int world_size) {
  TR_CHECK(world_size >= 1 && world_size <= 1024,
           "local communicator: world_size is {}, expected 1 to 1024", world_size);
  const auto world = std::make_shared<World>(world_size);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int r = 0; r < world_size; ++r)
    ranks.push_back(std::make_unique<LocalCommunicator>(world, r));
  return ranks;
}

}  // namespace tr::dist

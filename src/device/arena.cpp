// SPDX-License-Identifier: Apache-2.0
#include "device/arena.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/check.h"
#include "core/human.h"

namespace tr {
namespace {

constexpr std::int64_t kPageBytes = 4096;
constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

class HostArena final : public Arena {
 public:
  explicit HostArena(std::int64_t num_bytes) : num_bytes_(num_bytes) {
    TR_CHECK(num_bytes >= 0, "host arena: {} bytes were asked for", num_bytes);
    // A huge page needs an address that is a multiple of its size, which mmap does not promise.
    const std::int64_t alignment = num_bytes >= kHugePageBytes ? kHugePageBytes : kPageBytes;
    const std::int64_t slack = alignment - kPageBytes;
    if (num_bytes > INT64_MAX - slack - kPageBytes) refuse("the number of bytes is out of range");
    mapped_bytes_ = std::size_t((num_bytes / kPageBytes + 1) * kPageBytes + slack);
    mapping_ =
        ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) refuse(std::strerror(errno));
    const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
    const auto step = std::uintptr_t(alignment);
    base_ = reinterpret_cast<std::byte*>((address + step - 1) / step * step);
    // Only advice: a system without huge pages refuses it, and the memory works all the same.
    if (num_bytes >= kHugePageBytes) ::madvise(base_, std::size_t(num_bytes), MADV_HUGEPAGE);
  }
  ~HostArena() override { ::munmap(mapping_, mapped_bytes_); }
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  std::byte* base() override { return base_; }
  std::int64_t num_bytes() const override { return num_bytes_; }

 private:
  [[noreturn]] void refuse(const char* reason) const {
    throw_as<OutOfMemory>("host arena: {} ({} bytes) could not be had from the system: {}",
                          format_bytes(num_bytes_), num_bytes_, reason);
  }

  std::int64_t num_bytes_;
  std::size_t mapped_bytes_ = 0;
  void* mapping_ = nullptr;
  std::byte* base_ = nullptr;
};

}  // namespace

std::unique_ptr<Arena> make_host_arena(std::int64_t num_bytes) {
  return std::make_unique<HostArena>(num_bytes);
}

}  // namespace tr

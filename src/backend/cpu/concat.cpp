// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

/// A tensor seen as rows of contiguous bytes: the axes before `axis` count them, the rest is a row.
struct Rows {
  std::int64_t count = 1;
  std::int64_t bytes = 1;

  Rows(const TensorType& type, std::int64_t axis) : bytes(std::int64_t(size_of(type.dtype))) {
    const int rank = type.shape.rank();
    const int cut = int(axis < 0 ? axis + rank : axis);
    for (int i = 0; i < rank; ++i) (i < cut ? count : bytes) *= type.shape[i];
  }
};

/// Copies `rows` rows of `bytes` bytes between places with rows of other lengths.
void copy_rows(ThreadPool& pool, const Rows& part, const std::byte* from, std::int64_t from_step,
               std::byte* to, std::int64_t to_step) {
  const std::int64_t chunk = rows_per_task(part.bytes / std::int64_t(sizeof(float)));
  for_chunks(pool, part.count, chunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * to_step, from + r * from_step, std::size_t(part.bytes));
    }
  });
}

void launch_concat(const KernelArgs& args) {
  const std::int64_t axis = args.attrs().i64("axis");
  const Rows whole(args.out_type(0), axis);
  std::byte* to = args.out<std::byte>(0);
  for (int i = 0; i < args.num_in(); ++i) {
    const Rows part(args.in_type(i), axis);
    copy_rows(args.pool(), part, args.in<std::byte>(i), part.bytes, to, whole.bytes);
    to += part.bytes;
  }
}

void launch_concat_backward(const KernelArgs& args) {
  const std::int64_t axis = args.attrs().i64("axis");
  const Rows whole(args.in_type(0), axis);
  const std::byte* from = args.in<std::byte>(0);
  for (int i = 0; i < args.num_out(); ++i) {
    const Rows part(args.out_type(i), axis);
    copy_rows(args.pool(), part, from, whole.bytes, args.out<std::byte>(i), part.bytes);
    from += part.bytes;
  }
}

const KernelRegistration kConcat{simple_kernel("concat", launch_concat)};
const KernelRegistration kConcatBackward{simple_kernel("concat_backward", launch_concat_backward)};

}  // namespace
}  // namespace tr::cpu

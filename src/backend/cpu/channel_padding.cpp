// SPDX-License-Identifier: Apache-2.0
// Zero channels behind those of x, and their way back: bytes are copied, of any floating dtype.
#include <cstring>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

/// Copies the first bytes of each row; the rest of a longer row of the result is zero.
void copy_rows(const KernelArgs& args) {
  const std::int64_t size = std::int64_t(size_of(args.in_type(0).dtype));
  const std::int64_t from_bytes = args.in_type(0).shape.back() * size,
                     to_bytes = args.out_type(0).shape.back() * size;
  const std::int64_t copied = std::min(from_bytes, to_bytes);
  const auto* from = args.in<std::byte>(0);
  auto* to = args.out<std::byte>(0);
  const std::int64_t rows = args.out_type(0).shape.drop_last().num_elements();
  if (copied == 0) return;
  for_chunks(args.pool(), rows, rows_per_task(to_bytes / size),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t row = begin; row < end; ++row) {
                 std::byte* into = to + row * to_bytes;
                 std::memcpy(into, from + row * from_bytes, std::size_t(copied));
                 std::memset(into + copied, 0, std::size_t(to_bytes - copied));
               }
             });
}

const KernelRegistration kPadding{
    simple_kernel("channel_padding", copy_rows, refuse_unless_floating)};
const KernelRegistration kPaddingBackward{
    simple_kernel("channel_padding_backward", copy_rows, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu

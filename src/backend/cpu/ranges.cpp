// SPDX-License-Identifier: Apache-2.0
// Ops over whole ranges beside the optimizers: accumulation, finite check, averages, buffers,
// communication.
#include <bit>
#include <cstring>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/sums.h"

namespace tr::cpu {
namespace {

void launch_accumulate(const KernelArgs& args) {
  const bool first = args.attrs().flag("first"), last = args.attrs().flag("last");
  if (first && last) return;  // the only micro-batch: the gradients are the sum
  auto* g = args.state<float>(0);
  auto* sum = args.state<float>(1);
  for_chunks(args.pool(), args.in_type(0).shape.num_elements(), kStreamChunk,
             [&](std::int64_t begin, std::int64_t end) {
               if (first) {
                 std::memcpy(sum + begin, g + begin, std::size_t(end - begin) * sizeof(float));
                 return;
               }
               float* into = last ? g : sum;
               for (std::int64_t i = begin; i < end; ++i) into[i] = sum[i] + g[i];
             });
}

/// What one task of the finite check leaves.
struct ChunkCheck {
  double sumsq;
  std::uint32_t
      largest_bits;  // of the absolute values: that of infinity or more if one is not finite
};

ChunkCheck check_chunk(const float* values, std::int64_t n) {
  std::uint32_t largest = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(values[i]) & 0x7fffffffu;
    largest = bits > largest ? bits : largest;
  }
  return {double(sum_of(n, [&](std::int64_t i) { return values[i] * values[i]; })), largest};
}

constexpr std::int64_t kCheckChunk = 4096;  // summed in fp32, the rest in fp64

void launch_finite_check(const KernelArgs& args) {
  const std::int64_t count = args.in_type(0).shape.num_elements();
  const std::int64_t chunks = ceil_div(count, kCheckChunk);
  auto* sums = reinterpret_cast<double*>(args.workspace());
  auto* largest = reinterpret_cast<std::uint32_t*>(sums + chunks);
  const auto* g = args.in<float>(0);
  for_chunks(args.pool(), count, 4 * kCheckChunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kCheckChunk) {
      const ChunkCheck check = check_chunk(g + i, std::min(kCheckChunk, end - i));
      sums[i / kCheckChunk] = check.sumsq;
      largest[i / kCheckChunk] = check.largest_bits;
    }
  });
  constexpr std::uint32_t kInfinity = 0x7f800000u;
  const bool finite =
      std::all_of(largest, largest + chunks, [](std::uint32_t b) { return b < kInfinity; });
  args.out<std::int32_t>(0)[0] = finite ? 0 : 1;
  args.out<float>(1)[0] = float(tree_sum(sums, chunks));
}

KernelDef finite_check_kernel() {
  KernelDef def = simple_kernel("finite_check", launch_finite_check);
  def.workspace_bytes = [](const KernelQuery& query) {
    const std::int64_t chunks = ceil_div(query.in[0].shape.num_elements(), kCheckChunk);
    return chunks * std::int64_t(sizeof(double) + sizeof(std::uint32_t));
  };
  return def;
}

void launch_ema(const KernelArgs& args) {
  if (args.in<std::int32_t>(2)[0] != 0) return;
  const float decay = args.attrs().f32("decay");
  const float fresh = float(1.0 - args.attrs().f64("decay"));
  auto* ema = args.state<float>(0);
  const auto* w = args.in<float>(1);
  for_chunks(args.pool(), args.in_type(0).shape.num_elements(), kStreamChunk,
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t i = begin; i < end; ++i) ema[i] = decay * ema[i] + fresh * w[i];
             });
}

void launch_commit_buffers(const KernelArgs& args) {
  if (args.in<std::int32_t>(2)[0] != 0) return;
  std::memcpy(args.state<std::byte>(0), args.in<std::byte>(1),
              std::size_t(bytes_of(args.in_type(0))));
}

void launch_all_reduce(const KernelArgs& args) {
  args.communicator().all_reduce_sum(args.state<float>(0), args.in_type(0).shape.num_elements());
}

void launch_all_reduce_flag(const KernelArgs& args) {
  args.communicator().all_reduce_max(args.state<std::int32_t>(0), 1);
}

const KernelRegistration kAccumulate{simple_kernel("accumulate_grads", launch_accumulate)};
const KernelRegistration kFiniteCheck{finite_check_kernel()};
const KernelRegistration kEma{simple_kernel("ema_update", launch_ema)};
const KernelRegistration kCommitBuffers{simple_kernel("commit_buffers", launch_commit_buffers)};
const KernelRegistration kAllReduce{simple_kernel("all_reduce", launch_all_reduce)};
const KernelRegistration kAllReduceFlag{simple_kernel("all_reduce_flag", launch_all_reduce_flag)};

}  // namespace
}  // namespace tr::cpu

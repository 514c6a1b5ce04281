// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/float_rows.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/step_row.h"
#include "backend/dropout_draw.h"

namespace tr::cpu {
namespace {

constexpr int kBlocks = 8;  // Philox blocks drawn side by side: one vector register
constexpr int kWords = 4 * kBlocks;

/// Words of blocks first .. first + kBlocks - 1 of an address, as DrawAddress::block() gives them.
void draw_blocks(const DrawAddress& address, std::uint32_t first, std::uint32_t* words) {
  std::uint32_t c0[kBlocks], c1[kBlocks], c2[kBlocks], c3[kBlocks];
  const std::uint32_t b_high = std::uint32_t(address.b >> 32);
  for (int i = 0; i < kBlocks; ++i) {
    c0[i] = first + std::uint32_t(i);
    c1[i] = std::uint32_t(address.a);
    c2[i] = std::uint32_t(address.a >> 32) ^ ((b_high << 16) | (b_high >> 16));
    c3[i] = std::uint32_t(address.b);
  }
  auto k0 = std::uint32_t(address.seed);
  auto k1 = std::uint32_t(address.seed >> 32) ^ (std::uint32_t(address.purpose) * 0x9E3779B9u);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kBlocks; ++i) {
      const std::uint64_t p0 = std::uint64_t(0xD2511F53u) * c0[i];
      const std::uint64_t p1 = std::uint64_t(0xCD9E8D57u) * c2[i];
      c0[i] = std::uint32_t(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = std::uint32_t(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = std::uint32_t(p1);
      c3[i] = std::uint32_t(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kBlocks; ++i) {
    words[4 * i] = c0[i];
    words[4 * i + 1] = c1[i];
    words[4 * i + 2] = c2[i];
    words[4 * i + 3] = c3[i];
  }
}

/// The forward and the backward pass are one function: x or dy times the mask over 1 - p.
void launch(const KernelArgs& args) {
  const Shape& shape = args.in_type(0).shape;
  const std::int64_t samples = shape[0];
  const std::int64_t elements = samples == 0 ? 0 : shape.num_elements() / samples;
  const double p = args.attrs().f64("p");
  const std::uint32_t threshold = dropout_threshold(p);
  const float scale = float(1.0 / (1.0 - p));
  const auto draw_id = std::uint64_t(args.attrs().i64("draw_id"));
  const auto step = std::uint64_t(args.in<std::int64_t>(1)[kCounterStep]);
  const std::int64_t* row = step_row<std::int64_t>(args, 2, 1);
  const auto seed = std::uint64_t(row[kIntSeed]);
  const std::int64_t first_sample = row[kIntSampleOffset];
  const std::int64_t draws =
      dropout_draws(args.attrs().str("per"), elements, shape.rank() == 0 ? 1 : shape.back());

  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto draw_sample = [&](std::int64_t n) {
      const DrawAddress address =
          dropout_address(seed, step, draw_id, std::uint64_t(first_sample + n));
      const T* x = args.in<T>(0) + n * elements;
      T* y = args.out<T>(0) + n * elements;
      if (draws != elements) {
        for (std::int64_t i = 0; i < elements; ++i) {
          const std::int64_t draw = i % draws;
          const std::uint32_t word = address.block(std::uint32_t(draw / 4)).v[draw % 4];
          y[i] = from_float<T>((word >> 8) >= threshold ? to_float(x[i]) * scale : 0.0f);
        }
        return;
      }
      std::uint32_t words[kWords];
      float values[kWords];
      for (std::int64_t i = 0; i < elements; i += kWords) {
        const std::int64_t count = std::min<std::int64_t>(kWords, elements - i);
        draw_blocks(address, std::uint32_t(i / 4), words);
        load_floats(x + i, values, count);
        for (std::int64_t j = 0; j < count; ++j) {
          values[j] = (words[j] >> 8) >= threshold ? values[j] * scale : 0.0f;
        }
        store_floats(values, y + i, count);
      }
    };
    for_chunks(args.pool(), samples, rows_per_task(elements),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t n = begin; n < end; ++n) draw_sample(n);
               });
  });
}

std::string refuse(const KernelQuery& query) {
  if (query.in.size() < 3) return "counters and step_ints are missing: draws have no address";
  return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
}

const KernelRegistration kForward{simple_kernel("dropout", launch, refuse)};
const KernelRegistration kBackward{simple_kernel("dropout_backward", launch, refuse)};

}  // namespace
}  // namespace tr::cpu

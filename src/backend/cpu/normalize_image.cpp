// SPDX-License-Identifier: Apache-2.0
// normalize_image: rows of pixels through a table of 256 entries a channel.
#include <bit>
#include <cstring>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"
#include "core/pixel/image_tail.h"
#include "core/pixel/normalize.h"

namespace tr::cpu {
namespace {

std::int64_t table_bytes(const KernelQuery& query) {
  return 256 * query.in[0].shape.back() * std::int64_t(size_of(query.out[0].dtype));
}

/// [channels][256]
template <typename T>
void fill_table(const Attrs& attrs, std::int64_t channels, T* table) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto float_of = [&](const char* name) {
      return std::bit_cast<float>(std::uint32_t(attrs.ints(name)[std::size_t(c)]));
    };
    const float mean = float_of("mean_bits"), std = float_of("std_bits");
    for (int x = 0; x < 256; ++x)
      table[256 * c + x] = from_float<T>(pixel::normalized(std::uint8_t(x), mean, std));
  }
}

struct RowSizes {
  std::int32_t width = 0, channels = 0, out_channels = 0;
};

template <typename T>
void normalize_row(const std::uint8_t* pixels, const pixel::ImageTail& tail, std::int32_t y,
                   const RowSizes& sizes, const T* table, T* out) {
  for (std::int32_t x = 0; x < sizes.width; ++x, out += sizes.out_channels) {
    const std::uint8_t* from = pixels + pixel::tail_column(tail, x, sizes.width) * sizes.channels;
    const bool erased = pixel::is_erased(tail.erased, y, x);
    for (std::int32_t c = 0; c < sizes.channels; ++c)
      out[c] = erased ? T{} : table[256 * c + from[c]];
    for (std::int32_t c = sizes.channels; c < sizes.out_channels; ++c) out[c] = T{};
  }
}

void launch(const KernelArgs& args) {
  const Shape& in = args.in_type(0).shape;
  const RowSizes sizes{std::int32_t(in[2]), std::int32_t(in[3]),
                       std::int32_t(args.out_type(0).shape.back())};
  const std::int64_t height = in[1];
  const auto* image = args.in<std::uint8_t>(0);
  const auto* tails = args.in<pixel::ImageTail>(1);
  const std::int64_t pixels_row = in[2] * in[3], out_row = in[2] * sizes.out_channels;
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* table = reinterpret_cast<T*>(args.workspace());
    fill_table(args.attrs(), in[3], table);
    T* out = args.out<T>(0);
    for_chunks(args.pool(), in[0] * height, rows_per_task(out_row),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) {
                   normalize_row(image + row * pixels_row, tails[row / height],
                                 std::int32_t(row % height), sizes, table, out + row * out_row);
                 }
               });
  });
}

const KernelRegistration kNormalizeImage{[] {
  KernelDef def = simple_kernel("normalize_image", launch);
  def.workspace_bytes = table_bytes;
  return def;
}()};

}  // namespace
}  // namespace tr::cpu

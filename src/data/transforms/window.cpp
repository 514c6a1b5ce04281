// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/window.h"

#include <algorithm>
#include <cstring>

#include "data/transforms/copy_row.h"

namespace tr::data {

void copy_window(const ImageRef& src, int top, int left, ImageShape out, std::uint8_t* dst) {
  const int first = std::max(0, -left), last = std::min(out.width, src.shape.width - left);
  const int first_row = std::max(0, -top), last_row = std::min(out.height, src.shape.height - top);
  const bool inside = first == 0 && last == out.width && first_row == 0 && last_row == out.height;
  if (!inside) std::memset(dst, 0, out.num_bytes());
  if (first >= last) return;
  const std::size_t channels = std::size_t(out.channels);
  const std::size_t bytes = std::size_t(last - first) * channels;
  dst += std::size_t(first_row) * out.row_bytes() + std::size_t(first) * channels;
  for (int y = first_row; y < last_row; ++y, dst += out.row_bytes()) {
    copy_row(dst, src.row(top + y) + std::ptrdiff_t(left + first) * std::ptrdiff_t(channels),
             bytes);
  }
}

}  // namespace tr::data

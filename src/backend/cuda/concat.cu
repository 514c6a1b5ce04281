// SPDX-License-Identifier: Apache-2.0
// concat and its gradient: copies of rows of bytes, all parts in one launch.
#include <algorithm>
#include <vector>

#include "backend/cuda/map.cuh"

namespace tr::cuda {
namespace {

constexpr int kMaxParts = 32;  // of one launch; more take another one

/// Parts of `whole` by rows: unit u of a part is unit u % row_units of its row u / row_units.
struct Parts {
  int count = 0;
  std::int64_t whole_units = 0;  // of a row of the whole
  std::byte* part[kMaxParts];
  std::int64_t row_units[kMaxParts];
  std::int64_t first_unit[kMaxParts];  // where the part's rows begin in those of the whole
};

/// blockIdx.y is the part. `join`: parts are copied into the whole, else out of it.
template <typename Unit, typename Offset>
__global__ void copy_parts_kernel(std::byte* whole_bytes, Parts parts, std::int64_t rows,
                                  bool join) {
  const int at = int(blockIdx.y);
  const auto row_units = Offset(parts.row_units[at]);
  const std::int64_t units = rows * parts.row_units[at];
  Unit* part = reinterpret_cast<Unit*>(parts.part[at]);
  Unit* whole = reinterpret_cast<Unit*>(whole_bytes) + parts.first_unit[at];
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  for (std::int64_t u = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; u < units;
       u += stride) {
    const Offset row = Offset(u) / row_units;
    Unit* place = whole + std::int64_t(row) * parts.whole_units + (Offset(u) - row * row_units);
    if (join) {
      *place = part[u];
    } else {
      part[u] = *place;
    }
  }
}

/// A tensor seen as rows of contiguous bytes: the axes before `axis` count them.
struct Rows {
  std::int64_t count = 1;
  std::int64_t bytes = 1;

  Rows(const TensorType& type, std::int64_t axis) : bytes(std::int64_t(size_of(type.dtype))) {
    const int rank = type.shape.rank();
    const int cut = int(axis < 0 ? axis + rank : axis);
    for (int i = 0; i < rank; ++i) (i < cut ? count : bytes) *= type.shape[i];
  }
};

struct Part {
  std::byte* data;
  std::int64_t row_bytes;
};

/// Bytes that are moved at a time: every row of every part and of the whole begins at a multiple.
std::int64_t unit_bytes(const std::byte* whole, const std::vector<Part>& parts) {
  std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(whole) | kVectorBytes;
  for (const Part& part : parts) {
    bits |= reinterpret_cast<std::uintptr_t>(part.data) | std::uintptr_t(part.row_bytes);
  }
  return std::int64_t(bits & (~bits + 1));  // the lowest bit
}

template <typename Unit>
void copy_units(const KernelArgs& args, const Rows& whole, std::byte* data,
                const std::vector<Part>& all, bool join) {
  constexpr auto kUnit = std::int64_t(sizeof(Unit));
  std::int64_t first_unit = 0;
  for (std::size_t begin = 0; begin < all.size(); begin += kMaxParts) {
    Parts parts;
    parts.whole_units = whole.bytes / kUnit;
    std::int64_t most = 0;
    for (std::size_t i = begin; i < std::min(all.size(), begin + kMaxParts); ++i) {
      const std::int64_t units = all[i].row_bytes / kUnit;
      if (units > 0 && all[i].data != nullptr) {
        parts.part[parts.count] = all[i].data;
        parts.row_units[parts.count] = units;
        parts.first_unit[parts.count++] = first_unit;
        most = std::max(most, units * whole.count);
      }
      first_unit += units;
    }
    if (most == 0) continue;
    LaunchShape shape = shape_for(most);
    shape.grid.y = unsigned(parts.count);
    dispatch_offset(most, [&](auto tag) {
      launch(args, shape, copy_parts_kernel<Unit, typename decltype(tag)::type>, data, parts,
             whole.count, join);
    });
  }
}

void copy_parts(const KernelArgs& args, const Rows& whole, std::byte* data,
                const std::vector<Part>& parts, bool join) {
  switch (unit_bytes(data, parts)) {
    case 16: return copy_units<uint4>(args, whole, data, parts, join);
    case 8: return copy_units<std::uint64_t>(args, whole, data, parts, join);
    case 4: return copy_units<std::uint32_t>(args, whole, data, parts, join);
    case 2: return copy_units<std::uint16_t>(args, whole, data, parts, join);
    default: return copy_units<std::uint8_t>(args, whole, data, parts, join);
  }
}

void launch_concat(const KernelArgs& args) {
  const std::int64_t axis = args.attrs().i64("axis");
  std::vector<Part> parts;
  for (int i = 0; i < args.num_in(); ++i) {
    parts.push_back({args.state<std::byte>(i), Rows(args.in_type(i), axis).bytes});
  }
  copy_parts(args, Rows(args.out_type(0), axis), args.out<std::byte>(0), parts, true);
}

void launch_concat_backward(const KernelArgs& args) {
  const std::int64_t axis = args.attrs().i64("axis");
  std::vector<Part> parts;
  for (int i = 0; i < args.num_out(); ++i) {
    parts.push_back({args.out<std::byte>(i), Rows(args.out_type(i), axis).bytes});
  }
  copy_parts(args, Rows(args.in_type(0), axis), args.state<std::byte>(0), parts, false);
}

const KernelRegistration kConcat{simple_kernel("concat", launch_concat)};
const KernelRegistration kConcatBackward{simple_kernel("concat_backward", launch_concat_backward)};

}  // namespace
}  // namespace tr::cuda

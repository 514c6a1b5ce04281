// SPDX-License-Identifier: Apache-2.0
// where, masked_fill, tril and triu: elements are moved, none is computed.
#include <algorithm>

#include "backend/cuda/broadcast.cuh"

namespace tr::cuda {
namespace {

template <typename Unit, typename Offset>
struct MapWhere {
  const bool* condition;
  const Unit *a, *b;
  Unit* y;
  Place<Offset> of_condition, of_a, of_b;

  template <int N>
  __device__ void run(std::int64_t i) const {
    y[i] = condition[of_condition(i)] ? a[of_a(i)] : b[of_b(i)];
  }
};

template <typename Unit>
void launch_where_units(const KernelArgs& args) {
  const Shape& out = args.out_type(0).shape;
  dispatch_offset(out.num_elements(), [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    const auto place = [&](int i) { return Place<Offset>(out, args.in_type(i).shape); };
    launch_map<1>(args, out.num_elements(), true,
                  MapWhere<Unit, Offset>{args.in<bool>(0), args.in<Unit>(1), args.in<Unit>(2),
                                         args.out<Unit>(0), place(0), place(1), place(2)});
  });
}

void launch_where(const KernelArgs& args) {
  switch (size_of(args.out_type(0).dtype)) {
    case 8: return launch_where_units<std::uint64_t>(args);
    case 4: return launch_where_units<std::uint32_t>(args);
    case 2: return launch_where_units<std::uint16_t>(args);
    default: return launch_where_units<std::uint8_t>(args);
  }
}

template <typename Offset>
struct MapMaskedFill {
  const void* x;
  const bool* mask;
  void* y;
  DType dtype;
  Place<Offset> of_mask;
  float value;
  bool where_false;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const bool fills = mask[of_mask(i)] != where_false;
    put(y, dtype, i, fills ? value : get(x, dtype, i));
  }
};

void launch_masked_fill(const KernelArgs& args) {
  const Shape& out = args.out_type(0).shape;
  dispatch_offset(out.num_elements(), [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    launch_map<1>(
        args, out.num_elements(), true,
        MapMaskedFill<Offset>{args.in<void>(0), args.in<bool>(1), args.out<void>(0),
                              args.out_type(0).dtype, Place<Offset>(out, args.in_type(1).shape),
                              args.attrs().f32("value"), args.attrs().flag("where_false")});
  });
}

/// Row i of each matrix keeps columns [0, i + diagonal] (lower) or [i + diagonal, columns).
template <typename Offset>
struct MapTriangle {
  const void* x;
  void* y;
  DType dtype;
  Offset rows, columns;
  std::int64_t diagonal;
  float value;
  bool lower;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const Offset row = Offset(i) / columns;
    const std::int64_t column = i - std::int64_t(row) * std::int64_t(columns);
    const std::int64_t edge = std::int64_t(row % rows) + diagonal;
    const bool keeps = lower ? column <= edge : column >= edge;
    put(y, dtype, i, keeps ? get(x, dtype, i) : value);
  }
};

template <bool kLower>
void launch_triangle(const KernelArgs& args) {
  const Shape& out = args.out_type(0).shape;
  const std::int64_t diagonal = std::clamp(args.attrs().i64("diagonal"), -out[-2] - 1, out[-1] + 1);
  dispatch_offset(out.num_elements(), [&](auto tag) {
    using Offset = typename decltype(tag)::type;
    launch_map<1>(args, out.num_elements(), true,
                  MapTriangle<Offset>{args.in<void>(0), args.out<void>(0), args.out_type(0).dtype,
                                      Offset(out[-2]), Offset(out[-1]), diagonal,
                                      args.attrs().f32("value"), kLower});
  });
}

std::string refuse_data(const KernelQuery& query) {
  return refuse_unless_floating({query.attrs, query.in.first(1), query.out});
}

const KernelRegistration kWhere{simple_kernel("where", launch_where)};
const KernelRegistration kMaskedFill{simple_kernel("masked_fill", launch_masked_fill, refuse_data)};
const KernelRegistration kTril{simple_kernel("tril", launch_triangle<true>, refuse_data)};
const KernelRegistration kTriu{simple_kernel("triu", launch_triangle<false>, refuse_data)};

}  // namespace
}  // namespace tr::cuda

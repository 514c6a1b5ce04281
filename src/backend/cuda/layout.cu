// SPDX-License-Identifier: Apache-2.0
// permute, transpose, slice and its gradient: elements are moved by strides.
#include "ops/layout.h"

#include "backend/cuda/axes.h"
#include "backend/cuda/map.cuh"

namespace tr::cuda {
namespace {

/// Elements of the source in the order of the view; steps that are negative wrap around.
template <typename Offset>
struct Strides {
  Axes<Offset> axes;
  Offset begin = 0;

  explicit Strides(const StridedView& view) : begin(Offset(view.begin)) {
    for (int i = 0; i < view.shape.rank(); ++i) {
      const std::int64_t dim = view.shape[i], step = view.steps[std::size_t(i)];
      if (dim == 1) continue;
      const int last = axes.rank - 1;
      // Neighbours in the source too: one axis.
      if (last >= 0 && axes.steps[last] == Offset(dim * step)) {
        axes.dims[last] *= Offset(dim);
        axes.steps[last] = Offset(step);
      } else {
        axes.push(Offset(dim), Offset(step));
      }
    }
  }
  __device__ std::int64_t operator()(std::int64_t i) const {
    return std::int64_t(Offset(begin + axes.offset(Offset(i))));
  }
};

template <typename Unit, typename Offset>
struct MapGather {
  const Unit* x;
  Unit* y;
  Strides<Offset> source;

  template <int N>
  __device__ void run(std::int64_t i) const {
    y[i] = x[source(i)];
  }
};

template <typename Unit, typename Offset>
struct MapScatter {
  const Unit* dy;
  Unit* dx;
  Strides<Offset> place;

  template <int N>
  __device__ void run(std::int64_t i) const {
    dx[place(i)] = dy[i];
  }
};

template <typename Unit>
struct MapZero {
  Unit* x;

  template <int N>
  __device__ void run(std::int64_t i) const {
    Vector<Unit, N> zero = {};
    store(x + i, zero);
  }
};

template <typename F>
void dispatch_width(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 8: return f(TypeTag<std::uint64_t>{});
    case 4: return f(TypeTag<std::uint32_t>{});
    case 2: return f(TypeTag<std::uint16_t>{});
    default: return f(TypeTag<std::uint8_t>{});
  }
}

/// Offsets count in the larger of the two tensors.
std::int64_t largest(const KernelArgs& args) {
  return std::max(args.in_type(0).shape.num_elements(), args.out_type(0).shape.num_elements());
}

void copy_view(const KernelArgs& args, const StridedView& view) {
  dispatch_width(args.out_type(0).dtype, [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    dispatch_offset(largest(args), [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      launch_map<1>(
          args, view.shape.num_elements(), true,
          MapGather<Unit, Offset>{args.in<Unit>(0), args.out<Unit>(0), Strides<Offset>(view)});
    });
  });
}

void launch_permute(const KernelArgs& args) {
  copy_view(args, permuted_view(args.attrs(), args.in_type(0).shape));
}

void launch_slice(const KernelArgs& args) {
  copy_view(args, sliced_view(args.attrs(), args.in_type(0).shape));
}

void launch_slice_backward(const KernelArgs& args) {
  const StridedView view = sliced_view(args.attrs(), args.out_type(0).shape);
  dispatch_width(args.out_type(0).dtype, [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(Unit));
    Unit* dx = args.out<Unit>(0);
    launch_map<kWide>(args, args.out_type(0).shape.num_elements(), aligned_to(kVectorBytes, dx),
                      MapZero<Unit>{dx});
    dispatch_offset(largest(args), [&](auto offset_tag) {
      using Offset = typename decltype(offset_tag)::type;
      launch_map<1>(args, view.shape.num_elements(), true,
                    MapScatter<Unit, Offset>{args.in<Unit>(0), dx, Strides<Offset>(view)});
    });
  });
}

const KernelRegistration kPermute{simple_kernel("permute", launch_permute)};
const KernelRegistration kTranspose{simple_kernel("transpose", launch_permute)};
const KernelRegistration kSlice{simple_kernel("slice", launch_slice)};
const KernelRegistration kSliceBackward{simple_kernel("slice_backward", launch_slice_backward)};

}  // namespace
}  // namespace tr::cuda

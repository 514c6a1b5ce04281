// SPDX-License-Identifier: Apache-2.0
// channel_padding and its gradient: rows of channels that become longer by zeros, or shorter.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/map.cuh"

namespace tr::cuda {
namespace {

/// Element i of rows of `to` channels from rows of `from` channels.
template <typename T>
struct ResizeRows {
  const T* x;
  T* y;
  std::uint32_t from, to;

  template <int N>
  __device__ void run(std::int64_t i) const {
    std::int64_t row = i / to;
    auto c = std::uint32_t(i - row * to);
    Vector<T, N> values;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = c < from ? x[row * from + c] : from_float<T>(0);
      if (++c == to) {
        c = 0;
        ++row;
      }
    }
    store(y + i, values);
  }
};

void launch_resize(const KernelArgs& args) {
  const TensorType &x = args.in_type(0), &y = args.out_type(0);
  dispatch_float(y.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr int kWide = kVectorBytes / int(sizeof(T));
    T* to = args.out<T>(0);
    launch_map<kWide>(args, y.shape.num_elements(), aligned_to(kVectorBytes, to),
                      ResizeRows<T>{args.in<T>(0), to, std::uint32_t(x.shape.back()),
                                    std::uint32_t(y.shape.back())});
  });
}

const KernelRegistration kPadding{
    simple_kernel("channel_padding", launch_resize, refuse_unless_floating)};
const KernelRegistration kPaddingBackward{simple_kernel("channel_padding_backward", launch_resize)};

}  // namespace
}  // namespace tr::cuda

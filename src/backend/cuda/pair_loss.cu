// SPDX-License-Identifier: Apache-2.0
// Losses of a prediction against a target of its shape (src/backend/loss_functors.h).
#include <algorithm>

#include "backend/cuda/grid_sum.cuh"
#include "backend/cuda/map.cuh"
#include "backend/loss_functors.h"

namespace tr::cuda {
namespace {

constexpr int kElements = 4;  // of one thread at a time: 16 bytes of the target
constexpr int kLargestBlock = 1024;
constexpr std::int64_t kOneBlock = 8192;  // elements: up to here one block is the fastest grid
constexpr std::int64_t kMaxBlocks = 1024;

/// Samples and the elements of one.
struct Sizes {
  std::int64_t samples;
  std::int64_t elements;

  explicit Sizes(const Shape& shape)
      : samples(shape[0]), elements(samples == 0 ? 0 : shape.num_elements() / samples) {}
  std::int64_t count() const { return samples * elements; }
};

/// Samples are as long as each other: the sum of their means is the sum of all elements over that
/// length.
template <typename Loss, typename T, int N>
__global__ void __launch_bounds__(kLargestBlock)
    pair_loss_kernel(Loss loss, const T* y, const float* target, std::int64_t count,
                     double elements, float* loss_sum, GridSum<double> grid_sum) {
  const std::int64_t first = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  const std::int64_t wide = count / N;
  double sum = 0;
#pragma unroll 2
  for (std::int64_t i = first; i < wide; i += stride) {
    const Vector<T, N> values = load<N>(y + i * N);
    const Vector<float, N> wanted = load<N>(target + i * N);
    float part = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      part += loss.loss(to_float(values.v[j]), wanted.v[j], i * N + j);
    }
    sum += double(part);
  }
  for (std::int64_t i = wide * N + first; i < count; i += stride) {
    sum += double(loss.loss(to_float(y[i]), target[i], i));
  }
  grid_sum(sum, [&](double total) { *loss_sum = float(total / elements); });
}

template <typename Loss>
void launch_loss(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  const Sizes size(args.in_type(0).shape);
  // An empty batch has loss 0, samples of no elements have none: NaN.
  const double elements = size.samples == 0 || !Loss::kMean ? 1.0 : double(size.elements);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* y = args.in<T>(0);
    const float* target = args.in<float>(1);
    const bool aligned = aligned_to(kElements * sizeof(T), y) && aligned_to(kVectorBytes, target);
    launch(args, shape,
           aligned ? pair_loss_kernel<Loss, T, kElements> : pair_loss_kernel<Loss, T, 1>,
           Loss(args, 0), y, target, size.count(), elements, args.out<float>(0),
           grid_sum_of<double>(args, ticket));
  });
}

template <typename Loss, typename T>
struct Gradient {
  Loss loss;
  const float* seed;
  const T* y;
  const float* target;
  T* dy;  // may be y
  float elements;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const float scale = *seed / elements;
    Vector<T, N> values = load<N>(y + i);
    const Vector<float, N> wanted = load<N>(target + i);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      values.v[j] = from_float<T>(scale * loss.grad(to_float(values.v[j]), wanted.v[j], i + j));
    }
    store(dy + i, values);
  }
};

template <typename Loss>
void launch_backward(const KernelArgs& args) {
  const Sizes size(args.in_type(1).shape);
  dispatch_float(args.out_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* y = args.in<T>(1);
    const float* target = args.in<float>(2);
    T* dy = args.out<T>(0);
    const bool aligned =
        aligned_to(kElements * sizeof(T), y, dy) && aligned_to(kVectorBytes, target);
    launch_map<kElements>(args, size.count(), aligned,
                          Gradient<Loss, T>{Loss(args, 1), args.in<float>(0), y, target, dy,
                                            Loss::kMean ? float(size.elements) : 1.0f});
  });
}

LaunchShape plan(const KernelQuery& query) {
  const std::int64_t count = Sizes(query.in[0].shape).count();
  if (count <= kOneBlock) return shape_for(0, kLargestBlock, 1);
  return shape_for(ceil_div<std::int64_t>(count, 4 * kElements), 256, kMaxBlocks);
}

/// bce_with_logits, with a weight of target 1 where it is given.
void launch_bce(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  if (args.has_in(2)) return launch_loss<losses::WeightedBce>(args, shape, ticket);
  launch_loss<losses::BceWithLogits>(args, shape, ticket);
}
void launch_bce_backward(const KernelArgs& args) {
  if (args.has_in(3)) return launch_backward<losses::WeightedBce>(args);
  launch_backward<losses::BceWithLogits>(args);
}

const bool kRegistered = [] {
  losses::for_each([&]<typename Loss>() {
    constexpr bool kWeighted = std::is_same_v<Loss, losses::BceWithLogits>;
    const std::string name = Loss::kName;
    const KernelRegistration forward{summing_kernel(
        {name, plan, kWeighted ? launch_bce : launch_loss<Loss>, refuse_unless_floating})};
    const KernelRegistration backward{
        simple_kernel(name + "_backward", kWeighted ? launch_bce_backward : launch_backward<Loss>,
                      refuse_unless_floating)};
  });
  return true;
}();

}  // namespace
}  // namespace tr::cuda

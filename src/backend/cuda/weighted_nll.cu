// SPDX-License-Identifier: Apache-2.0
// class_norm, weighted_nll and its gradient.
#include <limits>

#include "backend/cuda/class_rows.cuh"
#include "backend/cuda/map.cuh"

namespace tr::cuda {
namespace {

struct Labels {
  const void* data = nullptr;
  DType dtype = DType::INT32;
  std::int64_t ignored = 0;

  Labels(const KernelArgs& args, int input)
      : data(args.in<void>(input)),
        dtype(args.in_type(input).dtype),
        ignored(args.attrs().i64("ignore_index")) {}
  __device__ bool soft() const { return dtype == DType::FP32; }
  __device__ std::int64_t at(std::int64_t row) const {
    return dtype == DType::INT64 ? static_cast<const std::int64_t*>(data)[row]
                                 : std::int64_t(static_cast<const std::int32_t*>(data)[row]);
  }
};

__global__ void __launch_bounds__(kLargestBlock)
    class_norm_kernel(Labels labels, std::int64_t rows, const float* weight, std::int64_t classes,
                      float* norm, GridSum<double> grid_sum) {
  const std::int64_t stride = std::int64_t(gridDim.x) * blockDim.x;
  double sum = 0;
  for (std::int64_t n = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x; n < rows;
       n += stride) {
    if (labels.soft()) continue;  // each sample counts once
    const std::int64_t label = labels.at(n);
    if (label == labels.ignored || label < 0 || label >= classes) continue;
    sum += weight ? double(weight[label]) : 1.0;
  }
  grid_sum(sum, [&](double total) {
    const float all = float(total);
    *norm = labels.soft() ? 1.0f : all > 0 ? float(rows) / all : 0.0f;
  });
}

LaunchShape plan_norm(const KernelQuery& query) {
  constexpr std::int64_t kOneBlock = 8192, kMaxBlocks = 256;
  const std::int64_t rows = query.in[0].shape[0];
  return rows <= kOneBlock ? shape_for(0, kLargestBlock, 1) : shape_for(rows, 256, kMaxBlocks);
}

void launch_norm(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  const float* weight = args.has_in(1) ? args.in<float>(1) : nullptr;
  launch(args, shape, class_norm_kernel, Labels(args, 0), args.in_type(0).shape[0], weight,
         weight ? args.in_type(1).shape[0] : std::numeric_limits<std::int64_t>::max(),
         args.out<float>(0), grid_sum_of<double>(args, ticket));
}

/// norm * w[c] * ((1 - s) q[c] + s / C) of samples.
struct WeightedTargets {
  Labels labels;
  const float *weight, *norm;  // null: 1
  std::int64_t classes;
  float smoothing;

  WeightedTargets(const KernelArgs& args, int input, std::int64_t classes)
      : labels(args, input),
        weight(args.has_in(input + 1) ? args.in<float>(input + 1) : nullptr),
        norm(args.has_in(input + 2) ? args.in<float>(input + 2) : nullptr),
        classes(classes),
        smoothing(args.attrs().f32("label_smoothing")) {}

  struct Sample {
    float peak, uniform;
    const float* probabilities;
    std::int64_t label;
  };
  __device__ Sample sample(std::int64_t row) const {
    const float all = norm ? *norm : 1.0f;
    Sample s{all * (1.0f - smoothing), all * (smoothing / float(classes)), nullptr, 0};
    if (labels.soft()) {
      s.probabilities = static_cast<const float*>(labels.data) + row * classes;
      return s;
    }
    s.label = labels.at(row);
    if (s.label == labels.ignored) {
      s = {0.0f, 0.0f, nullptr, 0};
    } else if (s.label < 0 || s.label >= classes) {  // the step is skipped and seen
      s = {NAN, NAN, nullptr, 0};
    }
    return s;
  }
  __device__ float at(const Sample& s, std::int64_t c) const {
    const float own = s.probabilities ? s.probabilities[c] : c == s.label ? 1.0f : 0.0f;
    return (weight ? weight[c] : 1.0f) * (s.peak * own + s.uniform);
  }
};

template <int kGroup>
__global__ void __launch_bounds__(kLargestBlock)
    weighted_nll_kernel(const float* logp, std::int64_t rows, WeightedTargets targets,
                        float* loss_sum, GridSum<double> grid_sum) {
  using Loop = RowLoop<kGroup>;
  double sum = 0;
  for (std::int64_t n = Loop::first(); n < rows; n += Loop::stride()) {
    const WeightedTargets::Sample sample = targets.sample(n);
    if (sample.peak == 0 && sample.uniform == 0) continue;  // the whole group leaves together
    const float* from = logp + n * targets.classes;
    float loss;
    if (!sample.probabilities && sample.uniform == 0) {
      loss = -targets.at(sample, sample.label) * from[sample.label];
    } else {
      const Row<kGroup, float> row(from, targets.classes);
      loss = -row.sum([&](std::int64_t c, float value) { return targets.at(sample, c) * value; });
    }
    if (Loop::lane() == 0) sum += double(loss);
  }
  grid_sum(sum, [&](double total) { *loss_sum = float(total); });
}

LaunchShape plan(const KernelQuery& query) {
  return row_shape(query.in[0].shape[0], query.in[0].shape[1]);
}

void launch_weighted(const KernelArgs& args, const LaunchShape& shape, int ticket) {
  const Shape& scores = args.in_type(0).shape;
  dispatch_group(scores[1], [&](auto group) {
    launch(args, shape, weighted_nll_kernel<decltype(group)::value>, args.in<float>(0), scores[0],
           WeightedTargets(args, 1, scores[1]), args.out<float>(0),
           grid_sum_of<double>(args, ticket));
  });
}

struct Gradient {
  const float* seed;
  float* grad;
  WeightedTargets targets;

  template <int N>
  __device__ void run(std::int64_t i) const {
    static_assert(N == 1);
    const std::int64_t row = i / targets.classes;
    grad[i] = -*seed * targets.at(targets.sample(row), i - row * targets.classes);
  }
};

void launch_backward(const KernelArgs& args) {
  const Shape& shape = args.out_type(0).shape;
  launch_map<1>(
      args, shape.num_elements(), true,
      Gradient{args.in<float>(0), args.out<float>(0), WeightedTargets(args, 2, shape[1])});
}

const KernelRegistration kNorm{summing_kernel({"class_norm", plan_norm, launch_norm})};
const KernelRegistration kWeighted{summing_kernel({"weighted_nll", plan, launch_weighted})};
const KernelRegistration kBackward{simple_kernel("weighted_nll_backward", launch_backward)};

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
// y[..., c] = x[..., c] * weight[c]: an op of our own with a parameter. Its gradient to x is the op
// itself; that to the weight is an op of its own.
#include "channel_scale.h"

#include <stdexcept>
#include <string>

using namespace tr;

namespace {

void scale(const KernelCall& call) {
  const auto* x = call.in<float>(0);
  const auto* weight = call.in<float>(1);
  auto* y = call.out<float>(0);
  const std::int64_t channels = call.out_type(0).shape.back();
  const std::int64_t rows = channels == 0 ? 0 : call.out_type(0).shape.num_elements() / channels;
  call.parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * channels; i < end * channels; ++i)
      y[i] = x[i] * weight[i % channels];
  });
}

/// dweight[c] = sum over rows of dy * x. A channel is summed by one thread, in the order of the
/// rows.
void weight_gradient(const KernelCall& call) {
  const auto *dy = call.in<float>(0), *x = call.in<float>(1);
  auto* dweight = call.out<float>(0);
  const std::int64_t channels = call.out_type(0).shape[0];
  const std::int64_t count = call.in_type(0).shape.num_elements();
  call.parallel_for(channels, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t c = begin; c < end; ++c) {
      double sum = 0;
      for (std::int64_t i = c; i < count; i += channels) sum += double(dy[i]) * double(x[i]);
      dweight[c] = float(sum);
    }
  });
}

std::string only_fp32(const Attrs&, std::span<const TensorType> in, std::span<const TensorType>) {
  return in[0].dtype == DType::FP32 ? ""
                                    : "x is " + to_string(in[0]) + ", this kernel takes fp32 alone";
}

std::vector<TensorType> infer(const Attrs&, std::span<const TensorType> in) {
  if (in[0].shape.rank() < 1) throw InvalidArgument("x has no channels");
  if (in[1].shape != Shape{in[0].shape.back()}) {
    throw InvalidArgument("weight has shape " + in[1].shape.str() + ", expected [" +
                          std::to_string(in[0].shape.back()) + "] (the channels of x)");
  }
  return {in[0]};
}

}  // namespace

void register_channel_scale() {
  register_op(
      {.name = "channel_scale",
       .inputs = {"x", "weight"},
       .outputs = {"y"},
       .infer = infer,
       .gradient = [](GradientScope& g) -> std::vector<GraphTensor> {
         return {g.add("channel_scale", {g.dout(), g.input(1)}),
                 g.add("channel_scale_dweight", {g.dout(), g.input(0)})};
       },
       .parameters = [](const Attrs&, std::span<const TensorType> in) -> std::vector<UserParam> {
         return {{.name = "scale",
                  .type = {Shape{in[0].shape.back()}, DType::FP32},
                  .kind = UserParam::Kind::BIAS,
                  .fill = 1}};
       },
       .doc = "x * weight[c]"});
  register_op(
      {.name = "channel_scale_dweight",
       .inputs = {"dy", "x"},
       .outputs = {"dweight"},
       .infer = [](const Attrs&, std::span<const TensorType> in) -> std::vector<TensorType> {
         return {{Shape{in[0].shape.back()}, DType::FP32}};
       },
       .doc = "sum over rows of dy * x"});
  register_kernel({.op = "channel_scale", .launch = scale, .refuse = only_fp32});
  register_kernel({.op = "channel_scale_dweight", .launch = weight_gradient, .refuse = only_fp32});
#ifdef OWN_OP_CUDA
  register_channel_scale_cuda();
#endif
}

BluePrint channel_scale(std::source_location where) { return layer("channel_scale", {}, 1, where); }

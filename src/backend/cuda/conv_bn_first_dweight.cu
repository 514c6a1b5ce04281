// SPDX-License-Identifier: Apache-2.0
// Gradients of a network's first convolution and of the norm and the rectifier behind it, in one
// pass over dy (conv_first_weight.cuh). With p the terms of a pixel's window, x = w p, and dz the
// gradient that the rectifier let through, the norm's dx = a dz + b (x - mean) + c, so
//
//   dconv_weight = a A + b w C + c sum(p)   with A = sum(dz p),
//
// and C, sum(p) from the forward pass (conv_bn_first.cu); the norm's own sums are those of dz and,
// of dz (x - mean), w A - mean sum(dz). Neither x nor dx exists.
#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/conv_first_weight.cuh"
#include "backend/cuda/dispatch_16_bit.h"

namespace tr::cuda {
namespace {

using namespace first_conv;

template <typename T>
struct FinishCall {
  const float* partial;
  std::int64_t blocks;
  double pixels;
  const float *weight, *mean, *rstd, *moments;
  const T* conv_weight;
  float *dconv, *dweight, *dbias;
};

template <typename T>
__global__ void __launch_bounds__(kRow* kBlocksDown) finish_kernel(FinishCall<T> call) {
  const double sum = sum_of_blocks(call.partial, call.blocks);
  if (threadIdx.y != 0) return;  // one warp is left, a place each
  constexpr unsigned kAll = 0xffffffffu;
  const std::int64_t o = blockIdx.x;
  const int term = term_of(int(threadIdx.x));
  const auto own = [&](int t) { return double(to_float(call.conv_weight[o * kTerms + t])); };
  const double of_dz = __shfl_sync(kAll, sum, kOne);
  double product = term < 0 ? 0 : own(term) * sum;
#pragma unroll
  for (int width = 1; width < kRow; width *= 2) product += __shfl_xor_sync(kAll, product, width);
  product -= double(call.mean[o]) * of_dz;
  const double r = call.rstd[o], a = double(call.weight[o]) * r;
  const double b = -a * r * r * product / call.pixels, c = -a * of_dz / call.pixels;
  if (term >= 0) {
    double centred = 0;
    for (int t = 0; t < kTerms; ++t) centred += own(t) * double(call.moments[t * kTerms + term]);
    const double terms = call.moments[kTerms * kTerms + term];
    call.dconv[o * kTerms + term] = float(a * sum + b * centred + c * terms);
  }
  if (threadIdx.x == 0) {
    call.dweight[o] = float(product * r);
    call.dbias[o] = float(of_dz);
  }
}

/// Inputs: dy, mask, weight, mean, rstd, moments, conv_weight, picture. Outputs: dconv_weight,
/// dweight, dbias.
template <typename T>
void launch_typed(const KernelArgs& args) {
  const FirstShape s = FirstShape::of(conv_geometry(args.attrs(), args.in_type(7)));
  auto* partial = reinterpret_cast<float*>(args.workspace());
  launch_term_sums<T>(args, {args.in<T>(0), args.in<std::uint8_t>(1), args.in<T>(7), partial}, s);
  launch(args, finish_shape(s), finish_kernel<T>,
         FinishCall<T>{partial, weight_blocks(s).grid.x, double(s.pixels), args.in<float>(2),
                       args.in<float>(3), args.in<float>(4), args.in<float>(5), args.in<T>(6),
                       args.out<float>(0), args.out<float>(1), args.out<float>(2)});
}

void launch_any(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype,
                  [&](auto tag) { launch_typed<typename decltype(tag)::type>(args); });
}

KernelDef gradient_def() {
  KernelDef def = simple_kernel("conv_bn_act_dweight", launch_any,
                                [](const KernelQuery& query) { return refuse_sums(query, 7); });
  def.name = "cuda.conv_bn_act_dweight.first";
  def.workspace_bytes = [](const KernelQuery& query) {
    return term_sums_bytes(FirstShape::of(conv_geometry(query.attrs, query.in[7])));
  };
  return def;
}

const KernelRegistration kGradient{gradient_def()};

}  // namespace
}  // namespace tr::cuda

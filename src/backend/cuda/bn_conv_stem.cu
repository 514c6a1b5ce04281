// SPDX-License-Identifier: Apache-2.0
// Gradients of a residual network's first convolution (conv_stem.cuh) and of norm, rectifier and
// pooling behind it (block_pool.cuh): a pass that gathers the gradient behind the norm and makes
// the norm's two sums, then the weights' gradient, which makes the norm's dx of it on the way.
#include "backend/cuda/block_pool.cuh"
#include "backend/cuda/conv_stem_weight.cuh"
#include "backend/cuda/dispatch_16_bit.h"
#include "backend/cuda/pixel_map.cuh"

namespace tr::cuda {
namespace {

using namespace stem_conv;

/// Sums of the norm, the gradient behind it, sums of the weights' gradient.
struct Layout {
  std::int64_t dz, sums, bytes;

  Layout(const TensorType& x, const StemShape& s) {
    WorkspaceLayout layout;
    layout.reserve(BackwardWorkspace::bytes(x));
    dz = layout.reserve(bytes_of(x));
    sums = layout.reserve(weight_layout(s).bytes);
    bytes = layout.bytes();
  }
};

StemShape shape_of(const Attrs& attrs, const TensorType& picture) {
  return StemShape::of(conv_geometry(attrs, picture));
}

/// Inputs: dy, x, weight, bias, mean, rstd, index, picture. Outputs: dconv_weight, dweight, dbias.
template <typename T>
void launch_gradient(const KernelArgs& args) {
  const TensorType &dy_type = args.in_type(0), &x_type = args.in_type(1);
  const NormalisationArrays arrays{args.in<float>(4), args.in<float>(5), args.in<float>(2),
                                   args.in<float>(3)};
  const Layout layout(x_type, shape_of(args.attrs(), args.in_type(7)));
  auto* dz = reinterpret_cast<T*>(args.workspace() + layout.dz);
  const PixelMap in = PixelMap::of(x_type.shape);
  launch_block_sums<T, true>(args,
                             {args.in<T>(0), args.in<T>(1), args.in<std::uint8_t>(6), in,
                              PixelMap::of(dy_type.shape), grouped(in, 2, 2)},
                             arrays, dz);
  const BackwardWorkspace space(args);
  launch_weight_sums(args, dz, args.in<T>(7),
                     GradientOfNorm<T>{args.in<T>(1), arrays, {space.a, space.b, space.c}},
                     args.workspace() + layout.sums);
}

void launch_any(const KernelArgs& args) {
  dispatch_16_bit(args.in_type(0).dtype,
                  [&](auto tag) { launch_gradient<typename decltype(tag)::type>(args); });
}

std::string refuse_gradient(const KernelQuery& query) {
  if (!is_block_pooling(PoolWindow::of(prefixed_pool_geometry(query.attrs, query.in[1])))) {
    return "it is for pooling by 3x3 windows at stride 2 with a border of one cell";
  }
  using Shared = WeightStage<__half, GradientOfNorm<__half>>;
  if (most_shared_bytes() < std::int64_t(sizeof(Shared))) {
    return "a block has too little shared memory";
  }
  return refuse(query, 7);
}

KernelDef gradient_def() {
  KernelDef def = simple_kernel("bn_maxpool_conv_dweight", launch_any, refuse_gradient);
  def.name = "cuda.bn_maxpool_conv_dweight.stem";
  def.workspace_bytes = [](const KernelQuery& query) {
    return Layout(query.in[1], shape_of(query.attrs, query.in[7])).bytes;
  };
  return def;
}

const KernelRegistration kGradient{gradient_def()};

}  // namespace
}  // namespace tr::cuda

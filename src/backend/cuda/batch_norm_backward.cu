// SPDX-License-Identifier: Apache-2.0
// Gradients of batch norm: two sums a channel (dy, dy (x - mean)), then dx. With a rectifier, and
// with a residual sum before it, dy is masked on the way: by y computed again from x, or by the
// mask that the forward pass left; nothing but x and the mask is kept for it.
#include "backend/cuda/dispatch.h"
#include "backend/cuda/norm_gradient.cuh"
#include "backend/cuda/second_gradient.cuh"

namespace tr::cuda {
namespace {

/// Where the rectifier's mask comes from.
enum class Gate { NONE, RECOMPUTED, MASK };

/// What both passes read at an element.
template <typename T, int N>
struct Gradients {
  Vector<T, N> dy, more, x;
  unsigned bits;
};

/// The gradient before the normalisation, dz, from what was loaded.
template <typename T, Gate kGate, typename More>
struct Source {
  static constexpr int kInFlight = kRowsInFlight;
  const T *dy, *x;
  More more;
  const std::uint8_t* mask;

  template <int N>
  __device__ Gradients<T, N> load(const Place& at) const {
    Gradients<T, N> loaded;
    loaded.dy = cuda::load<N>(dy + at.i);
    loaded.x = cuda::load<N>(x + at.i);
    if constexpr (More::kGiven) loaded.more = more.template load<N>(at);
    if constexpr (kGate == Gate::MASK) loaded.bits = load_mask<N>(mask, at.i);
    return loaded;
  }
  template <int N>
  __device__ float dz(const Normalisation<N>& norm, const Gradients<T, N>& in, int j) const {
    float value = to_float(in.dy.v[j]);
    // Rounded as the sum of two gradients is where nothing is fused.
    if constexpr (More::kGiven) value = to_float(from_float<T>(value + to_float(in.more.v[j])));
    if constexpr (kGate == Gate::MASK) return (in.bits >> j) & 1u ? value : 0;
    if constexpr (kGate == Gate::RECOMPUTED) {
      const float y = to_float(from_float<T>(norm(j, to_float(in.x.v[j]))));
      return y <= 0 ? 0 : value;
    }
    return value;
  }
};

/// Where the operands of one of the ops lie.
struct BackwardCall {
  const KernelArgs& args;
  NormalisationArrays arrays;
  int x, mask;  // inputs; -1: there is none
  void* dz;     // null: nobody wants it
  bool frozen = false;
};

template <typename T, Gate kGate, bool kStore, typename More = NoGradient>
void launch_backward(const BackwardCall& call, const More& more = {}) {
  const KernelArgs& args = call.args;
  const ChannelRows shape = ChannelRows::of(args.in_type(0).shape);
  const std::uint8_t* mask = call.mask >= 0 ? args.in<std::uint8_t>(call.mask) : nullptr;
  const Source<T, kGate, More> source{args.in<T>(0), args.in<T>(call.x), more, mask};
  auto* dz = static_cast<T*>(call.dz);
  launch_norm_sums<T, kStore>(args, shape, source, dz, call.arrays, call.frozen);
  if constexpr (kStore) {
    const Source<T, Gate::NONE, NoGradient> stored{dz, args.in<T>(call.x), {}, nullptr};
    launch_norm_dx<T>(args, shape, stored, call.arrays);
  } else {
    launch_norm_dx<T>(args, shape, source, call.arrays);
  }
}

void launch_bn_backward(const KernelArgs& args) {
  // The bias is not read where nothing is gated; any array does.
  const NormalisationArrays arrays{args.in<float>(3), args.in<float>(4), args.in<float>(2),
                                   args.in<float>(2)};
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_backward<T, Gate::NONE, false>({args, arrays, 1, -1, nullptr});
  });
}

struct RstdOf {
  const float* var;
  float* rstd;
  double eps;

  template <int N>
  __device__ void run(std::int64_t c) const {
#pragma unroll
    for (int j = 0; j < N; ++j) rstd[c + j] = float(1 / sqrt(double(var[c + j]) + eps));
  }
};

void launch_frozen_backward(const KernelArgs& args) {
  const BackwardWorkspace space(args);
  launch_map<1>(args, args.in_type(0).shape.back(), false,
                RstdOf{args.in<float>(4), space.rstd, args.attrs().f64("eps")});
  const NormalisationArrays arrays{args.in<float>(3), space.rstd, args.in<float>(2),
                                   args.in<float>(2)};
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_backward<T, Gate::NONE, false>({args, arrays, 1, -1, nullptr, true});
  });
}

/// Inputs of bn_act_backward: dy, x, weight, bias, mean, rstd, more, mask. Outputs: dx, dweight,
/// dbias, dresidual.
template <typename T>
void launch_act_backward(const KernelArgs& args) {
  const NormalisationArrays arrays{args.in<float>(4), args.in<float>(5), args.in<float>(2),
                                   args.in<float>(3)};
  if (!args.has_in(7)) {
    return launch_backward<T, Gate::RECOMPUTED, false>({args, arrays, 1, -1, nullptr});
  }
  if constexpr (sizeof(T) == 2) {
    const BackwardCall call{args, arrays, 1, 7, args.out<void>(3)};
    dispatch_more<T>(args, 6, args.in_type(0),
                     [&](const auto& more) { launch_backward<T, Gate::MASK, true>(call, more); });
  }
}

void launch_bn_act_backward(const KernelArgs& args) {
  dispatch_float(args.in_type(0).dtype,
                 [&](auto tag) { launch_act_backward<typename decltype(tag)::type>(args); });
}

std::string refuse_act_backward(const KernelQuery& query) {
  const auto given = [&](std::size_t i) {
    return query.in.size() > i && query.in[i].shape.rank() > 0;
  };
  if (query.attrs.str("activation") != "relu") {
    return "the activation is '" + query.attrs.str("activation") + "', expected relu";
  }
  if (!given(7)) return given(6) ? "a second gradient is given without a mask" : "";
  if (size_of(query.in[0].dtype) != 2 || query.in[0].shape.back() % 8 != 0) {
    return "a mask has 8 channels a byte: expected 16-bit values and a multiple of 8 channels";
  }
  return refuse_more(query);
}

KernelDef backward_kernel(std::string op, void (*launch)(const KernelArgs&),
                          std::function<std::string(const KernelQuery&)> refuse) {
  KernelDef def = simple_kernel(std::move(op), launch, std::move(refuse));
  def.workspace_bytes = [](const KernelQuery& query) {
    return BackwardWorkspace::bytes(query.in[0]);
  };
  return def;
}

const KernelRegistration kBnBackward{
    backward_kernel("bn_backward", launch_bn_backward, refuse_unless_floating)};
const KernelRegistration kBnFrozenBackward{
    backward_kernel("bn_frozen_backward", launch_frozen_backward, refuse_unless_floating)};
const KernelRegistration kBnActBackward{
    backward_kernel("bn_act_backward", launch_bn_act_backward, refuse_act_backward)};

}  // namespace
}  // namespace tr::cuda

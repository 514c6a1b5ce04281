// SPDX-License-Identifier: Apache-2.0
// Batch norm forward: the batch's statistics (sums by slice, then the sums of the slices), then y;
// with a rectifier and a residual sum in the same pass where lowering asked for them. Statistics
// that a convolution has left behind (attribute statistics) are used instead of a pass over x.
#include "backend/cuda/batch_norm.cuh"
#include "backend/cuda/channel_bias.h"
#include "backend/cuda/dispatch.h"

namespace tr::cuda {
namespace {

/// What is added to the norm: nothing, a feature map, or one that is normalised on the way.
enum class Residual { NONE, PLAIN, NORMALISED };

template <int N, Residual kResidual>
struct ApplyChannel {
  Normalisation<N> own, other;
};
template <int N>
struct ApplyChannel<N, Residual::NONE> {
  Normalisation<N> own;
};
template <int N>
struct ApplyChannel<N, Residual::PLAIN> {
  Normalisation<N> own;
};

/// y = act(norm(x) [+ residual]), and one bit an element for where the rectifier let it through.
template <typename T, bool kRelu, Residual kResidual, bool kMask>
struct Apply {
  static constexpr int kInFlight = kRowsInFlight;
  const T *x, *residual;
  T* y;
  std::uint8_t* mask;
  NormalisationArrays arrays, residual_arrays;

  template <int N>
  struct Loaded {
    Vector<T, N> x, residual;
  };

  template <int N>
  __device__ ApplyChannel<N, kResidual> channel(std::int64_t c) const {
    ApplyChannel<N, kResidual> channel;
    channel.own = arrays.load<N>(c);
    if constexpr (kResidual == Residual::NORMALISED) channel.other = residual_arrays.load<N>(c);
    return channel;
  }
  template <int N>
  __device__ Loaded<N> load(const Place& at) const {
    Loaded<N> loaded;
    loaded.x = cuda::load<N>(x + at.i);
    if constexpr (kResidual != Residual::NONE) loaded.residual = cuda::load<N>(residual + at.i);
    return loaded;
  }
  template <int N>
  __device__ void finish(const ApplyChannel<N, kResidual>& channel, const Loaded<N>& in,
                         const Place& at) const {
    Vector<T, N> out;
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      float value = channel.own(j, to_float(in.x.v[j]));
      if constexpr (kResidual == Residual::PLAIN) value += to_float(in.residual.v[j]);
      if constexpr (kResidual == Residual::NORMALISED) {
        value += channel.other(j, to_float(in.residual.v[j]));
      }
      const T rounded = from_float<T>(value);
      if constexpr (kRelu) {
        // NaN goes through, as in relu.
        const bool through = !(to_float(rounded) <= 0);
        out.v[j] = through ? rounded : from_float<T>(0);
        if constexpr (kMask) bits |= unsigned(through) << j;
      } else {
        out.v[j] = rounded;
      }
    }
    store(y + at.i, out);
    if constexpr (kMask) mask[at.i / 8] = std::uint8_t(bits);  // N is 8
  }
};

/// Where inputs and outputs of bn and of its fused form lie.
struct BnCall {
  const KernelArgs& args;
  int residual, statistics;  // inputs; -1: there are none
  bool relu, mask;           // mask is output 5
};

template <typename T, bool kRelu, Residual kResidual, bool kMask>
void launch_apply_as(const BnCall& call, const NormalisationArrays& arrays) {
  const KernelArgs& args = call.args;
  Apply<T, kRelu, kResidual, kMask> apply{.x = args.in<T>(0),
                                          .residual = nullptr,
                                          .y = args.out<T>(0),
                                          .mask = nullptr,
                                          .arrays = arrays,
                                          .residual_arrays = {}};
  if constexpr (kResidual != Residual::NONE) apply.residual = args.in<T>(call.residual);
  if constexpr (kResidual == Residual::NORMALISED) {
    apply.residual_arrays = {args.in<float>(9), args.in<float>(10), args.in<float>(7),
                             args.in<float>(8)};
  }
  if constexpr (kMask) apply.mask = args.out<std::uint8_t>(5);
  launch_channel_map<T>(args, ChannelRows::of(args.in_type(0).shape), apply);
}

template <typename T>
void launch_apply(const BnCall& call, const NormalisationArrays& arrays) {
  if (call.residual >= 0 && call.mask) {
    if constexpr (sizeof(T) == 2) {
      if (call.args.has_in(7)) {
        return launch_apply_as<T, true, Residual::NORMALISED, true>(call, arrays);
      }
      launch_apply_as<T, true, Residual::PLAIN, true>(call, arrays);
    }
  } else if (call.residual >= 0) {
    if (call.relu) return launch_apply_as<T, true, Residual::PLAIN, false>(call, arrays);
    launch_apply_as<T, false, Residual::PLAIN, false>(call, arrays);
  } else if (call.relu) {
    launch_apply_as<T, true, Residual::NONE, false>(call, arrays);
  } else {
    launch_apply_as<T, false, Residual::NONE, false>(call, arrays);
  }
}

template <typename T>
void launch_training(const BnCall& call) {
  const KernelArgs& args = call.args;
  launch_statistics<T>(args, ChannelRows::of(args.in_type(0).shape), args.in<T>(0),
                       {.given = call.statistics});
  launch_apply<T>(call,
                  {args.out<float>(1), args.out<float>(2), args.in<float>(1), args.in<float>(2)});
}

void launch_bn(const KernelArgs& args) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    launch_training<typename decltype(tag)::type>({args, -1, -1, false, false});
  });
}

/// bn_act: x, weight, bias, running_mean, running_var, residual, statistics, then what normalises
/// the residual: weight, bias, mean, rstd.
void launch_bn_act(const KernelArgs& args) {
  const bool relu = !args.attrs().str("activation").empty();
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    launch_training<typename decltype(tag)::type>(
        {args, args.has_in(5) ? 5 : -1, args.has_in(6) ? 6 : -1, relu, args.attrs().flag("mask")});
  });
}

KernelDef bn_kernel() {
  KernelDef def = simple_kernel("bn", launch_bn, refuse_unless_floating);
  def.workspace_bytes = [](const KernelQuery& query) { return statistics_bytes(query, 6); };
  return def;
}

std::string refuse_bn_act(const KernelQuery& query) {
  const std::string& activation = query.attrs.str("activation");
  if (!activation.empty() && activation != "relu") {
    return "the activation is '" + activation + "', expected none or relu";
  }
  if (!query.attrs.flag("mask")) {
    return query.in.size() > 7 ? "a residual is normalised only where a mask is made" : "";
  }
  if (size_of(query.in[0].dtype) != 2 || query.in[0].shape.back() % 8 != 0) {
    return "a mask has 8 channels a byte: expected 16-bit values and a multiple of 8 channels";
  }
  return "";
}

KernelDef bn_act_kernel() {
  KernelDef def = simple_kernel("bn_act", launch_bn_act, refuse_bn_act);
  def.workspace_bytes = [](const KernelQuery& query) { return statistics_bytes(query, 6); };
  return def;
}

/// bn_statistics: x, running_mean, running_var, statistics -> mean, rstd, next_mean, next_var.
void launch_bn_statistics(const KernelArgs& args) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_statistics<T>(args, ChannelRows::of(args.in_type(0).shape), args.in<T>(0),
                         {.running = 1, .outputs = 0, .given = args.has_in(3) ? 3 : -1});
  });
}

KernelDef bn_statistics_kernel() {
  KernelDef def = simple_kernel("bn_statistics", launch_bn_statistics);
  def.workspace_bytes = [](const KernelQuery& query) { return statistics_bytes(query, 3); };
  return def;
}

// With the running statistics.

struct FrozenScale {
  const float *var, *running_mean, *running_var;
  float *rstd, *next_mean, *next_var;  // the latter two may be null
  double eps;

  template <int N>
  __device__ void run(std::int64_t c) const {
#pragma unroll
    for (int j = 0; j < N; ++j) {
      rstd[c + j] = float(1 / sqrt(double(var[c + j]) + eps));
      if (next_mean == nullptr) continue;
      next_mean[c + j] = running_mean[c + j];
      next_var[c + j] = running_var[c + j];
    }
  }
};

/// y = act(norm(x) [+ residual]) with rstd made in the workspace.
void launch_frozen(const BnCall& call, float* next_mean, float* next_var) {
  const KernelArgs& args = call.args;
  const std::int64_t channels = args.in_type(0).shape.back();
  auto* rstd = reinterpret_cast<float*>(args.workspace());
  const float *mean = args.in<float>(3), *var = args.in<float>(4);
  launch_map<1>(args, channels, false,
                FrozenScale{var, mean, var, rstd, next_mean, next_var, args.attrs().f64("eps")});
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    launch_apply<typename decltype(tag)::type>(call,
                                               {mean, rstd, args.in<float>(1), args.in<float>(2)});
  });
}

void launch_bn_eval(const KernelArgs& args) {
  launch_frozen({args, -1, -1, false, false}, nullptr, nullptr);
}
void launch_bn_eval_act(const KernelArgs& args) {
  const bool relu = !args.attrs().str("activation").empty();
  launch_frozen({args, args.has_in(5) ? 5 : -1, -1, relu, false}, nullptr, nullptr);
}
void launch_bn_frozen(const KernelArgs& args) {
  launch_frozen({args, -1, -1, false, false}, args.out<float>(1), args.out<float>(2));
}

KernelDef frozen_kernel(std::string op, void (*launch)(const KernelArgs&),
                        std::function<std::string(const KernelQuery&)> refuse) {
  KernelDef def = simple_kernel(std::move(op), launch, std::move(refuse));
  def.workspace_bytes = [](const KernelQuery& query) {
    return query.in[0].shape.back() * std::int64_t(sizeof(float));
  };
  return def;
}

std::string refuse_eval_act(const KernelQuery& query) {
  const std::string& activation = query.attrs.str("activation");
  return activation.empty() || activation == "relu"
             ? ""
             : "the activation is '" + activation + "', expected none or relu";
}

// A bias, for convolutions.

template <typename T>
struct AddBias {
  static constexpr int kInFlight = kRowsInFlight;
  T* y;
  const float* bias;

  template <int N>
  __device__ Floats<N> channel(std::int64_t c) const {
    return Floats<N>::load(bias + c);
  }
  template <int N>
  __device__ Vector<T, N> load(const Place& at) const {
    return cuda::load<N>(y + at.i);
  }
  template <int N>
  __device__ void finish(const Floats<N>& add, Vector<T, N> values, const Place& at) const {
#pragma unroll
    for (int j = 0; j < N; ++j) values.v[j] = from_float<T>(to_float(values.v[j]) + add.v[j]);
    store(y + at.i, values);
  }
};

const KernelRegistration kBn{bn_kernel()};
const KernelRegistration kBnAct{bn_act_kernel()};
const KernelRegistration kBnStatistics{bn_statistics_kernel()};
const KernelRegistration kBnEval{frozen_kernel("bn_eval", launch_bn_eval, refuse_unless_floating)};
const KernelRegistration kBnEvalAct{
    frozen_kernel("bn_eval_act", launch_bn_eval_act, refuse_eval_act)};
const KernelRegistration kBnFrozen{
    frozen_kernel("bn_frozen", launch_bn_frozen, refuse_unless_floating)};

}  // namespace

void add_channel_bias(const KernelArgs& args, const TensorType& type, void* y, const float* bias) {
  dispatch_float(type.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_channel_map<T>(args, ChannelRows::of(type.shape), AddBias<T>{static_cast<T*>(y), bias});
  });
}

}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/onednn_conv.h"

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/onednn_shared.h"
#include "backend/cpu/partition.h"

namespace tr::cpu {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

/// Output channels that a task of pack() reorders: whole blocks of every layout that oneDNN uses.
constexpr std::int64_t kPackedChannels = 64;

/// What describes one pass to oneDNN, its W in a layout of its choice unless `weights` is given.
struct Problem {
  ConvPass pass;
  ConvGeometry geometry;
  DType dtype;
  bool bias;
  Desc weights;

  DType weights_dtype() const { return pass == ConvPass::WEIGHTS ? DType::FP32 : dtype; }
  /// [O, C, R, S], or [groups, O / groups, C / groups, R, S].
  Dims weight_dims() const {
    const ConvGeometry& g = geometry;
    if (g.groups == 1) return {g.out_channels, g.channels, g.kernel[0], g.kernel[1]};
    return {g.groups, g.out_channels / g.groups, g.channels / g.groups, g.kernel[0], g.kernel[1]};
  }
  /// W as it lies in memory: [O, R, S, C / groups].
  Desc memory_weights() const {
    const ConvGeometry& g = geometry;
    const std::int64_t in = g.channels / g.groups, row = g.kernel[1] * in,
                       filter = g.kernel[0] * row;
    Dims strides = {filter, 1, row, in};
    if (g.groups > 1) strides.insert(strides.begin(), g.out_channels / g.groups * filter);
    return {weight_dims(), onednn_type(weights_dtype()), strides};
  }
};

#if DNNL_VERSION_MAJOR >= 3
Dims dims_of(const Desc& desc) { return desc.get_dims(); }
dnnl::memory::data_type onednn_type_of(const Desc& desc) { return desc.get_data_type(); }
#else
Dims dims_of(const Desc& desc) { return desc.dims(); }
dnnl::memory::data_type onednn_type_of(const Desc& desc) { return desc.data_type(); }
#endif

Desc image(std::int64_t batch, std::int64_t height, std::int64_t width, std::int64_t channels,
           DType dtype) {
  return {{batch, channels, height, width}, onednn_type(dtype), dnnl::memory::format_tag::nhwc};
}

/// A pass made ready.
struct Primitive {
  dnnl::primitive run;
  Desc x, y, weights, bias, scratch;
  std::string implementation;

  bool is_reference() const { return implementation.starts_with("ref"); }
};

template <typename PrimitiveDesc>
Primitive finished(const PrimitiveDesc& desc, dnnl::primitive run, Desc x, Desc y, Desc weights,
                   Desc bias) {
  return {std::move(run),  std::move(x),           std::move(y),        std::move(weights),
          std::move(bias), desc.scratchpad_desc(), desc.impl_info_str()};
}

/// All of a problem that oneDNN's constructors take, in their order.
struct Arguments {
  Desc x, y, weights, bias;
  Dims stride, dilation, padding;

  explicit Arguments(const Problem& p)
      : x(image(p.geometry.batch, p.geometry.height, p.geometry.width, p.geometry.channels,
                p.dtype)),
        y(image(p.geometry.batch, p.geometry.out_height, p.geometry.out_width,
                p.geometry.out_channels, p.dtype)),
        weights(p.weights),
        stride{p.geometry.stride[0], p.geometry.stride[1]},
        dilation{p.geometry.dilation[0] - 1, p.geometry.dilation[1] - 1},
        padding{p.geometry.padding[0], p.geometry.padding[1]} {
    if (p.weights.is_zero()) {
      weights =
          Desc(p.weight_dims(), onednn_type(p.weights_dtype()), dnnl::memory::format_tag::any);
    }
    if (p.bias) {
      bias = Desc({p.geometry.out_channels}, onednn_type(DType::FP32), dnnl::memory::format_tag::x);
    }
  }
};

constexpr auto kTraining = dnnl::prop_kind::forward_training;
constexpr auto kDirect = dnnl::algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR >= 3  // which has no operation descriptors any more (Ubuntu 24.04)
dnnl::convolution_forward::primitive_desc forward_desc(const Arguments& a) {
  if (a.bias.is_zero()) {
    return {onednn_engine(),
            kTraining,
            kDirect,
            a.x,
            a.weights,
            a.y,
            a.stride,
            a.dilation,
            a.padding,
            a.padding,
            onednn_user_scratchpad()};
  }
  return {onednn_engine(), kTraining, kDirect,   a.x,
          a.weights,       a.bias,    a.y,       a.stride,
          a.dilation,      a.padding, a.padding, onednn_user_scratchpad()};
}
#else
dnnl::convolution_forward::primitive_desc forward_desc(const Arguments& a) {
  const auto desc =
      a.bias.is_zero()
          ? dnnl::convolution_forward::desc(kTraining, kDirect, a.x, a.weights, a.y, a.stride,
                                            a.dilation, a.padding, a.padding)
          : dnnl::convolution_forward::desc(kTraining, kDirect, a.x, a.weights, a.bias, a.y,
                                            a.stride, a.dilation, a.padding, a.padding);
  return {desc, onednn_user_scratchpad(), onednn_engine()};
}
#endif

/// The forward pass that a gradient wants as a hint: its weights have the dtype of the operands.
dnnl::convolution_forward::primitive_desc hint(Arguments a) {
  a.weights = Desc(dims_of(a.weights), onednn_type_of(a.x), dnnl::memory::format_tag::any);
  return forward_desc(a);
}

/// Of convolution_backward_data or convolution_backward_weights.
template <typename Gradient>
typename Gradient::primitive_desc gradient_desc(const Arguments& a) {
#if DNNL_VERSION_MAJOR >= 3
  return {onednn_engine(),
          kDirect,
          a.x,
          a.weights,
          a.y,
          a.stride,
          a.dilation,
          a.padding,
          a.padding,
          hint(a),
          onednn_user_scratchpad()};
#else
  return {{kDirect, a.x, a.weights, a.y, a.stride, a.dilation, a.padding, a.padding},
          onednn_user_scratchpad(),
          onednn_engine(),
          hint(a)};
#endif
}

Primitive make_primitive(const Problem& problem) {
  const OneThread one;
  const Arguments a(problem);
  switch (problem.pass) {
    case ConvPass::FORWARD: {
      const auto desc = forward_desc(a);
      return finished(desc, dnnl::convolution_forward(desc), a.x, a.y, desc.weights_desc(), a.bias);
    }
    case ConvPass::DATA: {
      const auto desc = gradient_desc<dnnl::convolution_backward_data>(a);
      return finished(desc, dnnl::convolution_backward_data(desc), a.x, a.y, desc.weights_desc(),
                      {});
    }
    case ConvPass::WEIGHTS: {
      const auto desc = gradient_desc<dnnl::convolution_backward_weights>(a);
      return finished(desc, dnnl::convolution_backward_weights(desc), a.x, a.y,
                      desc.diff_weights_desc(), {});
    }
  }
  throw_as<InternalError>("a convolution's pass of number {}", int(problem.pass));
}

/// Copies W between its layouts, a part of its output channels a task.
class Reorders {
 public:
  Reorders(const Desc& from, const Desc& to, std::int64_t num_copies) {
    const OneThread one;
    const auto parts = parts_of(from, to);
    count_ = std::int64_t(parts.size());
    for (std::int64_t copy = 0; copy < num_copies; ++copy) {
      for (const auto& [begin, count] : parts) tasks_.push_back(make(from, to, begin, count));
    }
  }

  std::int64_t count() const { return count_; }

  void run(std::int64_t index, std::int64_t copy, const void* from, void* to) const {
    const OneThread one;
    const Task& task = tasks_[std::size_t(copy * count_ + index)];
    const std::array<dnnl_exec_arg_t, 3> args = {
        onednn_argument(DNNL_ARG_FROM, task.from, from), onednn_argument(DNNL_ARG_TO, task.to, to),
        onednn_argument(DNNL_ARG_SCRATCHPAD, task.scratch, task.buffer.get())};
    onednn_check(dnnl_primitive_execute(task.reorder.get(), onednn_stream().get(), int(args.size()),
                                        args.data()),
                 "a reorder of weights");
  }

 private:
  struct Task {
    dnnl::reorder reorder;
    dnnl::memory from, to, scratch;
    std::unique_ptr<std::byte[]> buffer;  // in practice empty
  };

  static Desc part(const Desc& whole, std::int64_t begin, std::int64_t count) {
    Dims dims = dims_of(whole), offsets(dims.size(), 0);
    dims[0] = count, offsets[0] = begin;
    return whole.submemory_desc(dims, offsets);
  }

  static Task make(const Desc& from, const Desc& to, std::int64_t begin, std::int64_t count) {
    const bool whole = count == dims_of(from)[0];
    const Desc source = whole ? from : part(from, begin, count),
               target = whole ? to : part(to, begin, count);
    const dnnl::reorder::primitive_desc desc(onednn_engine(), source, onednn_engine(), target,
                                             onednn_user_scratchpad());
    const Desc scratch = desc.scratchpad_desc();
    return {dnnl::reorder(desc), onednn_placeholder(source), onednn_placeholder(target),
            onednn_placeholder(scratch), std::make_unique<std::byte[]>(scratch.get_size() + 1)};
  }

  /// One part, if the layouts cannot be cut or there is little to do.
  static std::vector<std::pair<std::int64_t, std::int64_t>> parts_of(const Desc& from,
                                                                     const Desc& to) {
    const std::int64_t channels = dims_of(from)[0];
    std::vector<std::pair<std::int64_t, std::int64_t>> parts;
    for (std::int64_t at = 0; at < channels; at += kPackedChannels) {
      parts.emplace_back(at, std::min(kPackedChannels, channels - at));
    }
    try {
      for (const auto& [begin, count] : parts) part(from, begin, count), part(to, begin, count);
    } catch (const dnnl::error&) {
      return {{0, channels}};
    }
    return parts;
  }

  std::int64_t count_ = 0;
  std::vector<Task> tasks_;  // copy by copy
};

class OneDnnConv final : public ConvRuns {
 public:
  OneDnnConv(const Problem& problem, std::int64_t num_runs, std::int64_t num_copies)
      : problem_(problem), num_runs_(std::max<std::int64_t>(1, num_runs)) {
    const std::int64_t batch = problem.geometry.batch;
    longer_ = primitive_of(ceil_div(batch, num_runs_), {});
    if (batch % num_runs_ != 0) make_shorter(batch / num_runs_);
    for (std::int64_t slot = 0; slot < num_copies * num_runs_; ++slot) {
      slots_.emplace_back(primitive_for(slot % num_runs_));
    }
    const Desc in_memory = problem.memory_weights();
    if (problem.pass == ConvPass::WEIGHTS) {
      reorders_.emplace(longer_.weights, in_memory, num_copies);
    } else {
      reorders_.emplace(in_memory, longer_.weights, num_copies);
    }
  }

  std::int64_t num_runs() const override { return num_runs_; }

  ImageRun images(std::int64_t run) const override {
    const std::int64_t batch = problem_.geometry.batch, begin = run * batch / num_runs_;
    return {begin, (run + 1) * batch / num_runs_ - begin};
  }

  std::int64_t packed_bytes() const override { return std::int64_t(longer_.weights.get_size()); }

  std::int64_t scratch_bytes() const override {
    const std::size_t shorter = shorter_ ? shorter_->scratch.get_size() : 0;
    return round_up(std::int64_t(std::max(longer_.scratch.get_size(), shorter)), 64);
  }

  const std::string& implementation() const override { return longer_.implementation; }

  std::int64_t num_pack_tasks() const override { return reorders_->count(); }
  void pack(std::int64_t task, const void* weight, std::byte* packed) const override {
    reorders_->run(task, 0, weight, packed);
  }
  void unpack(std::int64_t task, std::int64_t copy, const std::byte* packed,
              float* dweight) const override {
    reorders_->run(task, copy, packed, dweight);
  }

  void run(std::int64_t run, std::int64_t copy, const Operands& o) const override {
    const OneThread one;
    const Slot& slot = slots_[std::size_t(copy * num_runs_ + run)];
    const ConvPass pass = problem_.pass;
    const bool forward = pass == ConvPass::FORWARD, data = pass == ConvPass::DATA;
    const int x = data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    const int y = forward ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    const int w = pass == ConvPass::WEIGHTS ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    std::array<dnnl_exec_arg_t, 5> args = {
        onednn_argument(x, slot.x, o.x), onednn_argument(y, slot.y, o.y),
        onednn_argument(w, slot.weights, o.packed),
        onednn_argument(DNNL_ARG_SCRATCHPAD, slot.scratch, o.scratch)};
    int count = 4;
    if (problem_.bias) {
      args[std::size_t(count++)] = onednn_argument(DNNL_ARG_BIAS, slot.bias, o.bias);
    }
    onednn_check(dnnl_primitive_execute(primitive_for(run).run.get(), onednn_stream().get(), count,
                                        args.data()),
                 "a convolution");
  }

 private:
  /// Memory objects carry the addresses of one execution, so every run has its own.
  struct Slot {
    explicit Slot(const Primitive& p)
        : x(onednn_placeholder(p.x)),
          y(onednn_placeholder(p.y)),
          weights(onednn_placeholder(p.weights)),
          scratch(onednn_placeholder(p.scratch)) {
      if (!p.bias.is_zero()) bias = onednn_placeholder(p.bias);
    }
    dnnl::memory x, y, weights, scratch, bias;
  };

  Primitive primitive_of(std::int64_t batch, const Desc& weights) const {
    Problem part = problem_;
    part.geometry.batch = batch;
    part.weights = weights;
    return make_primitive(part);
  }

  /// Runs of another length must take W in the same layout, and by a real implementation.
  void make_shorter(std::int64_t batch) {
    try {
      Primitive shorter = primitive_of(batch, longer_.weights);
      if (!shorter.is_reference() || longer_.is_reference()) {
        shorter_ = std::move(shorter);
        return;
      }
    } catch (const dnnl::error&) {  // no implementation with that layout
    }
    num_runs_ = 1;
    longer_ = primitive_of(problem_.geometry.batch, {});
  }

  const Primitive& primitive_for(std::int64_t run) const {
    const bool is_longer = images(run).count * num_runs_ >= problem_.geometry.batch;
    return is_longer || !shorter_ ? longer_ : *shorter_;
  }

  Problem problem_;
  std::int64_t num_runs_;
  Primitive longer_;
  std::optional<Primitive> shorter_;
  std::vector<Slot> slots_;
  std::optional<Reorders> reorders_;
};

}  // namespace

std::unique_ptr<ConvRuns> make_onednn_conv(ConvPass pass, const ConvGeometry& geometry, DType dtype,
                                           bool bias, std::int64_t num_runs,
                                           std::int64_t num_copies) {
  try {
    return std::make_unique<OneDnnConv>(Problem{pass, geometry, dtype, bias, {}}, num_runs,
                                        num_copies);
  } catch (const dnnl::error& error) {
    throw_as<DeviceError>("oneDNN: no {} convolution of {} by {}: {}", name_of(dtype),
                          geometry.x_shape(), geometry.weight_shape(), error.what());
  }
}

}  // namespace tr::cpu

// SPDX-License-Identifier: Apache-2.0
// conv, conv_dx and conv_dweight by cuDNN. A bias is added by a kernel of ours, its gradient is a
// sum over rows; the weights' gradient comes out in the operands' dtype and is widened.
#include "backend/cuda/channel_bias.h"
#include "backend/cuda/conv_plan.h"
#include "backend/cuda/fc_epilogue.h"
#include "backend/cuda/launch.h"
#include "backend/cuda/widen.h"
#include "backend/cuda/workspace_layout.h"
#include "core/check.h"
#include "core/format.h"

namespace tr::cuda {
namespace {

bool has_device() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess && count > 0) return true;
  cudaGetLastError();
  return false;
}

/// What cuDNN is asked for in place of a node; x is the feature map that comes in.
ConvProblem problem_of(ConvDirection direction, const Attrs& attrs, const TensorType& x,
                       bool tf32) {
  ConvProblem problem;
  problem.direction = direction;
  problem.geometry = conv_geometry(attrs, x);
  problem.dtype = x.dtype;
  problem.tf32 = tf32;
  return problem;
}

/// Workspace of a plan where there is no device to ask.
constexpr std::int64_t kAssumedWorkspace = std::int64_t{32} << 20;

/// Where a device is there, the plan is made now: its workspace is known, and a refusal lets the
/// next candidate have the node. With an engine's name, as a table has it, no other is asked for.
std::string refuse_problem(const ConvProblem& problem, std::string_view engine) {
  if (problem.geometry.y_shape().num_elements() == 0 ||
      problem.geometry.x_shape().num_elements() == 0) {
    return "the convolution is empty";
  }
  if (!has_device()) return "";
  try {
    std::string why;
    return conv_plan(problem, engine, why) == nullptr ? why : "";
  } catch (const Unsupported& missing) {
    return missing.what();
  }
}

std::int64_t plan_workspace(const ConvProblem& problem, std::string_view engine) {
  if (!has_device()) return kAssumedWorkspace;
  std::string why;
  const auto plan = conv_plan(problem, engine, why);
  return plan == nullptr ? 0 : plan->workspace_bytes();
}

/// A problem with its plan.
class Convolution {
 public:
  Convolution(const ConvProblem& problem, std::string_view engine) : problem_(problem) {
    std::string why;
    plan_ = conv_plan(problem, engine, why);
    if (plan_ == nullptr) throw_as<Unsupported>("cudnn: {}: {}", problem.text(), why);
  }
  void run(const KernelArgs& args, const ConvOperands& operands) const {
    plan_->run(stream_of(args), problem_, operands);
  }

 private:
  ConvProblem problem_;
  std::shared_ptr<const ConvPlan> plan_;
};

/// x, weight [, bias] -> y [, statistics].
class ConvForward final : public PreparedKernel {
 public:
  static ConvProblem problem(const KernelQuery& query, bool tf32) {
    ConvProblem problem = problem_of(ConvDirection::FORWARD, query.attrs, query.in[0], tf32);
    problem.statistics = query.out.size() > 1;
    return problem;
  }
  static std::int64_t workspace_bytes(const KernelQuery& query, bool tf32) {
    return plan_workspace(problem(query, tf32), query.config);
  }
  ConvForward(const KernelQuery& query, bool tf32) : conv_(problem(query, tf32), query.config) {}

  void run(const KernelArgs& args) const override {
    auto* y = args.out<std::byte>(0);
    ConvOperands operands{.x = args.in<std::byte>(0),
                          .weight = args.in<std::byte>(1),
                          .y = y,
                          .workspace = args.workspace()};
    if (args.num_out() > 1) {
      operands.sum = args.out<float>(1);
      operands.sum_of_squares = operands.sum + args.out_type(0).shape.back();
    }
    conv_.run(args, operands);
    if (args.has_in(2)) add_channel_bias(args, args.out_type(0), y, args.in<float>(2));
  }

 private:
  Convolution conv_;
};

/// dy, weight, x (type only) -> dx.
class ConvData final : public PreparedKernel {
 public:
  static ConvProblem problem(const KernelQuery& query, bool tf32) {
    return problem_of(ConvDirection::DATA, query.attrs, query.out[0], tf32);
  }
  static std::int64_t workspace_bytes(const KernelQuery& query, bool tf32) {
    return plan_workspace(problem(query, tf32), query.config);
  }
  ConvData(const KernelQuery& query, bool tf32) : conv_(problem(query, tf32), query.config) {}

  void run(const KernelArgs& args) const override {
    conv_.run(args, {.x = args.out<std::byte>(0),
                     .weight = args.in<std::byte>(1),
                     .y = args.in<std::byte>(0),
                     .workspace = args.workspace()});
  }

 private:
  Convolution conv_;
};

/// dy, x -> dweight (fp32) [, dbias].
class ConvWeight final : public PreparedKernel {
 public:
  static ConvProblem problem(const KernelQuery& query, bool tf32) {
    return problem_of(ConvDirection::WEIGHT, query.attrs, query.in[1], tf32);
  }
  static std::int64_t workspace_bytes(const KernelQuery& query, bool tf32) {
    return Layout(query.in[0], query.out, plan_workspace(problem(query, tf32), query.config)).bytes;
  }
  ConvWeight(const KernelQuery& query, bool tf32)
      : conv_(problem(query, tf32), query.config),
        layout_(query.in[0], query.out, plan_workspace(problem(query, tf32), query.config)) {}

  void run(const KernelArgs& args) const override {
    auto* dweight = args.out<float>(0);
    void* result = layout_.staged ? static_cast<void*>(args.workspace() + layout_.staging)
                                  : static_cast<void*>(dweight);
    const auto* dy = args.in<std::byte>(0);
    conv_.run(
        args,
        {.x = args.in<std::byte>(1), .weight = result, .y = dy, .workspace = args.workspace()});
    if (layout_.staged) {
      widen(args, args.in_type(0).dtype, result, dweight, args.out_type(0).shape.num_elements());
    }
    if (args.num_out() > 1) {
      layout_.sums.run(args, dy, args.out<float>(1), args.workspace() + layout_.partials);
    }
  }

 private:
  /// Workspace: cuDNN's first.
  struct Layout {
    bool staged = false;
    std::int64_t staging = 0, partials = 0, bytes = 0;
    ColumnSums sums;

    Layout(const TensorType& dy, std::span<const TensorType> out, std::int64_t plan_bytes)
        : staged(dy.dtype != DType::FP32),
          sums{.rows = dy.shape.num_elements() / std::max<std::int64_t>(1, dy.shape.back()),
               .columns = dy.shape.back(),
               .dtype = dy.dtype} {
      WorkspaceLayout layout;
      layout.reserve(plan_bytes);
      if (staged) {
        staging = layout.reserve(out[0].shape.num_elements() * std::int64_t(size_of(dy.dtype)));
      }
      if (out.size() > 1) partials = layout.reserve(sums.workspace_bytes());
      bytes = layout.bytes();
    }
  };

  Convolution conv_;
  Layout layout_;
};

template <typename Kernel>
std::string refuse(const KernelQuery& query, bool tf32) {
  const ConvProblem problem = Kernel::problem(query, tf32);
  if (tf32 && problem.dtype != DType::FP32) {
    return fmt::format("operands are {}, expected fp32 (which TF32 stands for)", problem.dtype);
  }
  return refuse_problem(problem, query.config);
}

template <typename Kernel>
KernelDef conv_kernel(const std::string& op, bool tf32) {
  KernelDef def;
  def.op = op;
  def.device = DeviceKind::CUDA;
  def.name = fmt::format("cuda.{}.cudnn{}", op, tf32 ? "_tf32" : "");
  def.refuse = [tf32](const KernelQuery& query) { return refuse<Kernel>(query, tf32); };
  def.workspace_bytes = [tf32](const KernelQuery& query) {
    return Kernel::workspace_bytes(query, tf32);
  };
  def.configs = [tf32](const KernelQuery& query) {
    return conv_engines(Kernel::problem(query, tf32));
  };
  def.refuse_config = [tf32](const KernelQuery& query) {
    std::string why;
    return conv_plan(Kernel::problem(query, tf32), query.config, why) == nullptr ? why : "";
  };
  def.prepare = [tf32](const KernelQuery& query, int) -> std::unique_ptr<PreparedKernel> {
    return std::make_unique<Kernel>(query, tf32);
  };
  return def;
}

/// cuDNN's convolution with sums of its result: it says of its engines that they repeat, but the
/// sums of FP16 results differ from run to run (seen with cuDNN 9.19 on an H200).
KernelDef statistics_kernel(bool tf32) {
  KernelDef def = conv_kernel<ConvForward>("conv_statistics", tf32);
  def.repeatable = false;
  return def;
}

const std::vector<KernelRegistration> kKernels = [] {
  std::vector<KernelRegistration> all;
  for (const bool tf32 : {true, false}) {
    const int priority = tf32 ? 11 : 10;
    all.emplace_back(conv_kernel<ConvForward>("conv", tf32), priority);
    all.emplace_back(statistics_kernel(tf32), priority);
    all.emplace_back(conv_kernel<ConvData>("conv_dx", tf32), priority);
    all.emplace_back(conv_kernel<ConvWeight>("conv_dweight", tf32), priority);
  }
  return all;
}();

}  // namespace
}  // namespace tr::cuda

// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conv_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>

#include "backend/cuda/check.h"
#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kAlignment = 16;  // bytes, of every operand
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kWorkspaceLimit = 256 * kMiB;

/// Numbers by which a launch names the operands.
enum Uid : std::int64_t { X = 1, WEIGHT, Y, SUM, SUM_OF_SQUARES };

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::FP32: return CUDNN_DATA_FLOAT;
    case DType::FP16: return CUDNN_DATA_HALF;
    case DType::BF16: return CUDNN_DATA_BFLOAT16;
    default: throw_as<InternalError>("cudnn: there are no convolutions of {}", dtype);
  }
}

/// A tensor [n, c, h, w] that lies as [n, h, w, c].
CudnnDescriptor make_tensor(Uid uid, cudnnDataType_t type, std::int64_t n, std::int64_t c,
                            std::int64_t h, std::int64_t w) {
  const std::array<std::int64_t, 4> dims = {n, c, h, w}, strides = {h * w * c, 1, w * c, c};
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, dims);
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, strides);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, std::int64_t(uid));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
  tensor.finalize();
  return tensor;
}

CudnnDescriptor make_convolution(const ConvGeometry& g) {
  CudnnDescriptor conv(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  conv.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_DATA_FLOAT);
  conv.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  conv.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, std::int64_t{2});
  conv.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, std::span(g.padding));
  conv.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, std::span(g.padding));
  conv.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, std::span(g.stride));
  conv.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, std::span(g.dilation));
  conv.finalize();
  return conv;
}

/// Names of one direction's attributes.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t conv, x, weight, y, alpha, beta;
};

OperationNames names_of(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::FORWARD:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvDirection::DATA:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvDirection::WEIGHT:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
  }
  throw_as<InternalError>("cudnn: unknown direction {}", int(direction));
}

/// The descriptors of a graph; the last `num_operations` are its operations.
struct GraphParts {
  std::vector<CudnnDescriptor> all;
  std::size_t num_operations = 0;
};

GraphParts make_parts(const ConvProblem& problem) {
  const ConvGeometry& g = problem.geometry;
  const cudnnDataType_t type = type_of(problem.dtype);
  GraphParts parts;
  auto& all = parts.all;
  all.push_back(make_tensor(X, type, g.batch, g.channels, g.height, g.width));
  all.push_back(
      make_tensor(WEIGHT, type, g.out_channels, g.channels / g.groups, g.kernel[0], g.kernel[1]));
  all.push_back(make_tensor(Y, type, g.batch, g.out_channels, g.out_height, g.out_width));
  all.push_back(make_convolution(g));
  if (problem.statistics) {
    all.push_back(make_tensor(SUM, CUDNN_DATA_FLOAT, 1, g.out_channels, 1, 1));
    all.push_back(make_tensor(SUM_OF_SQUARES, CUDNN_DATA_FLOAT, 1, g.out_channels, 1, 1));
  }
  const OperationNames names = names_of(problem.direction);
  CudnnDescriptor operation(names.type);
  operation.set(names.x, all[0]);
  operation.set(names.weight, all[1]);
  operation.set(names.y, all[2]);
  operation.set(names.conv, all[3]);
  operation.set(names.alpha, 1.0f);
  operation.set(names.beta, 0.0f);
  operation.finalize();
  all.push_back(std::move(operation));
  parts.num_operations = 1;
  if (problem.statistics) {
    CudnnDescriptor statistics(CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR);
    const cudnnGenStatsMode_t mode = CUDNN_GENSTATS_SUM_SQSUM;
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MODE, CUDNN_TYPE_GENSTATS_MODE, 1, &mode);
    // The precompiled engine wants that of y; its sums are fp32 nevertheless.
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_MATH_PREC, type);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_XDESC, all[2]);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, all[4]);
    statistics.set(CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, all[5]);
    statistics.finalize();
    all.push_back(std::move(statistics));
    parts.num_operations = 2;
  }
  return parts;
}

void set_handle(CudnnDescriptor& descriptor, cudnnBackendAttributeName_t name,
                cudnnHandle_t handle) {
  descriptor.set(name, CUDNN_TYPE_HANDLE, 1, &handle);
}

// Newer releases take the device from elsewhere where these are left out; older ones need them.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr cudnnBackendAttributeName_t kGraphHandle = CUDNN_ATTR_OPERATIONGRAPH_HANDLE;
constexpr cudnnBackendAttributeName_t kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

CudnnDescriptor make_graph(const GraphParts& parts, cudnnHandle_t handle) {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (std::size_t i = parts.all.size() - parts.num_operations; i < parts.all.size(); ++i) {
    operations.push_back(parts.all[i].get());
  }
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
            std::int64_t(operations.size()), operations.data());
  if (handle != nullptr) set_handle(graph, kGraphHandle, handle);
  graph.finalize();
  return graph;
}

/// The engine of a configuration: a descriptor that cuDNN fills.
CudnnDescriptor engine_of(const CudnnDescriptor& config) {
  CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t raw = engine.get();
  config.get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &raw);
  return engine;
}

std::string name_of(const CudnnDescriptor& config, const CudnnDescriptor& engine) {
  std::int64_t index = -1;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  std::string name = fmt::format("eng{}", index);
  std::vector<CudnnDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int i = 0; i < CUDNN_KNOB_TYPE_COUNTS; ++i) {
    choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    raw.push_back(choices.back().get());
  }
  const std::int64_t knobs =
      config.get(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                 std::int64_t(raw.size()), raw.data());
  choices.erase(choices.begin() + std::min<std::ptrdiff_t>(knobs, std::ssize(choices)),
                choices.end());
  for (const CudnnDescriptor& choice : choices) {
    cudnnBackendKnobType_t type{};
    std::int64_t value = 0;
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &type);
    choice.get(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &value);
    name += fmt::format("_k{}={}", int(type), value);
  }
  return name;
}

bool is_worth_measuring_engine(const CudnnDescriptor& engine) {
  std::int64_t index = -1;
  engine.get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &index);
  if (index <= 1) return false;
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                        std::int64_t(notes.size()), notes.data());
  const auto end = notes.begin() + std::min<std::ptrdiff_t>(count, std::ssize(notes));
  return std::find(notes.begin(), end, CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) == end;
}

/// Whether results repeat and operands are taken as exactly as the run wants.
bool is_allowed(const CudnnDescriptor& engine, const ConvProblem& problem) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::int64_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                        std::int64_t(notes.size()), notes.data());
  const bool exact = problem.dtype == DType::FP32 && !problem.tf32;
  for (std::int64_t i = 0; i < std::min(count, std::int64_t(notes.size())); ++i) {
    switch (notes[std::size_t(i)]) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: return false;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: return false;
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        if (problem.dtype == DType::FP32) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        if (exact) return false;
        break;
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      case CUDNN_NUMERICAL_NOTE_FFT:
        return false;  // they err by more than sums in another order do
      default: break;
    }
  }
  return true;
}

}  // namespace

std::string ConvProblem::text() const {
  const ConvGeometry& g = geometry;
  constexpr const char* kNames[] = {"conv", "conv_dx", "conv_dweight"};
  return fmt::format("{} {}{}{} x{} w{} stride {},{} padding {},{} dilation {},{} groups {}",
                     kNames[int(direction)], dtype, tf32 ? " tf32" : "",
                     statistics ? " statistics" : "", g.x_shape(), g.weight_shape(), g.stride[0],
                     g.stride[1], g.padding[0], g.padding[1], g.dilation[0], g.dilation[1],
                     g.groups);
}

void ConvPlan::run(cudaStream_t stream, const ConvProblem& problem,
                   const ConvOperands& operands) const {
  std::array<std::int64_t, 5> uids = {X, WEIGHT, Y, SUM, SUM_OF_SQUARES};
  std::array<const void*, 5> addresses = {operands.x, operands.weight, operands.y, operands.sum,
                                          operands.sum_of_squares};
  const std::int64_t count = problem.statistics ? 5 : 3;
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uids.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, addresses.data());
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &operands.workspace);
  pack.finalize();
  // A handle goes to one stream at a time; threads of a process share the device's.
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  cudnnHandle_t handle = cudnn_handle();
  cudnn().check(cudnn().set_stream(handle, stream), "cudnnSetStream");
  cudnn().check(cudnn().execute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
}

ConvCandidates::ConvCandidates(const ConvProblem& problem, const ConvTarget& target)
    : problem_(problem), target_(target), graph_(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
  GraphParts parts = make_parts(problem);
  graph_ = make_graph(parts, target.handle);
  parts_ = std::move(parts.all);
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    add_engines(mode);
  }
}

void ConvCandidates::add_engines(cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (target_.properties != nullptr) {
    heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target_.properties);
  }
  if (!heuristics.try_finalize().empty()) return;  // none of this kind
  const std::int64_t there =
      heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  if (there == 0) return;
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t i = 0; i < there; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    raw.push_back(configs.back().get());
  }
  const std::int64_t count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, there, raw.data());
  for (std::int64_t i = 0; i < count; ++i) {
    CudnnDescriptor& config = configs[std::size_t(i)];
    const CudnnDescriptor engine = engine_of(config);
    std::string name = name_of(config, engine);
    const bool known = std::any_of(engines_.begin(), engines_.end(),
                                   [&](const Engine& e) { return e.name == name; });
    if (known || !is_allowed(engine, problem_)) continue;
    const bool worth = is_worth_measuring_engine(engine);
    engines_.push_back({std::move(config), std::move(name), worth});
  }
}

std::unique_ptr<ConvPlan> ConvCandidates::build(int i, std::int64_t workspace_limit,
                                                std::string& why) const {
  const Engine& engine = engines_[std::size_t(i)];
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  if (target_.handle != nullptr) {
    set_handle(plan, kPlanHandle, target_.handle);
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target_.properties);
  }
  why = plan.try_finalize();
  if (!why.empty()) return nullptr;
  std::int64_t bytes = 0;
  plan.get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes);
  if (bytes > workspace_limit) {
    why = fmt::format("it wants {} MiB of workspace, at most {} are given", bytes / kMiB,
                      workspace_limit / kMiB);
    return nullptr;
  }
  return std::make_unique<ConvPlan>(std::move(plan), engine.name, bytes);
}

int ConvCandidates::find(std::string_view name) const {
  for (int i = 0; i < size(); ++i) {
    if (engines_[std::size_t(i)].name == name) return i;
  }
  return -1;
}

namespace {

/// What is known of one problem on one device.
class KnownProblem {
 public:
  explicit KnownProblem(const ConvProblem& problem) : problem_(problem) {
    try {
      candidates_.emplace(problem, ConvTarget{.handle = cudnn_handle()});
      if (candidates_->size() == 0) why_none_ = "cuDNN has no engine for it";
    } catch (const DeviceError& error) {  // the graph itself is refused
      why_none_ = error.what();
    }
    if (!why_none_.empty()) log(LogLevel::DEBUG, "cudnn: {}: {}", problem.text(), why_none_);
  }

  std::shared_ptr<const ConvPlan> plan(std::string_view engine, std::string& why) {
    if (!why_none_.empty()) {
      why = why_none_;
      return nullptr;
    }
    Built& built = plans_.try_emplace(std::string(engine)).first->second;
    if (built.plan == nullptr && built.why.empty()) {
      if (engine.empty()) {
        build_first(built);
      } else if (const int i = candidates_->find(engine); i >= 0) {
        built.plan = candidates_->build(i, kWorkspaceLimit, built.why);
      } else {
        built.why = fmt::format("cuDNN offers no engine {}", engine);
      }
    }
    why = built.why;
    return built.plan;
  }

  std::vector<std::string> engines() const {
    std::vector<std::string> names;
    for (int i = 0; candidates_ && i < candidates_->size(); ++i) {
      if (candidates_->is_worth_measuring(i)) names.push_back(candidates_->name(i));
    }
    return names;
  }

 private:
  struct Built {
    std::shared_ptr<const ConvPlan> plan;
    std::string why;
  };

  void build_first(Built& built) {
    std::string first_reason;
    for (int i = 0; i < candidates_->size(); ++i) {
      std::string reason;
      built.plan = candidates_->build(i, kWorkspaceLimit, reason);
      if (built.plan != nullptr) return;
      log(LogLevel::DEBUG, "cudnn: {} refuses {}: {}", candidates_->name(i), problem_.text(),
          reason);
      if (first_reason.empty()) first_reason = candidates_->name(i) + ": " + reason;
    }
    built.why = first_reason;
  }

  ConvProblem problem_;
  std::optional<ConvCandidates> candidates_;
  std::string why_none_;
  std::map<std::string, Built> plans_;  // by engine
};

/// Calls f(KnownProblem&) under a lock.
template <typename F>
auto with_problem(const ConvProblem& problem, F&& f) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, KnownProblem> known;
  int device = 0;
  TR_CUDA(cudaGetDevice(&device));
  const std::pair key{device, problem.text()};
  const std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found == known.end()) found = known.emplace(key, KnownProblem(problem)).first;
  return f(found->second);
}

}  // namespace

std::shared_ptr<const ConvPlan> conv_plan(const ConvProblem& problem, std::string_view engine,
                                          std::string& why) {
  return with_problem(problem, [&](KnownProblem& known) { return known.plan(engine, why); });
}

std::vector<std::string> conv_engines(const ConvProblem& problem) {
  return with_problem(problem, [](KnownProblem& known) { return known.engines(); });
}

}  // namespace tr::cuda

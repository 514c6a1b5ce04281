// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/conv_plan.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "backend/cuda/check.h"
#include "core/check.h"
#include "core/format.h"
#include "core/log.h"

namespace tr::cuda {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kWorkspaceLimit = 256 * kMiB;

// Newer releases take the device from elsewhere where this is left out; older ones need it.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
constexpr cudnnBackendAttributeName_t kPlanHandle = CUDNN_ATTR_EXECUTION_PLAN_HANDLE;
#pragma GCC diagnostic pop

}  // namespace

void ConvPlan::run(cudaStream_t stream, const ConvProblem& problem,
                   const ConvOperands& operands) const {
  std::array<std::int64_t, 5> uids = {kConvX, kConvWeight, kConvY, kConvSum, kConvSumOfSquares};
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

std::unique_ptr<ConvPlan> ConvPlan::build(const ConvGraph& graph, const ConvEngine& engine,
                                          std::int64_t workspace_limit, std::string& why) {
  const ConvTarget& target = graph.target();
  CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine.config);
  if (target.handle != nullptr) {
    plan.set(kPlanHandle, CUDNN_TYPE_HANDLE, 1, &target.handle);
  } else {
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.properties);
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
  return std::unique_ptr<ConvPlan>(new ConvPlan(std::move(plan), bytes));
}

ConvPlans::ConvPlans(const ConvProblem& problem, const ConvTarget& target) : problem_(problem) {
  try {
    graph_.emplace(problem, target);
  } catch (const DeviceError& error) {
    why_none_ = error.what();
    log(LogLevel::DEBUG, "cudnn: {}: {}", problem.text(), why_none_);
  }
}

const std::vector<ConvEngine>& ConvPlans::offered() {
  if (offered_) return *offered_;
  offered_.emplace();
  try {
    if (graph_) offered_ = offered_engines(*graph_);
    if (offered_->empty() && why_none_.empty()) why_none_ = "cuDNN has no engine for it";
  } catch (const DeviceError& error) {
    why_none_ = error.what();
  }
  if (offered_->empty()) log(LogLevel::DEBUG, "cudnn: {}: {}", problem_.text(), why_none_);
  return *offered_;
}

std::shared_ptr<const ConvPlan> ConvPlans::plan(std::string_view engine, std::string& why) {
  auto found = plans_.find(engine);
  if (found == plans_.end()) {
    found = plans_.emplace(engine, Built()).first;
    engine.empty() ? build_first(found->second) : build_named(engine, found->second);
  }
  why = found->second.why;
  return found->second.plan;
}

std::vector<std::string> ConvPlans::worth_measuring() {
  std::vector<std::string> names;
  for (const ConvEngine& engine : offered()) {
    if (engine.worth_measuring) names.push_back(engine.name);
  }
  return names;
}

void ConvPlans::build_first(Built& built) {
  for (const ConvEngine& engine : offered()) {
    std::string reason;
    built.plan = ConvPlan::build(*graph_, engine, kWorkspaceLimit, reason);
    if (built.plan != nullptr) {
      built.why.clear();
      return;
    }
    log(LogLevel::DEBUG, "cudnn: {} refuses {}: {}", engine.name, problem_.text(), reason);
    if (built.why.empty()) built.why = engine.name + ": " + reason;
  }
  if (built.why.empty()) built.why = why_none_;
}

void ConvPlans::build_named(std::string_view name, Built& built) {
  if (!graph_) {
    built.why = why_none_;
    return;
  }
  try {
    named_.push_back(named_engine(*graph_, name));
    built.plan = ConvPlan::build(*graph_, named_.back(), kWorkspaceLimit, built.why);
    if (built.plan != nullptr) return;
  } catch (const DeviceError& error) {
    built.why = error.what();
  }
  log(LogLevel::DEBUG, "cudnn: {} is not built by its name for {}: {}", name, problem_.text(),
      built.why);
  const std::vector<ConvEngine>& all = offered();
  const auto engine =
      std::find_if(all.begin(), all.end(), [&](const ConvEngine& one) { return one.name == name; });
  if (engine != all.end()) {
    built.plan = ConvPlan::build(*graph_, *engine, kWorkspaceLimit, built.why);
  } else {
    built.why = fmt::format("cuDNN offers no engine {}", name);
  }
}

namespace {

/// Calls f(ConvPlans&) under a lock.
template <typename F>
auto with_problem(const ConvProblem& problem, F&& f) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, ConvPlans> known;
  int device = 0;
  TR_CUDA(cudaGetDevice(&device));
  const std::pair key{device, problem.text()};
  const std::lock_guard lock(mutex);
  auto found = known.find(key);
  if (found == known.end()) {
    found = known.try_emplace(key, problem, ConvTarget{.handle = cudnn_handle()}).first;
  }
  return f(found->second);
}

}  // namespace

std::shared_ptr<const ConvPlan> conv_plan(const ConvProblem& problem, std::string_view engine,
                                          std::string& why) {
  return with_problem(problem, [&](ConvPlans& known) { return known.plan(engine, why); });
}

std::vector<std::string> conv_engines(const ConvProblem& problem) {
  return with_problem(problem, [](ConvPlans& known) { return known.worth_measuring(); });
}

}  // namespace tr::cuda

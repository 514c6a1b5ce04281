// SPDX-License-Identifier: Apache-2.0
#pragma once

// Convolutions made ready to run by cuDNN.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/conv_engine.h"
#include "backend/cuda/conv_graph.h"

namespace tr::cuda {

/// Addresses of a launch. `result` is the one that the direction computes.
struct ConvOperands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* y = nullptr;
  float* sum = nullptr;
  float* sum_of_squares = nullptr;
  void* workspace = nullptr;
};

/// An engine with its settings, made ready.
class ConvPlan {
 public:
  /// Null if the engine refuses or wants more than `workspace_limit` bytes; `why` then says so.
  static std::unique_ptr<ConvPlan> build(const ConvGraph& graph, const ConvEngine& engine,
                                         std::int64_t workspace_limit, std::string& why);

  std::int64_t workspace_bytes() const { return workspace_bytes_; }
  /// Only enqueues, by the current device's handle.
  void run(cudaStream_t stream, const ConvProblem& problem, const ConvOperands& operands) const;

 private:
  ConvPlan(CudnnDescriptor plan, std::int64_t workspace_bytes)
      : plan_(std::move(plan)), workspace_bytes_(workspace_bytes) {}

  CudnnDescriptor plan_;
  std::int64_t workspace_bytes_;
};

/// All that is known of one problem at one place: its graph, its engines and their plans, each made
/// when it is first asked for.
class ConvPlans {
 public:
  ConvPlans(const ConvProblem& problem, const ConvTarget& target);

  /// The plan of `engine`: by its name alone where cuDNN takes it so, else as the heuristics offer
  /// it. No name: of the heuristics' first that builds. Null if there is none; `why` then says so.
  std::shared_ptr<const ConvPlan> plan(std::string_view engine, std::string& why);
  /// Names of the heuristics' engines that a measurement may tell apart, the most promising first.
  std::vector<std::string> worth_measuring();
  /// Whether cuDNN's heuristics have been asked, which takes far longer than a plan of a name.
  bool has_asked_heuristics() const { return offered_.has_value(); }

 private:
  struct Built {
    std::shared_ptr<const ConvPlan> plan;
    std::string why;
  };
  const std::vector<ConvEngine>& offered();
  void build_first(Built& built);
  void build_named(std::string_view name, Built& built);

  ConvProblem problem_;
  std::optional<ConvGraph> graph_;
  std::string why_none_;
  std::optional<std::vector<ConvEngine>> offered_;
  std::vector<ConvEngine> named_;                    // as long as plans may refer to them
  std::map<std::string, Built, std::less<>> plans_;  // by engine
};

/// The plan of `engine` for a problem on the current device, made once and kept; no name: of the
/// first candidate that builds. Null if there is none; `why` then says so.
/// @throws Unsupported  cuDNN is missing.
std::shared_ptr<const ConvPlan> conv_plan(const ConvProblem& problem, std::string_view engine,
                                          std::string& why);

/// Engines that a measurement may tell apart, the most promising first.
std::vector<std::string> conv_engines(const ConvProblem& problem);

}  // namespace tr::cuda
